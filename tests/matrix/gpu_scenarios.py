"""GPU operators in every surrounding, with their profile and without, in one application.

    python gpu_scenarios.py RESULT.json [SCENARIO ...]

Writes for each scenario the rows of each partition in their order, of the plan whose GPU function has
a profile and of the same plan without one, and whether dagopt planned the operator. Functions tell in
their rows how many GPUs their tasks held. tests/spark/test_gpu_stage.py reads it.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.resource import ResourceProfile
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import dagopt

Profile = ResourceProfile | None
Plan = Callable[[SparkSession, Profile], DataFrame]


def held_gpus() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return len(context.resources()["gpu"].addresses) if "gpu" in context.resources() else 0


def decode(parts: Iterator[Any]) -> Iterator[Any]:
    """The CPU part."""
    for part in parts:
        part["cpu_gpus"] = held_gpus()
        yield part


def infer(parts: Iterator[Any]) -> Iterator[Any]:
    """The GPU part; the order of its rows shows."""
    count = 0
    for part in parts:
        part["gpu_gpus"] = held_gpus()
        part["place"] = range(count, count + len(part))
        count += len(part)
        yield part


def infer_arrow(parts: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    for part in parts:
        yield part.append_column("gpu_gpus", pa.array([held_gpus()] * len(part), pa.int64()))


def after(parts: Iterator[Any]) -> Iterator[Any]:
    for part in parts:
        part["after_gpus"] = held_gpus()
        yield part


def number() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return context.partitionId()


def cpu_number(parts: Iterator[Any]) -> Iterator[Any]:
    for part in parts:
        part["cpu_number"] = number()
        yield part


def gpu_number(parts: Iterator[Any]) -> Iterator[Any]:
    for part in parts:
        part["gpu_number"] = number()
        yield part


CPU = "id long, cpu_gpus long"
GPU = f"{CPU}, gpu_gpus long, place long"


def pipeline(frame: DataFrame, profile: Profile) -> DataFrame:
    return frame.mapInPandas(decode, CPU).mapInPandas(infer, GPU, profile=profile)


def numbers(spark: SparkSession, count: int = 40, partitions: int = 5) -> DataFrame:
    return spark.range(0, count, 1, partitions).toDF("id")


def nested(spark: SparkSession, profile: Profile) -> DataFrame:
    frame = numbers(spark).select(
        "id",
        F.struct(F.col("id").alias("a"), F.array(F.col("id"), F.lit(None)).alias("b")).alias("s"),
        F.encode(F.repeat(F.lit("x"), F.col("id").cast("int")), "utf-8").alias("raw"),
        F.when(F.col("id") % 3 == 0, F.lit(None)).otherwise(F.col("id").cast("string")).alias("t"),
    )
    schema = "id long, s struct<a: long, b: array<long>>, raw binary, t string"
    return frame.mapInArrow(lambda parts: parts, schema).mapInArrow(
        infer_arrow, f"{schema}, gpu_gpus long", profile=profile
    )


def unequal(spark: SparkSession, profile: Profile) -> DataFrame:
    plain = numbers(spark, 6, 2).mapInPandas(decode, CPU)
    other = plain.select(
        "*", F.lit(0).alias("gpu_gpus").cast("long"), F.lit(0).alias("place").cast("long")
    )
    return pipeline(numbers(spark), profile).union(other)


def sorted_within(spark: SparkSession, profile: Profile) -> DataFrame:
    frame = numbers(spark).repartition(3, F.col("id") % 7)
    return pipeline(frame.sortWithinPartitions(F.col("id").desc()), profile)


def cached(spark: SparkSession, profile: Profile) -> DataFrame:
    frame = numbers(spark, 45).mapInPandas(decode, CPU).cache()  # no other plan may use it
    frame.count()
    return frame.mapInPandas(infer, GPU, profile=profile)


def two(spark: SparkSession, profile: Profile) -> DataFrame:
    frame = pipeline(numbers(spark), profile).select("id", "cpu_gpus")
    return frame.mapInPandas(infer, GPU, profile=profile)


def two_profiles(spark: SparkSession, profile: Profile) -> DataFrame:
    frame = pipeline(numbers(spark), profile).select("id", "cpu_gpus")
    other = dagopt.gpu_profile(cpus=2) if profile is not None else None
    return frame.mapInPandas(infer, GPU, profile=other)


def numbered(spark: SparkSession, profile: Profile) -> DataFrame:
    """What depends on the number of a task's partition, in front of the GPU operator and in it."""
    frame = numbers(spark).select(
        "id",
        F.spark_partition_id().alias("p"),
        F.rand(7).alias("r"),
        F.monotonically_increasing_id().alias("m"),
    )
    columns = "id long, p int, r double, m long, cpu_number int"
    return frame.mapInPandas(cpu_number, columns).mapInPandas(
        gpu_number, f"{columns}, gpu_number int", profile=profile
    )


def random_plan(seed: int) -> Plan:
    """Some operators in some order, with rows whose order in a partition is told."""

    def plan(spark: SparkSession, profile: Profile) -> DataFrame:
        chance = random.Random(seed)
        frame = numbers(spark, chance.randint(0, 60), chance.randint(1, 7))
        gpu_at = chance.randrange(3)
        for step in range(3):
            kind = chance.choice(["filter", "shuffle", "decode", "column", "union"])
            if kind == "filter":
                frame = frame.where(F.col("id") % chance.randint(2, 5) != 0)
            elif kind == "shuffle":
                frame = frame.repartition(chance.randint(1, 5), "id").sortWithinPartitions("id")
            elif kind == "decode":
                frame = frame.mapInPandas(decode, CPU).select("id")
            elif kind == "column":
                frame = frame.select((F.col("id") * 3 + F.spark_partition_id()).alias("id"))
            else:
                frame = frame.union(numbers(spark, chance.randint(0, 9), 2))
            if step == gpu_at or chance.random() < 0.3:
                frame = frame.mapInPandas(
                    infer, "id long, gpu_gpus long, place long", profile=profile
                )
                frame = frame.select((F.col("id") + F.col("place")).alias("id"))
        return frame

    return plan


