"""A phase's rank by itself."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from dagopt.train.job import TrainJob
from dagopt.train.worker import PhaseOutcome, PhaseWork, Worker, packed


def run(content: bytes) -> PhaseOutcome:
    work = PhaseWork(rank=0, size=1, number=0, first=0, phase_s=1.0, look_s=0.1, state="")
    return Worker(broadcast=SimpleNamespace(value=content))(work, ["localhost"])


class Growing:
    """Its gradients have one number, and then two."""

    num_examples = 12

    def init(self, seed: int) -> dict[str, Any]:  # noqa: ARG002
        return {"calls": 0}

    def batch(self, indices: Any) -> Any:
        return indices

    def gradients(self, state: Any, batch: Any) -> tuple[float, Any]:  # noqa: ARG002
        state["calls"] += 1
        return 1.0, {"w": np.ones(min(2, state["calls"]))}

    def update(self, state: Any, gradients: Any, iteration: int) -> None:
        """Never called."""


def test_gradients_whose_size_changes_are_an_error(tmp_path: Path) -> None:
    """numpy would spread one number over two."""
    job = TrainJob(name="one", training=Growing(), num_iterations=2, global_batch=12)
    outcome = run(packed(job, str(tmp_path)))
    assert outcome.error.splitlines()[-1] == (
        "ValueError: gradients are 2 numbers, those before were 1"
    )


def test_a_module_that_executors_lack_is_named_with_what_helps(tmp_path: Path) -> None:
    job = b"cmy_models\nModel\n."  # a pickle that imports it
    content = pickle.dumps((job, str(tmp_path), 10.0))
    outcome = run(content)
    assert outcome.error.splitlines()[-1] == (
        "ModuleNotFoundError: No module named 'my_models': executors need it too, by"
        " spark.sparkContext.addPyFile or spark.executorEnv.PYTHONPATH"
    )
