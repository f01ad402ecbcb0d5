"""GPU stages of RDDs, by `dagopt.gpu_stage` and by Spark's own `withResources`, in one application.

    python gpu_rdd_scenarios.py RESULT.json [SCENARIO ...]

Writes for each scenario the rows of each partition in their order, both ways, and without names also what
actions of other kinds did. Functions tell in their
rows how many GPUs their tasks held. tests/spark/test_gpu_rdd.py reads it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from pyspark import RDD, SparkContext
from pyspark.resource import ResourceProfile
from pyspark.sql import SparkSession

import dagopt

Stage = Callable[[RDD[Any]], RDD[Any]]


def held_gpus() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return len(context.resources()["gpu"].addresses) if "gpu" in context.resources() else 0


def decode(rows: Iterable[Any]) -> Iterator[list[Any]]:
    for row in rows:
        yield [row, held_gpus()]


def infer(rows: Iterable[Any]) -> Iterator[list[Any]]:
    """The order of its rows shows."""
    for place, row in enumerate(rows):
        yield [row, held_gpus(), place]


def as_texts(row: Any) -> Any:
    return [str(value) for value in row] if isinstance(row, (list, tuple)) else str(row)


def numbers(sc: SparkContext, stage: Stage) -> RDD[Any]:
    return stage(sc.parallelize(range(40), 5).mapPartitions(decode)).mapPartitions(infer)


def lines(sc: SparkContext, stage: Stage) -> RDD[Any]:
    """What comes from the JVM as strings, without a Python function in front."""
    return stage(sc.textFile(__file__, 3)).mapPartitions(infer)


def large(sc: SparkContext, stage: Stage) -> RDD[Any]:
    """Blocks above the size that is fetched to memory at once."""
    rows = sc.parallelize(range(4), 4).map(lambda number: (number, bytes([number]) * (3 << 20)))
    return stage(rows).map(lambda row: (row[0], len(row[1]), set(row[1]) == {row[0]}))


def keyed(sc: SparkContext, stage: Stage) -> RDD[Any]:
    """Rows know their partition by their key still, and need no shuffle to be reduced."""
    pairs = sc.parallelize(range(30), 3).map(lambda number: (number % 7, number)).partitionBy(4)
    staged = stage(pairs)
    assert staged.partitioner == pairs.partitioner
    return staged.reduceByKey(max).mapPartitions(lambda rows: iter(sorted(rows)))


def reduced(sc: SparkContext, stage: Stage) -> RDD[Any]:
    """A shuffle ends the profile."""
    pairs = numbers(sc, stage).map(lambda row: (row[0][0] % 3, row[0][0]))
    return pairs.reduceByKey(max, 2).mapPartitions(
        lambda rows: iter([[*row, held_gpus()] for row in sorted(rows)])
    )


def cached(sc: SparkContext, stage: Stage) -> RDD[Any]:
    decoded = sc.parallelize(range(12), 4).mapPartitions(decode).cache()
    decoded.count()
    return stage(decoded).mapPartitions(infer)


SCENARIOS: dict[str, Callable[[SparkContext, Stage], RDD[Any]]] = {
    "numbers": numbers,
    "empty_partitions": lambda sc, stage: stage(
        sc.parallelize(range(3), 6).mapPartitions(decode)
    ).mapPartitions(infer),
    "no_rows": lambda sc, stage: stage(sc.parallelize([], 2).mapPartitions(decode)).mapPartitions(
        infer
    ),
    "lines": lines,
    "large": large,
    "keyed": keyed,
    "reduced": reduced,
    "cached": cached,
}


def two_profiles(sc: SparkContext, first: ResourceProfile, second: ResourceProfile) -> list[Any]:
    front = dagopt.gpu_stage(sc.parallelize(range(6), 3).mapPartitions(decode), first)
    behind = dagopt.gpu_stage(front.mapPartitions(infer), second)
    return behind.mapPartitions(infer).collect()


def failing(sc: SparkContext, stage: Stage) -> str:
    def fail(rows: Iterable[Any]) -> Iterator[Any]:
        raise ValueError(f"no such model for {len(list(rows))} rows")

    try:
        stage(sc.parallelize(range(8), 2).mapPartitions(decode)).mapPartitions(fail).collect()
    except Exception as error:  # noqa: BLE001  whatever the user would see
        return f"{type(error).__name__}: {error}"
    return "no error"


def lineage(rdd: RDD[Any]) -> str:
    text = rdd.toDebugString()
    assert text is not None
    return text.decode()


def main(result: Path, names: list[str]) -> None:
    """Run all scenarios, or those named."""
    spark = SparkSession.builder.getOrCreate()
    sc = spark.sparkContext
    sc.setLogLevel("WARN")
    profile, half = dagopt.gpu_profile(), dagopt.gpu_profile(gpus=0.5)
    assert profile is not None
    assert half is not None

    def ours(rdd: RDD[Any]) -> RDD[Any]:
        return dagopt.gpu_stage(rdd, profile)

    def spark_s(rdd: RDD[Any]) -> RDD[Any]:
        return rdd.withResources(profile)

    seen: dict[str, Any] = {
        name: {
            which: [
                [as_texts(row) for row in part]
                for part in SCENARIOS[name](sc, stage).glom().collect()
            ]
            for which, stage in (("ours", ours), ("spark", spark_s))
        }
        for name in names or SCENARIOS
    }
    decoded = sc.parallelize(range(4), 2).mapPartitions(decode)
    seen["lineage"] = [lineage(ours(decoded)), lineage(spark_s(decoded))]
    if names:
        seen["report"] = dagopt.report(spark).to_dict()
        result.write_text(json.dumps(seen), encoding="utf-8")
        return
    staged = ours(sc.parallelize(range(4), 2).mapPartitions(decode))
    used = staged.getResourceProfile()
    seen["profile"] = [used.id if used is not None else None, profile.id]
    seen["taken"] = [as_texts(row) for row in numbers(sc, ours).take(2)]
    sc.setCheckpointDir(str(result.parent / "checkpoints"))
    staged.checkpoint()
    seen["checkpointed"] = [staged.count(), staged.count(), staged.isCheckpointed()]
    seen["failing"] = [failing(sc, ours), failing(sc, spark_s)]
    seen["report"] = dagopt.report(spark).to_dict()
    seen["two_profiles"] = [as_texts(row) for row in two_profiles(sc, profile, half)]
    result.write_text(json.dumps(seen), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
