"""The sweep job, in a form that takes seconds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from jobs.sweep import digit_batches
from jobs.sweep_models import Logistic
from tests.conftest import ROOT, run_spark


def test_a_linear_model_learns_the_digits() -> None:
    batches = digit_batches()
    model, params = Logistic(64, 10), {"lr": 0.2, "momentum": 0.9, "seed": 0}
    state = model.init(params, np)
    losses = [float(model.step(state, batch, params, np)["loss"]) for batch in batches * 3]
    assert np.mean(losses[-10:]) < 0.5 * losses[0]


@pytest.mark.spark
def test_four_sweeps_find_a_best_trial_and_write_pages(tmp_path: Path) -> None:
    summary = tmp_path / "summary.json"
    arguments = ["--trials", "4", "--iterations", "30", "--flights", "512"]
    result = run_spark(
        tmp_path,
        ROOT / "jobs" / "sweep.py",
        *arguments,
        "--json",
        str(summary),
        "--html",
        str(tmp_path / "pages"),
        conf={"spark.executorEnv.PYTHONPATH": str(ROOT)},
        dagopt=False,
    ).ok()
    best = json.loads(summary.read_text())["best"]
    assert len(best) == 4
    assert all(loss is not None and np.isfinite(loss) for loss in best.values())
    assert "of the iterations merged" in result.stdout
    assert len(list((tmp_path / "pages").glob("*.html"))) == 4