SCENARIOS: dict[str, Plan] = {
    "plain": lambda spark, profile: pipeline(numbers(spark), profile),
    "no_cpu_part": lambda spark, profile: (
        numbers(spark)
        .withColumn("cpu_gpus", F.lit(0).cast("long"))
        .mapInPandas(infer, GPU, profile=profile)
    ),
    "empty_partitions": lambda spark, profile: pipeline(numbers(spark, 3, 5), profile),
    "no_rows": lambda spark, profile: pipeline(numbers(spark).where("id < 0"), profile),
    "nested": nested,
    "followed": lambda spark, profile: pipeline(numbers(spark), profile).mapInPandas(
        after, f"{GPU}, after_gpus long"
    ),
    "union": unequal,
    "aggregate": lambda spark, profile: (
        pipeline(numbers(spark), profile)
        .groupBy((F.col("id") % 4).alias("k"))
        .agg(F.sum("place").alias("n"))
        .repartition(1)
        .sortWithinPartitions("k")
    ),
    "coalesced": lambda spark, profile: pipeline(numbers(spark).repartition("id"), profile),
    "sorted_within": sorted_within,
    "cached": cached,
    "two": two,
    "two_profiles": two_profiles,
    "numbered": numbered,
    "barrier": lambda spark, profile: (
        numbers(spark, 4, 1)
        .mapInPandas(decode, CPU)
        .mapInPandas(infer, GPU, barrier=True, profile=profile)
    ),
    "limit": lambda spark, profile: pipeline(numbers(spark, 8, 1), profile).limit(3),
    **{f"random {seed}": random_plan(seed) for seed in range(8)},
}


def rows_of(frame: DataFrame) -> list[list[Any]]:
    glommed = frame.rdd.glom().collect()
    return [
        json.loads(json.dumps([row.asDict(recursive=True) for row in part], default=list))
        for part in glommed
    ]


def num_planned(frame: DataFrame) -> int:
    """How many operators of dagopt's Spark's plan has."""
    # A plan that was adapted is shown twice, as it is and as it was at first.
    plan: str = frame._jdf.queryExecution().executedPlan().toString()
    return plan.split("Initial Plan", maxsplit=1)[0].count("GpuStage")


def hinted(spark: SparkSession, profile: Profile) -> dict[str, int]:
    """How many operators are planned with a hint, and without in a frame that shares the plan."""
    frame = pipeline(numbers(spark), profile)
    never = frame.hint("dagopt", "never")
    nearest = never.mapInPandas(infer, GPU, profile=profile).hint("dagopt", "always")
    wrong = frame.hint("dagopt", "sometimes")
    frames = {"never": never, "nearest": nearest, "wrong": wrong, "without": frame}
    return {name: num_planned(one) for name, one in frames.items()}


def failing(spark: SparkSession, profile: Profile) -> str:
    def fail(parts: Iterator[Any]) -> Iterator[Any]:
        for part in parts:
            # Not in the first slice, which is measured.
            if number() == 3:
                raise ValueError(f"no such model for {len(part)} rows")
        yield from ()

    frame = numbers(spark).mapInPandas(decode, CPU).mapInPandas(fail, GPU, profile=profile)
    try:
        frame.collect()
    except Exception as error:  # noqa: BLE001  whatever the user would see
        return f"{type(error).__name__}: {error}"
    return "no error"


def end_planner(spark: SparkSession) -> None:
    """Ends the planner, a child of the driver's JVM."""
    jvm: Any = spark.sparkContext._jvm
    driver = jvm.java.lang.ProcessHandle.current()
    for child in driver.children().toArray():
        command = Path(f"/proc/{child.pid()}/cmdline")
        if command.exists() and b"dagopt.planner" in command.read_bytes():
            os.kill(child.pid(), 9)


def main(result: Path, names: list[str]) -> None:
    """Run all scenarios, or those named."""
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    profile = dagopt.gpu_profile()
    assert profile is not None
    seen: dict[str, Any] = {}
    for adaptive in ("true", "false"):
        spark.conf.set("spark.sql.adaptive.enabled", adaptive)
        for name in names or SCENARIOS:
            plan = SCENARIOS[name]
            with_profile = plan(spark, profile)
            seen[f"{name} {adaptive}"] = {
                "gpu": rows_of(with_profile),
                "plain": rows_of(plan(spark, None)),
                "num_planned": num_planned(with_profile),
            }
        seen[f"failing {adaptive}"] = [failing(spark, profile), failing(spark, None)]
    seen["taken"] = len(pipeline(numbers(spark), profile).take(2))
    iterated = pipeline(numbers(spark), profile).toLocalIterator()
    seen["iterated"] = [row.id for row in iterated]
    seen["hinted"] = hinted(spark, profile)
    seen["report"] = dagopt.report(spark).to_dict()
    end_planner(spark)
    seen["without_planner"] = {
        "gpu": rows_of(pipeline(numbers(spark), profile)),
        "plain": rows_of(pipeline(numbers(spark), None)),
    }
    seen["report_at_the_end"] = dagopt.report(spark).to_dict()
    result.write_text(json.dumps(seen), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
