"""One Spark application of the benchmark, in one mode.

Started by :mod:`jobs.gpu_bench.runner`, and served as :mod:`jobs.overlap.serve` says. The modes differ
in configuration, but for ``hand``, which shuffles between decoding and the kernel.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import dagopt
from jobs.gpu_bench.cases import Case, case_of, decoder_of, digest
from jobs.gpu_bench.modes import HAND
from jobs.gpu_bench.work import Load, score_rows
from jobs.overlap.serve import Handler, serve

if TYPE_CHECKING:
    from pyspark.resource import ResourceProfile

Batches = Iterator[pa.RecordBatch]


def start(spark: SparkSession, request: dict[str, Any]) -> Handler:
    """The handler of ``{"do": "run", ...}``; waits for the executor first."""
    spark.sparkContext.setLogLevel("WARN")
    spark.range(1).collect()
    profile = dagopt.gpu_profile()
    last_id = 0

    def run(command: dict[str, Any]) -> dict[str, Any]:
        nonlocal last_id
        case, load = case_of(command["case"]), Load(**command["load"])
        spark.sparkContext.setJobGroup(command["group"], command["group"])
        begin_s = time.perf_counter()
        rows = pipeline(spark, case, load, command, request["mode"], profile).collect()
        elapsed_s = time.perf_counter() - begin_s
        stages = [stage for stage in _gpu_stages(spark) if stage["id"] > last_id]
        last_id = max([last_id, *(stage["id"] for stage in stages)])
        found = digest((row["row"], row["score"]) for row in rows)
        return {"elapsed_s": elapsed_s, "digest": found, "gpu_stages": stages}

    return run


def pipeline(
    spark: SparkSession,
    case: Case,
    load: Load,
    command: dict[str, Any],
    mode: str,
    profile: ResourceProfile | None,
) -> DataFrame:
    """The case's rows with their scores."""
    if case.is_real:
        source = spark.read.parquet(command["images"]).select("image", "jpeg")
    else:
        source = spark.range(0, case.num_tasks * case.num_rows, 1, case.num_tasks)
    decoded = source.mapInArrow(_decode(case, load), "row bigint, payload binary")
    if mode == HAND:
        decoded = decoded.repartition(case.num_tasks)
    infer = _infer(case, load)
    return decoded.mapInArrow(infer, "row bigint, score bigint", profile=profile)


def _decode(case: Case, load: Load) -> Callable[[Batches], Batches]:
    decode = decoder_of(case, load)

    def function(batches: Batches) -> Batches:
        for batch in batches:
            payloads = decode(batch.column(batch.num_columns - 1).to_pylist())
            columns = [batch.column(0), pa.array(payloads, pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, ["row", "payload"])

    function.__name__ = f"decode_{case.key}"
    return function


def _infer(case: Case, load: Load) -> Callable[[Batches], Batches]:
    def function(batches: Batches) -> Batches:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            raise RuntimeError("not in a task of Spark")
        (address,) = context.resources()["gpu"].addresses
        for batch in batches:
            scores = score_rows(batch.column("payload").to_pylist(), address, load)
            columns = [batch.column("row"), pa.array(scores, pa.int64())]
            yield pa.RecordBatch.from_arrays(columns, ["row", "score"])

    function.__name__ = f"infer_{case.key}"
    return function


def _gpu_stages(spark: SparkSession) -> list[dict[str, Any]]:
    """What dagopt decided so far, if it is there."""
    if "dagopt" not in (spark.conf.get("spark.plugins", "") or ""):
        return []
    return [dict(stage) for stage in dagopt.report(spark).gpu_stages]


if __name__ == "__main__":
    serve("gpu", start)
