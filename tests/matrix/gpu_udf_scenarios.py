"""Functions of `dagopt.gpu_udf` in every surrounding, with a profile and without, in one application.

    python gpu_udf_scenarios.py RESULT.json

Writes for each scenario the rows of each partition in their order, of the plan whose function has a profile
and of the same plan without one, its columns, how many operators dagopt planned and what it explains. Functions tell in
their rows how many GPUs their tasks held. tests/spark/test_gpu_udf.py reads it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.ml.functions import predict_batch_udf
from pyspark.resource import ResourceProfile
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.functions import udf
from pyspark.sql.pandas import functions as pandas_functions
from pyspark.sql.types import DoubleType, LongType, StructField, StructType

import dagopt

Profiles = tuple[ResourceProfile | None, ResourceProfile | None]
Plan = Callable[[SparkSession, Profiles], DataFrame]

# As objects: a text is only understood once there is a session.
DECODED = StructType([StructField(name, LongType()) for name in ("id", "cpu_gpus")])
SCORED = StructType([*DECODED.fields, StructField("gpu_gpus", LongType())])
LONG = LongType()


# Its types know the spellings with hints only.
pandas_udf: Any = pandas_functions.pandas_udf


def held_gpus() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return len(context.resources()["gpu"].addresses) if "gpu" in context.resources() else 0


@pandas_udf(DECODED)  # type: ignore[untyped-decorator]
def decode(ids: pd.Series) -> pd.DataFrame:
    return pd.DataFrame({"id": ids, "cpu_gpus": held_gpus()})


@pandas_udf(SCORED)  # type: ignore[untyped-decorator]
def infer(decoded: pd.DataFrame) -> pd.DataFrame:
    return decoded.assign(gpu_gpus=held_gpus())


@pandas_udf(LONG)  # type: ignore[untyped-decorator]
def gpus(ids: Iterator[pd.Series]) -> Iterator[pd.Series]:
    for part in ids:
        yield part * 0 + held_gpus()


@pandas_udf(LONG)  # type: ignore[untyped-decorator]
def rest_gpus(scored: pd.DataFrame) -> pd.Series:
    return scored["id"] * 0 + held_gpus()


@pandas_udf(LONG)  # type: ignore[untyped-decorator]
def more_gpus(held: pd.Series, ids: pd.Series) -> pd.Series:
    return held * 0 + ids * 0 + held_gpus()


@udf(LONG)
def row_gpus(_: int) -> int:
    return held_gpus()


def make_predict() -> Callable[[Any], Any]:
    return lambda inputs: inputs * 0.0 + held_gpus()


def group(part: pd.DataFrame) -> pd.DataFrame:
    return part.assign(gpu_gpus=held_gpus()).sort_values("id")


def keyed_group(key: tuple[Any, ...], part: pd.DataFrame) -> pd.DataFrame:
    return part.assign(gpu_gpus=held_gpus(), k=key[0]).sort_values("id")


def two_groups(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    found = {"k": [one["k"].iloc[0]], "n": [len(one) + len(other)], "gpu_gpus": [held_gpus()]}
    return pd.DataFrame(found)


def parts(frames: Iterator[Any]) -> Iterator[Any]:
    for frame in frames:
        frame["gpu_gpus"] = held_gpus()
        yield frame


def batches(found: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    for batch in found:
        yield pa.RecordBatch.from_arrays(
            [*batch.columns, pa.array([held_gpus()] * len(batch), pa.int64())],
            [*batch.schema.names, "gpu_gpus"],
        )


def on_cpu_parts(frames: Iterator[Any]) -> Iterator[Any]:
    for frame in frames:
        frame["gpu_gpus"] = -1
        yield frame


def numbers(spark: SparkSession) -> DataFrame:
    return spark.range(0, 40, 1, 5).toDF("id")


def grouped(spark: SparkSession, profiles: Profiles) -> DataFrame:
    frame = numbers(spark).withColumn("k", F.col("id") % 3)
    frame = frame.groupBy("k").applyInPandas(
        dagopt.gpu_udf(group, profiles[0]), "id long, k long, gpu_gpus long"
    )
    return frame.withColumn("after_gpus", gpus("id"))


def profile_of_spark(spark: SparkSession, profile: ResourceProfile | None) -> dict[str, Any]:
    """Spark's own argument, which it has from 4.0 on."""
    return {} if profile is None or spark.version.startswith("3.") else {"profile": profile}


