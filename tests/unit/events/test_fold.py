from __future__ import annotations

import itertools
import math
import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest

from dagopt.events.fold import TraceFold, fold
from dagopt.events.spark_events import decode_line
from dagopt.events.trace import ExecutorTrace, JobTrace, spark_line
from dagopt.model.stage_profile import plan_number
from tests.unit.events import event_lines as lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dagopt.events.trace import ApplicationTrace


def trace_of(log: Iterable[bytes]) -> ApplicationTrace:
    return fold(event for line in log if (event := decode_line(line)) is not None)


def test_a_whole_application() -> None:
    trace = trace_of(lines.small_log())
    assert (trace.app_id, trace.name, trace.spark_version) == ("app-1", "etl", "4.3.0")
    assert (trace.start_s, trace.end_s, trace.is_complete) == (1.0, 9.0, True)
    assert (trace.executor_names, trace.host_names) == (("1",), ("host-a",))
    (job,) = trace.jobs
    assert (job.job_id, job.stage_ids, job.submitted_s) == (0, (0,), 1.5)
    (stage,) = trace.stages
    assert (stage.stage_id, stage.attempt, stage.num_tasks) == (0, 0, 2)
    assert (stage.submitted_s, stage.completed_s, stage.failure) == (1.9, 5.1, None)
    assert stage.rdd_ids == (6, 7)
    assert stage.scopes == ("Exchange", "WholeStageCodegen (3)")
    assert stage.signature == "count at job.py:12 [Exchange > WholeStageCodegen]"
    assert (stage.coverage, stage.num_unfinished) == (1.0, 0)


def test_units_are_seconds_and_bytes() -> None:
    (stage,) = trace_of(lines.small_log()).stages
    tasks = stage.tasks
    assert tasks.num_ends == 2
    assert tasks.index.tolist() == [0, 1]
    assert tasks.ok.tolist() == [True, True]
    for name, value in {
        "launch_s": 2.0,
        "finish_s": 5.0,
        "elapsed_s": 3.0,
        "run_s": 2.9,
        "fetch_wait_s": 1.0,
        "cpu_s": 1.5,
        "gc_s": 0.1,
        "shuffle_write_s": 0.002,
        "remote_read_bytes": 3_000,
        "local_read_bytes": 1_000,
        "read_blocks": 7,
        "input_bytes": 0,
        "read_bytes": 4_000,
        "shuffle_written_bytes": 50,
        "output_bytes": 0,
        "spilled_bytes": 0,
        "peak_memory_bytes": 4096,
    }.items():
        np.testing.assert_allclose(getattr(tasks, name), [value, value], err_msg=name)


