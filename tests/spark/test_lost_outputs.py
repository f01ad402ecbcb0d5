"""Map outputs are lost while tasks that would read them are held: Spark's own retry gives the same rows."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, RunSparkScript

pytestmark = pytest.mark.spark

PLANNER = ROOT / "tests" / "matrix" / "scripted_planner.py"

#: Two shuffles in a row, three times. A thread waits for the planner to be told of the first or of the second held
#: stage of the job, and then deletes the outputs of all maps, or kills an executor.
JOB = """
import json, os, signal, sys, threading, time
from pathlib import Path
from pyspark import SparkContext
from tests.processes import processes

trace, local_dir = Path(sys.argv[1]), Path(sys.argv[2])
sc = SparkContext.getOrCreate()
deadline = time.monotonic() + 300
while sc._jsc.sc().getExecutorMemoryStatus().size() < 3 and time.monotonic() < deadline:
    time.sleep(0.1)


def told():
    lines = trace.read_text().splitlines() if trace.exists() else []
    return [m for m in (json.loads(line)["message"] for line in lines) if '"type": "task_set"' in json.dumps(m)]


def wait_for(count):
    deadline = time.monotonic() + 300  # a busy machine takes long to start Python workers
    while len(told()) < count and time.monotonic() < deadline:
        time.sleep(0.02)


def delete_outputs():
    for pattern in ("shuffle_*.data", "shuffle_*.index"):
        for path in local_dir.rglob(pattern):
            path.unlink(missing_ok=True)


def kill_an_executor():
    os.kill(min(processes("CoarseGrainedExecutorBackend", sc.applicationId)), signal.SIGKILL)


def keyed(numbers):
    for number in numbers:
        yield number % 4, f"{number:0100d}"


def by_next_key(records):
    for key, text in records:
        yield (key + 1) % 4, (key, text)


def counted(records):
    keys = [(key, before) for key, (before, _) in records]
    yield from sorted((pair, keys.count(pair)) for pair in set(keys))


def job():
    rows = sc.parallelize(range(400), 4).mapPartitions(keyed).partitionBy(4, lambda key: key)
    rows = rows.mapPartitions(by_next_key).partitionBy(4, lambda key: key)
    return sorted(rows.mapPartitions(counted).collect())


def harmed(harm, at):
    before = len(told())

    def wait():
        wait_for(before + at)
        harm()

    thread = threading.Thread(target=wait)
    thread.start()
    sc.setJobGroup(f"{harm.__name__}{at}", "")
    rows = job()
    thread.join()
    (number,) = sc.statusTracker().getJobIdsForGroup(f"{harm.__name__}{at}")
    stages = [sc.statusTracker().getStageInfo(s) for s in sc.statusTracker().getJobInfo(number).stageIds]
    return {"rows": rows, "attempts": sum(s.currentAttemptId for s in stages), "told": len(told()) - before}


result = {
    "first": harmed(delete_outputs, 1),
    "second": harmed(delete_outputs, 2),
    "executor": harmed(kill_an_executor, 2),
}
time.sleep(1)
result["gate"] = json.loads(sc._jvm.org.apache.spark.scheduler.dagopt.Dagopt.reportJson())["gate"]
print("result", json.dumps(result))
sc.stop()
"""
ROWS = [[[(key + 1) % 4, key], 100] for key in range(4)]


@pytest.mark.slow
def test_a_fetch_failure_while_tasks_are_held(
    run_spark_script: RunSparkScript, spark_jar: Path, tmp_path: Path
) -> None:
    trace, local = tmp_path / "trace", tmp_path / "local"
    ended = run_spark_script(
        JOB,
        str(trace),
        str(local),
        dagopt=False,
        conf={
            "spark.master": "local-cluster[2,1,640]",
            "spark.local.dir": str(local),
            "spark.plugins": "org.apache.spark.scheduler.dagopt.DagoptPlugin",
            "spark.driver.extraClassPath": str(spark_jar),
            "spark.executor.extraClassPath": str(spark_jar),
            "spark.dagopt.minInputBytes": "0",
            "spark.dagopt.planner.timeout": "30s",
            "spark.dagopt.planner.command": f"{sys.executable} {PLANNER} {trace} group size=1 delay_ms=1500",
        },
        timeout_s=900,
    ).ok()
    (line,) = [line for line in ended.stdout.splitlines() if line.startswith("result ")]
    result: dict[str, Any] = json.loads(line.removeprefix("result "))
    for name in ("first", "second", "executor"):
        assert sorted(result[name]["rows"]) == sorted(ROWS), name
        assert result[name]["told"] == 2, name  # each stage once: a later attempt is left to Spark
    # Spark has really tried again.
    assert result["first"]["attempts"] >= 1
    assert result["second"]["attempts"] >= 1
    assert result["gate"]["off_reason"] == ""
    assert result["gate"]["task_sets_held"] == 6
    assert result["gate"]["fallbacks"] == 0
