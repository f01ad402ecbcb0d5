"""CPU slots left free for the GPU tasks of a sliced stage, as the planner says."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.conftest import RunSparkScript
from tests.spark.gpu_cluster import gpu_conf, needs_profiles_in_sql

pytestmark = [pytest.mark.spark, needs_profiles_in_sql]

PLANNER = Path(__file__).parents[1] / "matrix" / "scripted_planner.py"
SLICE, CORES, LIMIT = 4, 4, 3

SCRIPT = """
import json, time
from pathlib import Path
from pyspark import TaskContext
from pyspark.sql import SparkSession
import dagopt

spark = SparkSession.builder.getOrCreate()

def timed(prefix, seconds):
    def function(parts):
        for part in parts:
            part[f"{prefix}_start"] = time.time()
            time.sleep(seconds)
            part[f"{prefix}_end"] = time.time()
            yield part
    return function

columns = "id long, cpu_start double, cpu_end double"
frame = spark.range(0, 12, 1, 12).mapInPandas(timed("cpu", 1.5), columns)
columns += ", gpu_start double, gpu_end double"
frame = frame.mapInPandas(timed("gpu", 0.2), columns, profile=dagopt.gpu_profile())
rows = [row.asDict() for row in frame.collect()]
gate = dagopt.report(spark).to_dict()["gate"]
Path("found.json").write_text(json.dumps({"rows": rows, "gate": gate}))
"""


def test_a_gpu_task_finds_a_slot_while_cpu_tasks_of_later_slices_run(
    run_spark_script: RunSparkScript, tmp_path: Path
) -> None:
    policy = f"pass slice={SLICE} limit={LIMIT}"
    conf = {
        "spark.dagopt.planner.command": f"{sys.executable} {PLANNER} {tmp_path / 'trace'} {policy}",
        "spark.dagopt.planner.timeout": "60s",
    }
    run_spark_script(SCRIPT, conf={**gpu_conf(tmp_path, cores=CORES), **conf}).ok()
    found = json.loads((tmp_path / "found.json").read_text())
    rows = found["rows"]
    assert found["gate"]["off_reason"] == ""
    assert [row["id"] for row in rows] == list(range(12))
    # Spark chooses which slice comes first.
    first = min(rows, key=lambda row: row["cpu_start"])["id"] // SLICE
    later = [row for row in rows if row["id"] // SLICE != first]
    for row in later:
        now = row["cpu_start"]
        assert sum(other["cpu_start"] <= now < other["cpu_end"] for other in rows) <= LIMIT
    # Without the limit, tasks of the second slice would have taken all slots.
    assert min(row["gpu_start"] for row in rows) < min(row["cpu_end"] for row in later)
