"""GPU stages whose functions have a CPU form, in one application.

    python gpu_shifting_scenarios.py RESULT.json [SCENARIO...]

Functions wait as long as a GPU or a core would take, and tell in their rows whether their task held a
GPU. Each query is repeated until slices have shifted: a first run is not always known well enough.
tests/spark/test_gpu_shifting.py reads what is written.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas import functions as pandas_functions

import dagopt
from tests.processes import children

pandas_udf: Any = pandas_functions.pandas_udf

NUM_PARTITIONS = 20
ROWS = 5
MOST_RUNS = 5


def held_gpu() -> bool:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return "gpu" in context.resources()


def waiting(
    seconds: float, *, raises: bool = False, marks: Path | None = None
) -> Callable[..., Any]:
    """A UDF that takes so long for a partition, and leaves a file for each in ``marks``."""

    def infer(ids: pd.Series) -> pd.DataFrame:
        time.sleep(seconds)
        if marks is not None:
            (marks / str(ids.iloc[0])).touch()
        if raises:
            raise ValueError("no answer")
        return pd.DataFrame({"twice": ids * 2, "on_gpu": held_gpu()})

    udf: Callable[..., Any] = pandas_udf(infer, "twice long, on_gpu boolean")
    return udf


def frame(
    spark: SparkSession,
    gpu_s: float,
    cpu_s: float,
    *,
    raises: bool = False,
    marks: Path | None = None,
) -> DataFrame:
    udf = dagopt.gpu_udf(
        waiting(gpu_s, marks=marks),
        dagopt.gpu_profile(),
        cpu_only=waiting(cpu_s, raises=raises, marks=marks),
    )
    ids = spark.range(NUM_PARTITIONS * ROWS, numPartitions=NUM_PARTITIONS)
    return ids.select("id", F.spark_partition_id().alias("partition"), udf("id").alias("answer"))


def collected(made: DataFrame) -> list[list[Any]]:
    return [[row.id, row.partition, row.answer.twice, row.answer.on_gpu] for row in made.collect()]


def run(spark: SparkSession, made: DataFrame) -> dict[str, Any]:
    old = dagopt.report(spark).to_dict()
    rows = collected(made)
    new = dagopt.report(spark).to_dict()
    return {
        "rows": rows,
        "shifts": new["gpu_shifts"][len(old["gpu_shifts"]) :],
        "forms": [one["form"] for one in new["gpu_stages"][len(old["gpu_stages"]) :]],
    }


def thrown_by(made: DataFrame) -> str | None:
    try:
        made.collect()
    except Exception as error:  # noqa: BLE001  its text is the result
        return str(error)
    return None


def repeated(spark: SparkSession, make: Callable[[], DataFrame]) -> list[dict[str, Any]]:
    """The runs, the last of them one in which slices shifted."""
    runs: list[dict[str, Any]] = []
    while len(runs) < MOST_RUNS and not any(one["shifts"] for one in runs):
        runs.append(run(spark, make()))
    return runs


def shifted(spark: SparkSession) -> Any:
    return repeated(spark, lambda: frame(spark, 0.5, 0.5))


def taken_back(spark: SparkSession) -> Any:
    return repeated(spark, lambda: frame(spark, 0.3, 60.0))


def raising(spark: SparkSession) -> Any:
    """The exception of a CPU form."""
    return thrown_by(frame(spark, 1.0, 0.5, raises=True))


def cancelled(spark: SparkSession) -> Any:
    """What a query throws that is cancelled while its slices run, and the stages that it leaves."""
    context = spark.sparkContext
    context.setJobGroup("slow", "a query that is cancelled")
    threading.Timer(2.0, lambda: context.cancelJobGroup("slow")).start()
    thrown = thrown_by(frame(spark, 0.5, 0.5))
    context.setJobGroup("others", "those that follow")
    return {"thrown": thrown, "active": active_stages(spark)}


def active_stages(spark: SparkSession) -> int:
    """Stages that still run when they have had time to end."""
    tracker = spark.sparkContext.statusTracker()
    end_s = time.monotonic() + 20
    while tracker.getActiveStageIds() and time.monotonic() < end_s:
        time.sleep(0.1)
    return len(tracker.getActiveStageIds())


def lost(spark: SparkSession) -> Any:
    """What a query throws of which another branch fails, and the partitions that it computed."""

    def fail(ids: pd.Series) -> pd.Series:
        raise ValueError(f"the other branch, {len(ids)} rows")

    failing: Any = pandas_udf(fail, "long")
    other = spark.range(5, numPartitions=1).select(failing("id").alias("other"))
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", -1)
    with tempfile.TemporaryDirectory() as name:
        marks = Path(name)
        made = frame(spark, 1.0, 1.0, marks=marks)
        thrown = thrown_by(made.join(other, made.id == other.other))
        active = active_stages(spark)
        return {"thrown": thrown, "active": active, "computed": len(list(marks.iterdir()))}


def unrepeatable(spark: SparkSession) -> Any:
    """Rows that may lie in other partitions when they are computed again."""
    spark.conf.set("spark.sql.execution.sortBeforeRepartition", "false")
    udf = dagopt.gpu_udf(waiting(0.1), dagopt.gpu_profile(), cpu_only=waiting(0.1))
    ids = spark.range(NUM_PARTITIONS * ROWS).repartition(4, "id")
    # Of two repartitions that follow one another Spark drops the first.
    ids = ids.sample(fraction=1.0, seed=1).repartition(NUM_PARTITIONS)
    made = ids.select("id", F.spark_partition_id().alias("partition"), udf("id").alias("answer"))
    found = run(spark, made)
    spark.conf.unset("spark.sql.execution.sortBeforeRepartition")
    return found


def orphaned(spark: SparkSession) -> Any:
    """A query whose planner is killed while its slices run; nothing is decided afterwards."""
    jvm: Any = spark.sparkContext._jvm
    (planner,) = children(jvm.java.lang.ProcessHandle.current().pid(), "dagopt.planner")
    threading.Timer(2.0, lambda: os.kill(planner, signal.SIGKILL)).start()
    return collected(frame(spark, 0.5, 0.5))


# Most share a plan and so its costs: after `taken_back` slices hardly shift, and after `orphaned` never.
SCENARIOS = {
    one.__name__: one
    for one in (unrepeatable, shifted, raising, cancelled, lost, taken_back, orphaned)
}


def main(path: Path, names: list[str]) -> None:
    spark = SparkSession.builder.getOrCreate()
    found = {name: SCENARIOS[name](spark) for name in names or SCENARIOS}
    path.write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