def cogrouped(spark: SparkSession, profiles: Profiles) -> DataFrame:
    one, other = (numbers(spark).withColumn("k", F.col("id") % 3).groupBy("k") for _ in range(2))
    train = dagopt.gpu_udf(two_groups, profiles[0])
    return one.cogroup(other).applyInPandas(train, "k long, n long, gpu_gpus long")


SCENARIOS: dict[str, Plan] = {
    "scalar": lambda spark, p: numbers(spark).select(dagopt.gpu_udf(infer, p[0])(decode("id"))),
    "iterator": lambda spark, p: numbers(spark).select("id", dagopt.gpu_udf(gpus, p[0])("id")),
    "batch": lambda spark, p: numbers(spark).select(
        dagopt.gpu_udf(
            predict_batch_udf(make_predict, return_type=DoubleType(), batch_size=3), p[0]
        )(F.col("id").cast("double"))
    ),
    "row": lambda spark, p: numbers(spark).select("id", dagopt.gpu_udf(row_gpus, p[0])("id")),
    "followed": lambda spark, p: (
        numbers(spark)
        .select(dagopt.gpu_udf(infer, p[0])(decode("id")).alias("s"))
        .select("s", rest_gpus("s").alias("after_gpus"))
    ),
    "nested": lambda spark, p: numbers(spark).select(
        rest_gpus(dagopt.gpu_udf(infer, p[0])(decode("id"))).alias("after_gpus"), "id"
    ),
    "several": lambda spark, p: numbers(spark).select(
        dagopt.gpu_udf(gpus, p[0])("id").alias("one"),
        gpus("id").alias("zero"),
        "id",
        dagopt.gpu_udf(gpus, p[1])(F.col("id") + 1).alias("half"),
        decode("id").alias("d"),
    ),
    "filtered": lambda spark, p: numbers(spark).where(
        dagopt.gpu_udf(gpus, p[0])("id") + F.col("id") % 2 >= 1
    ),
    "subquery": lambda spark, p: numbers(spark).select(
        dagopt.gpu_udf(gpus, p[0])(F.expr("id + (SELECT max(id) FROM range(3))")).alias("gpus")
    ),
    "aggregated": lambda spark, p: (
        numbers(spark)
        .select("id", dagopt.gpu_udf(gpus, p[0])("id").alias("g"))
        .groupBy((F.col("id") % 4).alias("k"))
        .agg(F.sum("id").alias("n"), F.max("g").alias("gpu_gpus"))
        .repartition(1)
        .sortWithinPartitions("k")
    ),
    "groups": grouped,
    "keyed_groups": lambda spark, p: (
        numbers(spark)
        .groupBy((F.col("id") % 3).alias("k"))
        .applyInPandas(dagopt.gpu_udf(keyed_group, p[0]), "id long, gpu_gpus long, k long")
    ),
    "cogroups": cogrouped,
    "cogroups_union": lambda spark, p: cogrouped(spark, p).union(cogrouped(spark, p[1:] + p[:1])),
    "stacked": lambda spark, p: (
        numbers(spark)
        .select("id", decode("id")["cpu_gpus"].alias("cpu_gpus"))
        .mapInPandas(dagopt.gpu_udf(parts, p[0]), "id long, cpu_gpus long, gpu_gpus long")
        .select("id", "cpu_gpus", dagopt.gpu_udf(gpus, p[0])("gpu_gpus").alias("one"))
        .withColumn("two_gpus", dagopt.gpu_udf(row_gpus, p[0])("one"))
    ),
    "behind_profile": lambda spark, p: (
        numbers(spark)
        .mapInPandas(parts, "id long, gpu_gpus long", **profile_of_spark(spark, p[0]))
        .select("id", "gpu_gpus", dagopt.gpu_udf(gpus, p[0])("id").alias("one"))
    ),
    "nested_calls": lambda spark, p: numbers(spark).select(
        dagopt.gpu_udf(more_gpus, p[0])(dagopt.gpu_udf(gpus, p[0])("id"), "id").alias("gpu_gpus")
    ),
    "mapped": lambda spark, p: numbers(spark).mapInPandas(
        dagopt.gpu_udf(parts, p[0]), "id long, gpu_gpus long"
    ),
    "mapped_arrow": lambda spark, p: numbers(spark).mapInArrow(
        dagopt.gpu_udf(batches, p[0]), "id long, gpu_gpus long"
    ),
}


