from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dagopt.events.fold import fold
from dagopt.events.observed_profile import observed_profile
from dagopt.events.spark_events import decode_line
from dagopt.model.stage_profile import StageProfile, plan_number
from tests.unit.events import event_lines as lines

if TYPE_CHECKING:
    from collections.abc import Iterable


def profile_of(log: Iterable[bytes]) -> StageProfile | None:
    (stage,) = fold(event for line in log if (event := decode_line(line)) is not None).stages
    return observed_profile(stage)


def test_the_means_of_the_tasks() -> None:
    waiting = lines.metrics(
        Shuffle_Read_Metrics={
            "Fetch Wait Time": 2_000,
            "Remote Bytes Read": 9_000,
            "Local Bytes Read": 0,
        },
        Input_Metrics={"Bytes Read": 100},
        Disk_Bytes_Spilled=10,
        Peak_Execution_Memory=1 << 20,
    )
    log = [lines.stage_completed(), lines.task_end(0), lines.task_end(1, task_metrics=waiting)]
    assert profile_of(log) == StageProfile(
        signature="count at job.py:12 [Exchange > WholeStageCodegen]",
        num_runs=1,
        num_tasks=2,
        read_bytes_per_task=(4_000 + 9_100) / 2,
        cpu_s_per_task=(2.0 + 1.0) / 2,
        io_wait_s_per_task=1.5,
        io_bytes_per_s=12_000 / 3,
        spilled_bytes_per_task=5.0,
        peak_memory_bytes=1 << 20,
        executor_cpu_s_per_task=1.5,
        python=False,
        coverage=1.0,
    )


def test_the_profile_of_a_querys_stage_bears_the_number_of_its_plan() -> None:
    start = lines.sql_execution_start(0, "Range (1)")
    submitted = lines.stage_submitted(execution_id="0")
    profile = profile_of([start, submitted, *lines.small_log()])
    assert profile is not None
    number = plan_number("Range (1)")
    expected = f"count at job.py:12 in plan {number} [Exchange > WholeStageCodegen]"
    assert profile.signature == expected


def test_too_few_ends_are_unknown() -> None:
    ends = [lines.task_end(n) for n in range(10)]
    assert profile_of([lines.stage_completed(num_tasks=10), *ends[:7]]) is None
    enough = profile_of([lines.stage_completed(num_tasks=10), *ends[:8]])
    assert enough is not None
    assert (enough.num_tasks, enough.coverage) == (10, 0.8)


@pytest.mark.parametrize(
    "ends",
    [
        [],
        [lines.task_end(0), lines.task_end(0, Task_ID=9)],
        [lines.task_end(0), lines.task_end(1, reason="TaskKilled")],
        [lines.task_end(0), lines.task_end(1, Finish_Time=0)],
        [lines.task_end(0), lines.task_end(1, Launch_Time=0)],
        [lines.task_end(0), lines.line("TaskEnd", Stage_ID=0, Task_Info=lines.task_info(1))],
    ],
    ids=["none", "a copy", "killed", "not finished", "not launched", "no metrics"],
)
def test_an_end_that_says_nothing_does_not_count(ends: list[bytes]) -> None:
    assert profile_of([lines.stage_completed(), *ends]) is None


def test_a_stage_without_its_number_of_tasks_is_unknown() -> None:
    assert profile_of([lines.task_end(0)]) is None


def test_a_stage_without_a_name_is_unknown() -> None:
    log = [lines.stage_completed(1, 1, Stage_Name=None, RDD_Info=None), lines.task_end(stage_id=1)]
    assert profile_of(log) is None


def test_failed_attempts_are_left_out_of_the_means() -> None:
    log = [
        lines.stage_completed(num_tasks=1),
        lines.task_end(0, reason="ExceptionFailure", Finish_Time=900_000),
        lines.task_end(0, Task_ID=1, Attempt=1),
    ]
    profile = profile_of(log)
    assert profile is not None
    assert profile.cpu_s_per_task == 2.0


def test_python_work_is_compute_and_its_cpu_time_unknown() -> None:
    rdds = [lines.rdd(3, "MapInPandas")]
    profile = profile_of([lines.stage_completed(1, 1, RDD_Info=rdds), lines.task_end(stage_id=1)])
    assert profile is not None
    assert (profile.python, profile.executor_cpu_s_per_task) == (True, None)
    assert profile.cpu_s_per_task == 2.0


def test_a_rate_needs_a_wait_that_can_be_measured() -> None:
    read = {"Fetch Wait Time": 0, "Remote Bytes Read": 9_000, "Local Bytes Read": 0}
    end = lines.task_end(0, task_metrics=lines.metrics(Shuffle_Read_Metrics=read))
    profile = profile_of([lines.stage_completed(num_tasks=1), end])
    assert profile is not None
    assert profile.io_bytes_per_s is None


def test_more_wait_than_time_leaves_no_compute() -> None:
    read = {"Fetch Wait Time": 5_000, "Remote Bytes Read": 1, "Local Bytes Read": 0}
    end = lines.task_end(0, task_metrics=lines.metrics(Shuffle_Read_Metrics=read))
    profile = profile_of([lines.stage_completed(num_tasks=1), end])
    assert profile is not None
    assert profile.cpu_s_per_task == 0.0


def test_without_cpu_times_the_rest_is_known() -> None:
    old = {"Executor Run Time": 2_900}
    log = [lines.log_start("1.3.1"), lines.stage_completed(num_tasks=1)]
    profile = profile_of([*log, lines.task_end(0, task_metrics=old)])
    assert profile is not None
    assert (profile.executor_cpu_s_per_task, profile.peak_memory_bytes) == (None, 0)
    assert profile.cpu_s_per_task == 3.0
