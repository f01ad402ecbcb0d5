"""How long the gate works on Spark's scheduling thread when a large task set is submitted.

Runs a real Spark with dagopt on, submits one shuffle stage of many tasks several times, and cancels
each job as soon as the gate has seen it: what is measured is over by then.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
from typing import Any

from pyspark import RDD
from pyspark.sql import SparkSession

import dagopt

SUBMISSIONS = 12
WARM_UP = 4
_PATIENCE_S = 60.0


def gate_seconds(num_tasks: int) -> float:
    """Seconds that the gate takes for a task set of ``num_tasks`` tasks, the median.

    The first submissions are not counted: they load and compile the gate's classes.
    """
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("gate time")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    spark = dagopt.configure(builder, min_input_bytes="1k").getOrCreate()
    try:
        spark.sparkContext.setLogLevel("ERROR")
        pairs = spark.sparkContext.parallelize(range(20_000), 4).map(lambda x: (x, bytes(50)))
        shuffled = pairs.partitionBy(num_tasks)
        shuffled.take(1)
        times = [_submit(spark, shuffled) for _ in range(SUBMISSIONS)]
    finally:
        spark.stop()
    return statistics.median(times[WARM_UP:])


def _submit(spark: SparkSession, shuffled: RDD[tuple[int, bytes]]) -> float:
    """Submit the stage, cancel it, and tell what the gate took, in seconds."""
    before = _gate(spark)
    job = threading.Thread(target=_count, args=(shuffled,), daemon=True)
    job.start()
    deadline_s = time.monotonic() + _PATIENCE_S
    while _gate(spark)["task_sets_held"] == before["task_sets_held"]:
        if time.monotonic() > deadline_s:
            raise AssertionError(f"the gate held no task set: {_gate(spark)}")
        time.sleep(0.02)
    spark.sparkContext.cancelAllJobs()
    job.join()
    seen: float = _gate(spark)["gate_ns_total"] - before["gate_ns_total"]
    return seen / 1e9


def _count(shuffled: RDD[tuple[int, bytes]]) -> None:
    """Count, and do not mind that the job is cancelled."""
    try:
        shuffled.count()
    except Exception as error:
        if "cancel" not in str(error).lower():
            raise


def _gate(spark: SparkSession) -> dict[str, Any]:
    jvm = spark.sparkContext._jvm
    if jvm is None:
        raise AssertionError("no JVM")
    report: dict[str, Any] = json.loads(jvm.org.apache.spark.scheduler.dagopt.Dagopt.reportJson())
    gate: dict[str, Any] = report["gate"]
    return gate
