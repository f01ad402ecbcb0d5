"""Times of a log that cannot be: left out and counted, the rest of the log is used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dagopt.app.advise import Advice, advise
from tests.unit.app.waiting_log import waiting_log

YEAR_MS = 365 * 86_400_000


def advice_with(folder: Path, event: str, index: int, **wrong: Any) -> Advice:
    """Advice on a log in which one event says something wrong: keys are fields, ``_`` for blanks."""
    lines = []
    for text in waiting_log():
        read = json.loads(text)
        info = read.get("Task Info") or read.get("Stage Info") or read
        if read["Event"] == f"SparkListener{event}" and info.get("Index", 0) == index:
            for name, value in wrong.items():
                field = name.replace("_", " ")
                target = next(
                    part for part in (read.get("Task Metrics", {}), info) if field in part
                )
                target[field] = value
        lines.append(json.dumps(read))
    log = folder / "log"
    log.write_text("\n".join(lines), encoding="utf-8")
    return advise(log)


@pytest.mark.parametrize(
    ("wrong", "counted"),
    [
        ({}, 16),
        ({"Executor_CPU_Time": 3_600_000_000_000}, 16),
        ({"JVM_GC_Time": 10**15}, 16),
        ({"Executor_Run_Time": 10**12}, 15),
        ({"Finish_Time": 1_999}, 15),
        ({"Launch_Time": 2_000 + 2 * YEAR_MS, "Finish_Time": 4_000 + 2 * YEAR_MS}, 15),
        ({"Finish_Time": 4_000 + 2 * YEAR_MS}, 15),
    ],
    ids=["none", "cpu", "gc", "run", "backwards", "both stamps", "one stamp"],
)
def test_a_task_with_times_that_cannot_be(
    tmp_path: Path, wrong: dict[str, Any], counted: int
) -> None:
    advice = advice_with(tmp_path, "TaskEnd", 0, **wrong)
    assert advice.trace.num_impossible == bool(wrong)
    assert any("times that cannot be" in note for note in advice.notes) == bool(wrong)
    assert advice.to_dict()["log"]["num_impossible"] == bool(wrong)
    (stage,) = advice.stages
    assert stage.split is not None
    assert stage.split.num_tasks == counted
    assert stage.split.cpu_s <= 16 * 0.95 + 1e-6
    assert stage.split.gc_s == 0
    assert stage.recorded_s == pytest.approx(16.0)
    assert advice.trace.end_s - advice.trace.start_s == pytest.approx(17.0, abs=1.0)


def test_a_stage_that_ends_before_it_begins_has_no_length(tmp_path: Path) -> None:
    advice = advice_with(tmp_path, "StageCompleted", 0, Completion_Time=1_000)
    assert advice.trace.num_impossible == 1
    (stage,) = advice.stages
    assert stage.recorded_s is None


def test_of_two_stamps_years_apart_one_is_believed(tmp_path: Path) -> None:
    advice = advice_with(tmp_path, "StageCompleted", 0, Completion_Time=18_000 + 5 * YEAR_MS)
    assert advice.trace.num_impossible == 1
    assert advice.trace.stages[0].submitted_s == 2.0
    assert advice.trace.end_s - advice.trace.start_s == pytest.approx(17.0, abs=1.0)


@pytest.mark.parametrize("event", ["ApplicationStart", "ApplicationEnd"])
def test_an_application_does_not_take_years(tmp_path: Path, event: str) -> None:
    advice = advice_with(tmp_path, event, 0, Timestamp=3 * YEAR_MS)
    assert 16.0 <= advice.trace.end_s - advice.trace.start_s <= 17.0


def test_clocks_that_are_a_little_off_are_believed(tmp_path: Path) -> None:
    advice = advice_with(tmp_path, "TaskEnd", 0, Executor_Run_Time=2_300, JVM_GC_Time=2_400)
    assert advice.trace.num_impossible == 0


def test_an_exabyte_is_not_known(tmp_path: Path) -> None:
    advice = advice_with(tmp_path, "TaskEnd", 0, Peak_Execution_Memory=2**60)
    assert np.isnan(advice.trace.stages[0].tasks.peak_memory_bytes).sum() == 1