def both_forms(spark: SparkSession, profile: ResourceProfile | None) -> dict[str, Any]:
    """Which of two functions ran, of a UDF and of a plain function."""

    def on_cpu(ids: pd.Series) -> pd.Series:
        return ids * 0 - 1

    scalar = pandas_udf(lambda ids: ids * 0 + held_gpus(), "long")
    scored = numbers(spark).select(
        dagopt.gpu_udf(scalar, profile, cpu_only=on_cpu)("id").alias("g")
    )
    schema = "id long, gpu_gpus long"
    mapped = numbers(spark).mapInPandas(
        dagopt.gpu_udf(parts, profile, cpu_only=on_cpu_parts), schema
    )
    return {
        "scalar": sorted({row.g for row in scored.collect()}),
        "mapped": sorted({row.gpu_gpus for row in mapped.collect()}),
    }


def failing(spark: SparkSession, profile: ResourceProfile | None) -> str:
    def fail(ids: pd.Series) -> pd.Series:
        raise ValueError(f"no such model for {len(ids)} rows")

    plain = pandas_udf(fail, "long")
    try:
        numbers(spark).select(dagopt.gpu_udf(plain, profile)("id")).collect()
    except Exception as error:  # noqa: BLE001  whatever the user would see
        return f"{type(error).__name__}: {error}"
    return "no error"


def rows_of(frame: DataFrame) -> list[list[Any]]:
    glommed = frame.rdd.glom().collect()
    return [[row.asDict(recursive=True) for row in part] for part in glommed]


def explained(frame: DataFrame) -> list[list[str]]:
    shown = dagopt.explain(frame).to_dict()["operators"]
    return [[one["name"], one["profile"], one.get("signature", "")] for one in shown]


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def main(result: Path, names: list[str]) -> None:
    """Run all scenarios, or those named."""
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    profile, half = dagopt.gpu_profile(), dagopt.gpu_profile(gpus=0.5)
    seen: dict[str, Any] = {}
    for adaptive in ("true", "false"):
        spark.conf.set("spark.sql.adaptive.enabled", adaptive)
        for name in names or SCENARIOS:
            plan = SCENARIOS[name]
            marked, plain = plan(spark, (profile, half)), plan(spark, (None, None))
            seen[f"{name} {adaptive}"] = {
                "gpu": rows_of(marked),
                "plain": rows_of(plain),
                "columns": [marked.columns, plain.columns],
                "num_planned": plan_of(marked).split("Initial Plan")[0].count("GpuStage"),
                "explained": explained(marked),
            }
    seen["failing"] = [failing(spark, profile), failing(spark, None)]
    seen["both_forms"] = [both_forms(spark, profile), both_forms(spark, None)]
    seen["report"] = dagopt.report(spark).to_dict()
    result.write_text(json.dumps(seen), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
