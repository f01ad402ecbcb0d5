"""Logs that real Spark wrote (see ``make_event_logs.py``), read and checked against its jobs."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dagopt.app.advise import advise
from dagopt.app.learn import learn
from dagopt.events.profile_file import read_profile
from dagopt.events.read import find_event_logs, read_trace
from dagopt.events.trace import ApplicationTrace, StageTrace
from dagopt.model.stage_profile import plan_number, stage_signature

LOGS = Path(__file__).parent / "event_log"
JOBS = sorted(LOGS.glob("*-jobs.gz"))
GPU = sorted(LOGS.glob("*-gpu.gz"))
TWO_CPUS = sorted(LOGS.glob("*-two_cpus.*"))


def trace_of(path: Path) -> ApplicationTrace:
    trace, health = read_trace(find_event_logs(path)[0])
    assert health.problems == ()
    return trace


def events_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def stages_of(trace: ApplicationTrace, *operators: str) -> list[StageTrace]:
    chain = f" [{' > '.join(operators)}]"
    return [stage for stage in trace.stages if stage.signature.endswith(chain)]


def by_name(path: Path) -> str:
    return path.name


def test_logs_of_both_ends_of_the_spark_lines_are_here() -> None:
    assert [log.name for log in JOBS] == [
        "spark-3.5-jobs.gz",
        "spark-4.2-jobs.gz",
        "spark-4.3-jobs.gz",
    ]
    assert len(GPU) == 2
    assert len(TWO_CPUS) == 8


@pytest.mark.parametrize("path", JOBS, ids=by_name)
def test_the_environment_was_left_out(path: Path) -> None:
    assert path.stat().st_size < 200_000
    names = {event["Event"] for event in events_of(path)}
    assert "SparkListenerTaskEnd" in names
    assert "SparkListenerEnvironmentUpdate" not in names


@pytest.mark.parametrize("path", JOBS, ids=by_name)
def test_sums_equal_those_of_a_plain_json_parser(path: Path) -> None:
    ends = [event for event in events_of(path) if event["Event"] == "SparkListenerTaskEnd"]
    metrics = [event["Task Metrics"] for event in ends if "Task Metrics" in event]
    reads = [metric["Shuffle Read Metrics"] for metric in metrics]
    tasks = [stage.tasks for stage in trace_of(path).stages]
    assert sum(task.num_ends for task in tasks) == len(ends)
    for column, expected in {
        "run_s": sum(metric["Executor Run Time"] for metric in metrics) / 1e3,
        "cpu_s": sum(metric["Executor CPU Time"] for metric in metrics) / 1e9,
        "gc_s": sum(metric["JVM GC Time"] for metric in metrics) / 1e3,
        "input_bytes": sum(metric["Input Metrics"]["Bytes Read"] for metric in metrics),
        "fetch_wait_s": sum(read["Fetch Wait Time"] for read in reads) / 1e3,
        "remote_read_bytes": sum(read["Remote Bytes Read"] for read in reads),
        "local_read_bytes": sum(read["Local Bytes Read"] for read in reads),
    }.items():
        got = sum(float(np.nansum(getattr(task, column))) for task in tasks)
        assert got == pytest.approx(expected), column


@pytest.mark.parametrize("path", JOBS, ids=by_name)
def test_the_live_name_scopes_and_plan_give_the_same_signature(path: Path) -> None:
    """What the JVM sends: StageInfo.name, of rddInfos sorted by id the scope or the name, the plan."""
    signatures = {stage.stage_id: stage.signature for stage in trace_of(path).stages}
    plans: dict[str, str] = {}
    for event in events_of(path):
        if event["Event"].endswith(".SparkListenerSQLExecutionStart"):
            number = plan_number(event["physicalPlanDescription"])
            plans[str(event["executionId"])] = number
        if event["Event"] != "SparkListenerStageSubmitted":
            continue
        info = event["Stage Info"]
        rdds = sorted(info["RDD Info"], key=lambda rdd: int(rdd["RDD ID"]))
        scopes = [
            json.loads(rdd["Scope"])["name"] if "Scope" in rdd else rdd["Name"] for rdd in rdds
        ]
        plan = plans.get(event["Properties"].get("spark.sql.execution.id", ""), "")
        signature = stage_signature(info["Stage Name"], scopes, plan)
        assert signature == signatures[info["Stage ID"]]
    assert len(set(plans.values())) == 3
    for number in plans.values():
        assert any(f" in plan {number} [" in signature for signature in signatures.values())


@pytest.mark.parametrize("path", JOBS, ids=by_name)
def test_a_join_reads_the_two_stages_that_wrote_its_sides(path: Path) -> None:
    trace = trace_of(path)
    exchange = ("Exchange", "WholeStageCodegen")
    (join,) = stages_of(trace, *exchange, *exchange, "Exchange")
    (scan,) = stages_of(trace, "Scan parquet", "WholeStageCodegen", "Exchange")
    assert scan.stage_id in join.parent_stage_ids
    assert len(join.parent_stage_ids) == 2
    written = sum(
        float(stage.tasks.shuffle_written_bytes.sum())
        for stage in trace.stages
        if stage.stage_id in join.parent_stage_ids
    )
    assert float(join.tasks.read_bytes.sum()) == written
    assert join.tasks.remote_read_bytes.sum() > 0


@pytest.mark.parametrize("path", JOBS, ids=by_name)
def test_a_lost_map_output_makes_attempts(path: Path) -> None:
    counts = stages_of(trace_of(path), "partitionBy", "mapPartitions", "PythonRDD")
    first, failed, retried = counts
    assert first.failure is None
    assert failed.failure is not None
    assert "FetchFailed" in failed.failure
    assert (failed.attempt, failed.coverage, retried.attempt, retried.coverage) == (0, 0.0, 1, 1.0)
    assert first.stage_id != failed.stage_id
    assert first.rdd_ids[:2] == failed.rdd_ids[:2]  # count() adds an RDD of its own
    assert first.parent_stage_ids == failed.parent_stage_ids
    assert set(first.parent_stage_ids) < set(retried.parent_stage_ids)


@pytest.mark.parametrize("path", JOBS, ids=by_name)
def test_a_task_that_failed_once_is_there_twice(path: Path) -> None:
    (stage,) = (s for s in trace_of(path).stages if s.tasks.num_ends == s.num_tasks + 1)
    assert stage.coverage == 1.0
    assert stage.tasks.index[~stage.tasks.ok].tolist() == [1]
    assert sorted(stage.tasks.attempt[stage.tasks.index == 1].tolist()) == [0, 1]


@pytest.mark.parametrize("path", JOBS, ids=by_name)
def test_python_and_barrier_are_seen(path: Path) -> None:
    trace = trace_of(path)
    exchange = ("WholeStageCodegen", "Exchange")
    (pandas,) = stages_of(trace, "WholeStageCodegen", "MapInPandas", *exchange)
    assert pandas.has_python
    assert sum(stage.is_barrier for stage in trace.stages) == 1
    assert not any(stage.has_python for stage in stages_of(trace, "Scan parquet", *exchange))


@pytest.mark.parametrize("path", TWO_CPUS, ids=by_name)
def test_all_codecs_of_spark_are_read_and_run_time_counts_once(path: Path) -> None:
    """Each task slept 0.5 s on two cpus; from 4.0 on Spark logs twice its time."""
    trace = trace_of(path)
    assert trace.spark_version.startswith(path.name.removeprefix("spark-")[:3])
    assert trace.is_complete
    (stage,) = trace.stages
    # Part of the time a task held its slot is not run time, never the other way round.
    assert (stage.tasks.run_s <= stage.tasks.elapsed_s).all()
    assert (stage.tasks.run_s > 0.5).all()


@pytest.mark.parametrize("log", GPU, ids=by_name)
def test_a_gpu_stage_says_what_held_the_gpu_and_which_form_is_faster(log: Path) -> None:
    """16 tasks, which sleep 0.4 s in a Python operator below the one under the profile, 0.1 s in it."""
    advice = advise(log)
    (stage,) = (each for each in advice.stages if each.gpu is not None)
    assert stage.gpu is not None
    assert stage.num_tasks == 16
    assert 16 * 0.4 <= stage.gpu.other_s <= stage.gpu.held_s - 16 * 0.1
    assert stage.gpu.form == "sliced"
    assert stage.saved_s is not None
    # A GPU that only infers is busy for a second or two, instead of five or more.
    assert stage.saved_s > 16 * 0.2
    operators = [each for trace in trace_of(log).stages for each in trace.python_operators]
    assert [each.output_rows for each in operators] == [16, 16]
    assert operators[1].sent_bytes > 16 * 100_000 > operators[1].returned_bytes


def test_a_decommissioned_executor_is_gone_and_what_it_wrote_is_read_elsewhere() -> None:
    trace = trace_of(LOGS / "spark-4.3-decommission.gz")
    (gone,) = (each for each in trace.executors if np.isfinite(each.removed_s))
    assert gone.executor == "0"
    written, _, read = trace.stages
    number = trace.executor_names.index("0")
    assert number in written.tasks.executor
    assert number not in read.tasks.executor
    assert read.failure is None
    assert read.coverage == 1.0
    assert read.submitted_s > gone.removed_s
    assert (read.tasks.read_bytes > 0).all()


def test_merged_blocks_count_in_what_was_read() -> None:
    """Six map outputs are six blocks of a reducer, which fetched them as a merged one."""
    path = LOGS / "spark-4.3-push.gz"
    ends = [event for event in events_of(path) if event["Event"] == "SparkListenerTaskEnd"]
    reads = [event["Task Metrics"]["Shuffle Read Metrics"] for event in ends]
    merged = [read["Push Based Shuffle"] for read in reads]
    merged_bytes = sum(each["Merged Remote Bytes Read"] for each in merged)
    assert merged_bytes > 0
    assert sum(each["Merged Fetch Fallback Count"] for each in merged) == 0
    written, read = trace_of(path).stages
    assert float(read.tasks.remote_read_bytes.sum()) == merged_bytes
    assert read.parent_stage_ids == (written.stage_id,)
    assert read.tasks.fetch_wait_s.sum() > 0
    assert advise(path).gain is not None


def test_profiles_are_learned_from_both_lines(tmp_path: Path) -> None:
    summary = learn(LOGS, tmp_path / "profile.parquet")
    assert (summary.num_logs, summary.num_logs_read) == (15, 15)
    assert summary.num_unknown_stages == 3  # those that failed to fetch
    profiles = read_profile(tmp_path / "profile.parquet")
    scanned = profiles.find(
        "reduceByKey at make_event_logs.py:44 [parallelize > PythonRDD > PairwiseRDD]"
    )
    assert scanned is not None
    assert (scanned.python, scanned.executor_cpu_s_per_task) == (True, None)
    assert scanned.num_runs == 5
