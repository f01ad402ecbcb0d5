"""GPU stages whose executor is lost, and whose job is cancelled, between the CPU and the GPU part."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import run_spark
from tests.spark.gpu_cluster import gpu_conf, needs_profiles_in_sql

pytestmark = [pytest.mark.spark, needs_profiles_in_sql]

SCRIPT = """
import json, os, threading, time
from pathlib import Path
from pyspark import TaskContext
from pyspark.sql import SparkSession, functions as F
import dagopt

spark = SparkSession.builder.getOrCreate()
profile = dagopt.gpu_profile()
here = Path.cwd()

def number():
    return TaskContext.get().partitionId()

def decode(parts):
    for part in parts:
        part["cpu_number"] = number()
        yield part

def rows_of(infer, profile):
    frame = spark.range(0, 80, 1, 8).withColumn("r", F.rand(3))
    frame = frame.mapInPandas(decode, "id long, r double, cpu_number int")
    frame = frame.mapInPandas(infer, "id long, r double, cpu_number int, gpu_number int", profile=profile)
    return [[row.asDict() for row in part] for part in frame.rdd.glom().collect()]

def plain(parts):
    for part in parts:
        part["gpu_number"] = number()
        yield part

found = {"plain": rows_of(plain, None)}

def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])

def lose_executor(parts):
    for part in parts:
        mark = here / "lost"
        # In the second slice, when the first one has been computed.
        if number() == 5 and not mark.exists():
            mark.touch()
            executor = parent_of(os.getppid())  # the parent of the workers' daemon
            assert b"CoarseGrainedExecutorBackend" in Path(f"/proc/{executor}/cmdline").read_bytes()
            os.kill(executor, 9)
        part["gpu_number"] = number()
        yield part

found["lost"] = rows_of(lose_executor, profile)
found["was_lost"] = (here / "lost").exists()
found["report_of_lost"] = dagopt.report(spark).to_dict()

def slow(parts):
    for part in parts:
        (here / f"began-{number()}").touch()
        time.sleep(30)
        part["gpu_number"] = number()
        yield part

def run():
    spark.sparkContext.setJobGroup("slow", "a job to cancel", interruptOnCancel=True)
    try:
        rows_of(slow, profile)
    except Exception as error:
        found["error"] = f"{type(error).__name__}: {error}"

thread = threading.Thread(target=run)
thread.start()
end_s = time.monotonic() + 120
while not list(here.glob("began-*")) and time.monotonic() < end_s:
    time.sleep(0.1)
found["groups"] = len(spark.sparkContext.statusTracker().getJobIdsForGroup("slow"))
spark.sparkContext.cancelJobGroup("slow")
thread.join(timeout=25)
found["ended"] = not thread.is_alive()
found["active"] = list(spark.sparkContext.statusTracker().getActiveJobsIds())
found["after"] = rows_of(plain, profile)
found["report"] = dagopt.report(spark).to_dict()
(here / "found.json").write_text(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(spark_jar: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the script wrote."""
    assert spark_jar.is_file()
    directory = tmp_path_factory.mktemp("failures")
    conf = {
        **gpu_conf(directory),
        "spark.master": "local-cluster[2,2,640]",
        "spark.dagopt.boundary": "always",
        "spark.dagopt.planner.timeout": "60s",
    }
    run_spark(directory, SCRIPT, conf=conf).ok()
    written: dict[str, Any] = json.loads((directory / "found.json").read_text())
    return written


def test_an_executor_lost_in_the_gpu_part_changes_no_row(found: dict[str, Any]) -> None:
    assert found["was_lost"]
    assert found["lost"] == found["plain"]
    probe, rest = found["report_of_lost"]["gpu_stages"]
    assert (probe["form"], probe["slices"]) == ("probe", [2, 6])
    assert rest["boundary_before"]


def test_a_job_cancelled_in_a_slice_ends_with_it(found: dict[str, Any]) -> None:
    assert found["groups"] >= 1  # jobs of the slices are in the group of the user's thread
    assert found["ended"]
    assert "cancelled" in found["error"].lower()
    assert found["active"] == []
    assert found["after"] == found["plain"]


def test_dagopt_stays_on(found: dict[str, Any]) -> None:
    assert found["report"]["gate"]["off_reason"] == ""
