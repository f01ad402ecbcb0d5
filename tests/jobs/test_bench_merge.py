"""The parts of ``make bench-merge`` that need neither Spark nor Ray."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jobs.merge_bench.cases import APART, CASES, DAGOPT, DECODED, RAY, SERIAL, SMALL, train
from jobs.merge_bench.report import verdicts, worst_error
from jobs.merge_bench.runner import Measurement, tree_bytes


def measured(mode: str, elapsed_s: float, peak_bytes: int = 100) -> Measurement:
    group = {"predicted_bytes": 100, "peak_bytes": peak_bytes}
    return Measurement(
        case=SMALL,
        mode=mode,
        elapsed_s=elapsed_s,
        trial_iterations_per_s=1.0,
        peak_rss_bytes=1,
        groups=[group] if mode == DAGOPT else [],
    )


def test_what_is_required_is_judged_by_medians_and_the_best_other() -> None:
    rows = [measured(DAGOPT, seconds) for seconds in (1.0, 9.0, 1.1)]
    rows += [measured(SERIAL, 4.3), measured(RAY, 7.0)]
    told = {one.what: (one.found, one.is_reached) for one in verdicts(rows, 2e-5)}
    assert told == {
        f"{SMALL}: best other / dagopt": ("3.91", False),
        f"{SMALL}: ray-tune / dagopt": ("6.36", True),
        "losses against serial runs, relative": ("2.0e-05", False),
        "largest memory of a group / predicted": ("1.00", True),
    }
    (memory,) = verdicts([measured(DAGOPT, 1.0, 120)], None)
    assert not memory.is_reached


@pytest.mark.parametrize("name", CASES)
def test_each_case_trains_the_same_in_each_call(name: str) -> None:
    case = replace(CASES[name], num_iterations=4)
    losses = train(case, 3)
    assert len(losses) == 4
    assert losses == train(case, 3)
    assert losses != train(case, 4)


def test_trials_of_separate_data_have_names_and_shapes_of_their_own() -> None:
    case = CASES[APART]
    assert len({case.data.dataset(case.params(trial)) for trial in range(64)}) == 64
    assert len({case.params(trial)["hidden"] for trial in range(64)}) == 64
    assert CASES[DECODED].params(1) == CASES[DECODED].params(1)


def test_losses_are_compared_with_serial_ones(tmp_path: Path) -> None:
    assert worst_error(tmp_path, [SMALL]) is None
    np.save(tmp_path / f"{SMALL}-{SERIAL}.npy", [[1.0, 2.0]])
    np.save(tmp_path / f"{SMALL}-{DAGOPT}.npy", [[1.0, 2.1]])
    assert worst_error(tmp_path, [SMALL]) == pytest.approx(0.05)


def test_the_memory_of_a_tree_has_that_of_its_root() -> None:
    assert tree_bytes(os.getpid()) > 10 * 2**20
    assert tree_bytes(2**22 + 1) == 0
