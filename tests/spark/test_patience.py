"""How long dagopt waits for a planner that is too slow, and holds where executors go when they are idle."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from dagopt.spark.launch import PLUGIN
from tests.conftest import ROOT, RunSparkScript

pytestmark = pytest.mark.spark

PLANNER = ROOT / "tests" / "matrix" / "scripted_planner.py"
JOB = """
import json, sys, time
from pathlib import Path
from pyspark import SparkContext

trace, count = Path(sys.argv[1]), int(sys.argv[2])
sc = SparkContext.getOrCreate()
deadline = time.monotonic() + 180
while "ready" not in (trace.read_text() if trace.exists() else "") and time.monotonic() < deadline:
    time.sleep(0.05)
time.sleep(1)
begun_s = time.monotonic()
for _ in range(count):
    rows = sc.parallelize(range(100), 2).map(lambda n: (n % 4, n)).partitionBy(4).map(lambda r: r[0])
    assert sorted(rows.collect()) == sorted(n % 4 for n in range(100))
    time.sleep(float(sys.argv[3]))
wall_s = time.monotonic() - begun_s
gate = json.loads(sc._jvm.org.apache.spark.scheduler.dagopt.Dagopt.reportJson())["gate"]
print("result", json.dumps({"wall_s": wall_s, **gate}))
sc.stop()
"""


def result(
    run: RunSparkScript, jar: Path, trace: Path, policy: str, *arguments: str, conf: dict[str, str]
) -> dict[str, int | float | str]:
    ended = run(
        JOB,
        str(trace),
        *arguments,
        dagopt=False,
        conf={
            "spark.plugins": PLUGIN,
            "spark.driver.extraClassPath": str(jar),
            "spark.executor.extraClassPath": str(jar),
            "spark.dagopt.minInputBytes": "0",
            "spark.dagopt.planner.command": f"{sys.executable} {PLANNER} {trace} {policy}",
            **conf,
        },
        timeout_s=600,
    ).ok()
    (line,) = [line for line in ended.stdout.splitlines() if line.startswith("result ")]
    found: dict[str, int | float | str] = json.loads(line.removeprefix("result "))
    return found


def test_a_planner_that_is_always_late_is_given_up(
    run_spark_script: RunSparkScript, spark_jar: Path, tmp_path: Path
) -> None:
    """Its late plans are answers, but none that anybody waited for: each stage would lose the timeout."""
    seen = result(
        run_spark_script, spark_jar, tmp_path / "trace", "slow late_ms=1000", "5", "2",
        conf={"spark.master": "local[2]"},
    )  # fmt: skip
    assert seen["fallbacks"] == seen["task_sets_held"] == 3
    assert "did not answer 3 times in a row" in str(seen["off_reason"])


def test_no_hold_lasts_until_idle_executors_are_given_up(
    run_spark_script: RunSparkScript, spark_jar: Path, tmp_path: Path
) -> None:
    seen = result(
        run_spark_script, spark_jar, tmp_path / "trace", "group size=2 delay_ms=900000", "1", "0",
        conf={
            "spark.master": "local-cluster[1,1,640]",
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.shuffleTracking.enabled": "true",
            "spark.dynamicAllocation.maxExecutors": "1",
            "spark.dynamicAllocation.executorIdleTimeout": "8s",
            "spark.dagopt.maxDelay": "900s",
            "spark.dagopt.planner.timeout": "20s",
        },
    )  # fmt: skip
    assert seen["task_sets_held"] == 1
    assert seen["off_reason"] == ""
    assert float(seen["wall_s"]) < 500