def test_columns_are_read_only() -> None:
    (stage,) = trace_of(lines.small_log()).stages
    for name in ("index", "ok", "launch_s", "run_s", "fetch_wait_s"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(stage.tasks, name)[0] = 0


def test_the_order_of_events_does_not_matter() -> None:
    def told(log: Iterable[bytes]) -> tuple[object, ...]:
        trace = trace_of(log)
        (stage,) = trace.stages
        rows = sorted(zip(stage.tasks.index, stage.tasks.finish_s, strict=True))
        return trace.start_s, trace.end_s, trace.jobs, stage.completed_s, stage.num_unfinished, rows

    log = lines.small_log()
    whole = told(log)
    for shuffled in itertools.islice(itertools.permutations(log), 0, None, 1_999):
        assert told(shuffled) == whole


def test_what_the_log_does_not_hold_is_nan_and_never_0() -> None:
    (stage,) = trace_of([lines.task_end(task_metrics={"Executor Run Time": 7})]).stages
    assert math.isnan(stage.tasks.cpu_s[0])
    assert math.isnan(stage.tasks.peak_memory_bytes[0])
    assert math.isnan(stage.submitted_s)
    assert math.isnan(stage.completed_s)
    # Groups of metrics were left out before 2.0 where nothing was done.
    assert stage.tasks.read_bytes[0] == 0
    assert stage.tasks.fetch_wait_s[0] == 0


def test_a_task_without_metrics_has_times_and_nothing_else() -> None:
    log = [lines.line("TaskEnd", Stage_ID=0, Task_Info=lines.task_info())]
    (stage,) = trace_of(log).stages
    assert stage.tasks.elapsed_s.tolist() == [3.0]
    assert not stage.tasks.ok[0]
    assert math.isnan(stage.tasks.run_s[0])
    assert math.isnan(stage.tasks.fetch_wait_s[0])


def test_negative_amounts_and_backward_clocks_are_not_known() -> None:
    broken = lines.metrics(Disk_Bytes_Spilled=-5, JVM_GC_Time=-1, Executor_CPU_Time=-3)
    (stage,) = trace_of([lines.task_end(task_metrics=broken, Finish_Time=1_000)]).stages
    tasks = stage.tasks
    for column in (tasks.spilled_bytes, tasks.gc_s, tasks.cpu_s, tasks.elapsed_s):
        assert math.isnan(column[0])


def test_a_result_fetched_later_does_not_hold_the_slot() -> None:
    (stage,) = trace_of([lines.task_end(Getting_Result_Time=4_000)]).stages
    assert stage.tasks.finish_s[0] == 4.0


@pytest.mark.parametrize(
    ("version", "cpus", "logged_ms", "run_s"),
    [
        ("3.5.9", 2.0, 5_700, 5.7),
        ("4.0.1", 2.0, 11_490, 5.74),
        ("4.3.0", 0.25, 1_490, 5.99),
        ("4.3.0", 0.25, -5, 0.01),
        ("4.3.0", 1.0, 5_700, 5.7),
    ],
)
def test_run_time_counts_a_task_once(
    version: str, cpus: float, logged_ms: int, run_s: float
) -> None:
    requests = {"cpus": {"Resource Name": "cpus", "Amount": cpus}}
    log = [
        lines.log_start(version),
        lines.line("ResourceProfileAdded", Resource_Profile_Id=0, Task_Resource_Requests=requests),
        lines.task_end(task_metrics=lines.metrics(Executor_Run_Time=logged_ms)),
    ]
    (stage,) = trace_of(log).stages
    assert stage.tasks.run_s[0] == pytest.approx(run_s)


def test_attempts_of_a_stage_are_kept_apart() -> None:
    log = [
        lines.task_end(0, attempt=1),
        lines.task_end(1, attempt=0, Task_ID=5),
        lines.stage_completed(Stage_Attempt_ID=1, Failure_Reason="FetchFailed"),
    ]
    first, second = trace_of(log).stages
    assert (first.attempt, first.tasks.index.tolist(), first.failure) == (0, [1], None)
    assert (second.attempt, second.tasks.index.tolist(), second.failure) == (1, [0], "FetchFailed")


def test_an_end_after_the_end_of_the_stage_counts() -> None:
    (stage,) = trace_of([lines.stage_completed(), lines.task_end(0), lines.task_end(1)]).stages
    assert stage.coverage == 1.0


def test_a_start_without_its_end_is_unfinished() -> None:
    log = [lines.task_start(0), lines.task_start(1), lines.task_end(1), lines.stage_completed()]
    (stage,) = trace_of(log).stages
    assert (stage.num_unfinished, stage.coverage) == (1, 0.5)


def test_coverage_counts_tasks_and_not_their_copies() -> None:
    log = [
        lines.stage_completed(num_tasks=4),
        lines.task_end(0, Task_ID=1),
        lines.task_end(0, Task_ID=2, Speculative=True),
        lines.task_end(1, Task_ID=3, reason="ExceptionFailure"),
    ]
    (stage,) = trace_of(log).stages
    assert stage.coverage == 0.25
    assert stage.tasks.speculative.tolist() == [False, True, False]


def test_a_stage_known_only_from_its_job_never_ran() -> None:
    infos = [lines.stage_info(0, 2), lines.stage_info(1, 3)]
    job = lines.line("JobStart", Job_ID=4, Stage_Infos=infos, Stage_IDs=[1, 0])
    trace = trace_of([job, lines.task_end(stage_id=1)])
    assert [stage.stage_id for stage in trace.stages] == [1]
    assert trace.stages[0].num_tasks == 3
    assert trace.stages[0].name == "count at /home/me/job.py:12"
    assert trace.jobs[0].stage_ids == (0, 1)


def test_a_stage_of_which_only_task_ends_are_left_has_no_coverage() -> None:
    (stage,) = trace_of([lines.task_end()]).stages
    assert (stage.name, stage.num_tasks, stage.coverage) == ("", 0, 0.0)


def test_executors_come_and_go_in_any_order() -> None:
    info = {"Host": "host-a", "Total Cores": 4}
    added = lines.line("ExecutorAdded", Timestamp=1_000, Executor_ID="1", Executor_Info=info)
    removed = lines.line("ExecutorRemoved", Timestamp=3_000, Executor_ID="1")
    whole = ExecutorTrace(executor="1", host="host-a", cores=4, gpus=0, added_s=1.0, removed_s=3.0)
    assert trace_of([added, removed]).executors == (whole,)
    assert trace_of([removed, added]).executors == (whole,)


def test_jobs_end() -> None:
    start = lines.line("JobStart", Job_ID=4, Stage_IDs=[2], Submission_Time=1_000)
    end = lines.line("JobEnd", Job_ID=4, Completion_Time=3_000)
    whole = JobTrace(job_id=4, stage_ids=(2,), submitted_s=1.0, completed_s=3.0)
    assert trace_of([start, end]).jobs == (whole,)
    assert trace_of([end, start]).jobs == (whole,)


def test_without_an_end_the_last_event_ends_the_application() -> None:
    trace = trace_of(lines.small_log()[:-1])
    assert (trace.end_s, trace.is_complete) == (5.1, False)


def test_without_a_start_the_first_event_starts_it() -> None:
    assert trace_of([lines.task_end()]).start_s == 2.0


def test_nothing_at_all() -> None:
    trace = trace_of([])
    assert trace.stages == ()
    assert math.isnan(trace.start_s)
    assert math.isnan(trace.end_s)


def test_events_without_their_fields_change_nothing() -> None:
    empty = [
        lines.line(kind)
        for kind in (
            "TaskEnd",
            "TaskStart",
            "StageSubmitted",
            "StageCompleted",
            "JobStart",
            "JobEnd",
            "ExecutorAdded",
            "ExecutorRemoved",
            "ResourceProfileAdded",
            "LogStart",
        )
    ]
    trace = trace_of(empty)
    assert (trace.stages, trace.jobs, trace.executors) == ((), (), ())


@pytest.mark.parametrize(
    "log",
    [
        [
            lines.sql_execution_start(3, "Range (1) #7"),
            lines.stage_submitted(execution_id="3"),
            lines.stage_completed(),
        ],
        [
            lines.stage_completed(),
            lines.stage_submitted(execution_id="3"),
            lines.sql_execution_start(3, "Range (1) #7"),
        ],
    ],
    ids=["in order", "reversed"],
)
def test_a_stage_bears_the_number_of_its_querys_plan(log: list[bytes]) -> None:
    (stage,) = trace_of(log).stages
    assert stage.plan == plan_number("Range () #")
    chain = "[Exchange > WholeStageCodegen]"
    assert stage.signature == f"count at job.py:12 in plan {stage.plan} {chain}"


@pytest.mark.parametrize(
    "log",
    [
        [lines.sql_execution_start(3, "Range"), lines.stage_submitted()],
        [lines.sql_execution_start(3, "Range"), lines.stage_submitted(execution_id="4")],
        [lines.sql_execution_start(3, None), lines.stage_submitted(execution_id="3")],
        [lines.sql_execution_start(3, "Range"), lines.stage_completed()],
        [lines.stage_submitted(execution_id="no number")],
    ],
    ids=["no query", "another query", "no text", "no start", "no id"],
)
def test_without_its_query_a_stage_has_no_plan(log: list[bytes]) -> None:
    (stage,) = trace_of(log).stages
    assert stage.plan == ""
    assert stage.signature == "count at job.py:12 [Exchange > WholeStageCodegen]"


def test_the_texts_of_plans_are_not_kept() -> None:
    state = TraceFold()
    tracemalloc.start()
    try:
        for execution_id in range(20):
            event = decode_line(lines.sql_execution_start(execution_id, f"{'Range ' * 100_000}"))
            assert event is not None
            state.add(event)
        del event
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 100_000


def test_a_scope_that_is_no_json_falls_back_to_the_name_of_the_rdd() -> None:
    rdds = [{"RDD ID": 1, "Name": "PythonRDD", "Scope": "{"}, {"RDD ID": 2, "Name": "x"}]
    (stage,) = trace_of([lines.stage_completed(RDD_Info=rdds)]).stages
    assert stage.scopes == ("PythonRDD", "x")
    assert stage.has_python


@pytest.mark.parametrize(
    ("version", "line"),
    [("4.1.0", (4, 1)), ("3.0.1-amzn-0", (3, 0)), ("2.1.0-SNAPSHOT", (2, 1)), ("", (0, 0))],
)
def test_the_line_of_a_version(version: str, line: tuple[int, int]) -> None:
    assert spark_line(version) == line


def test_fetch_wait_includes_connecting_from_4_1() -> None:
    assert trace_of([lines.log_start("4.1.0")]).fetch_wait_includes_connecting
    assert not trace_of([lines.log_start("4.0.5")]).fetch_wait_includes_connecting
