from __future__ import annotations

import json
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagopt.cost.time_split import PARTS, TimeSplit, bound_of, split_time
from dagopt.events.fold import fold
from dagopt.events.spark_events import decode_line
from dagopt.events.trace import StageTrace
from tests.unit.events.event_lines import (
    metrics,
    rdd,
    small_log,
    stage_completed,
    task_end,
)


def stage_of(lines: Iterable[bytes]) -> StageTrace:
    events = [event for event in map(decode_line, lines) if event is not None]
    return fold(events).stages[0]


def changed(**more: object) -> list[bytes]:
    log = small_log()
    ends = [task_end(index, task_metrics=metrics(**more)) for index in range(2)]
    return [*log[:5], *ends, *log[7:]]


def split_of(stage: StageTrace) -> TimeSplit:
    split = split_time(stage.tasks)
    assert split is not None
    return split


def test_measured_parts_and_the_rest() -> None:
    split = split_of(stage_of(changed(Result_Serialization_Time=40)))
    assert split.elapsed_s == pytest.approx(6.0)
    assert split.fetch_wait_s == pytest.approx(2.0)
    assert split.cpu_s == pytest.approx(3.0)
    assert split.gc_s == pytest.approx(0.2)
    assert split.serialization_s == pytest.approx(0.1)
    assert split.shuffle_write_s == pytest.approx(0.004)
    assert split.unexplained_s == pytest.approx(6.0 - 2.0 - 3.0 - 0.2 - 0.1 - 0.004)
    assert split.num_tasks == 2


def test_a_stage_that_waits_is_bound_by_io_even_with_python() -> None:
    assert bound_of(stage := stage_of(small_log()), split_of(stage))[0] == "io"


NO_WAIT = {"Fetch Wait Time": 0, "Remote Bytes Read": 0, "Local Bytes Read": 0}


def test_a_stage_that_computes() -> None:
    stage = stage_of(changed(Shuffle_Read_Metrics=NO_WAIT))
    bound, why = bound_of(stage, split_of(stage))
    assert (bound, why) == ("cpu", "53% of task time was CPU and garbage collection")


def test_python_time_is_never_io() -> None:
    log = changed(Shuffle_Read_Metrics=NO_WAIT, Executor_CPU_Time=1_000_000)
    log[-2] = stage_completed(RDD_Info=[rdd(7, "MapInPandas")])
    bound, why = bound_of(stage := stage_of(log), split_of(stage))
    assert bound == "unknown"
    assert "Python workers" in why


def test_time_of_a_gpu_is_never_io() -> None:
    log = changed(Shuffle_Read_Metrics=NO_WAIT, Executor_CPU_Time=1_000_000)
    log[-2] = stage_completed(RDD_Info=[rdd(7, "GpuScan parquet ")])
    bound, why = bound_of(stage := stage_of(log), split_of(stage))
    assert (bound, why.split(",")[0]) == ("unknown", "operators of it run on a GPU")


def test_unexplained_time_is_not_called_io() -> None:
    stage = stage_of(changed(Shuffle_Read_Metrics=NO_WAIT, Executor_CPU_Time=1_000_000))
    assert bound_of(stage, split_of(stage)) == ("unknown", "96% of task time is unexplained")


@pytest.mark.parametrize("reason", ["TaskKilled", "ExceptionFailure"])
def test_attempts_that_did_not_succeed_are_kept_apart(reason: str) -> None:
    wrong = metrics(Executor_CPU_Time=-5, JVM_GC_Time=-1)
    lost = task_end(1, reason=reason, task_metrics=wrong, Task_ID=7, Attempt=1)
    log = small_log()
    split = split_of(stage_of([*log[:7], lost, *log[7:]]))
    assert split.lost_s == pytest.approx(3.0)
    assert split.elapsed_s == pytest.approx(6.0)
    assert split.cpu_s == pytest.approx(3.0)
    assert split.num_tasks == 2


def test_without_metrics_nothing_is_known() -> None:
    log = [
        json.dumps({k: v for k, v in msgspec.json.decode(line).items() if k != "Task Metrics"})
        for line in small_log()
    ]
    stage = stage_of(line.encode() for line in log)
    assert split_time(stage.tasks) is None
    assert bound_of(stage, None) == ("unknown", "no task of it succeeded with metrics")


def test_too_few_tasks_are_unknown() -> None:
    log = small_log()
    del log[5]
    stage = stage_of(log)
    assert bound_of(stage, split_of(stage)) == ("unknown", "only 50% of its tasks are in the log")


def test_no_cpu_time_recorded_is_unknown() -> None:
    stage = stage_of(changed(Shuffle_Read_Metrics=NO_WAIT, Executor_CPU_Time=None))
    assert bound_of(stage, split_of(stage)) == ("unknown", "this Spark recorded no CPU time")


NUMBER = st.integers(-10, 20_000)


@given(NUMBER, NUMBER, NUMBER, NUMBER)
def test_parts_and_rest_add_up_to_the_elapsed_time(
    wait_ms: int, cpu_ms: int, gc_ms: int, write_ms: int
) -> None:
    stage = stage_of(
        changed(
            Executor_CPU_Time=cpu_ms * 1_000_000,
            JVM_GC_Time=gc_ms,
            Shuffle_Read_Metrics={"Fetch Wait Time": wait_ms},
            Shuffle_Write_Metrics={"Shuffle Write Time": write_ms * 1_000_000},
        )
    )
    split = split_of(stage)
    parts = [getattr(split, part) for part in PARTS] + [split.unexplained_s]
    assert min(parts) >= 0
    assert sum(parts) == pytest.approx(split.elapsed_s)
