"""One small job on whichever Spark runs this script; `run.py` runs it, with dagopt off and on.

    python smoke.py RESULT.json MASTER [KEY=VALUE ...]

Prints nothing; writes the job's rows, dagopt's report, and when and where the slow tasks ran.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROWS_PER_TASK = 200
TASKS = 8


def payload(numbers: Iterable[int]) -> Iterator[tuple[int, str]]:
    """Keyed records of a kilobyte that do not compress to nothing."""
    import hashlib

    for number in numbers:
        text = "".join(hashlib.sha256(f"{number}.{i}".encode()).hexdigest() for i in range(16))
        yield number % TASKS, text


def reduce_slowly(
    records: Iterable[tuple[int, str]], times: Path
) -> Iterator[tuple[int, int, int]]:
    """(key, records, characters) of a partition, after a while; writes down when it ran, and where."""
    begin_s = time.time()
    counts: dict[int, list[int]] = {}
    for key, text in records:
        counts.setdefault(key, []).append(len(text))
    time.sleep(0.4)
    # Each executor has one pyspark daemon, the parent of its Python workers.
    with times.open("a") as file:
        file.write(f"{os.getppid()} {begin_s} {time.time()}\n")
    for key, lengths in sorted(counts.items()):
        yield key, len(lengths), sum(lengths)


def main(result: Path, master: str, options: dict[str, str]) -> None:
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    builder = SparkSession.builder.master(master).appName("dagopt smoke")
    for key, value in options.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    sc = spark.sparkContext
    sc.setLogLevel(options.get("smoke.log", "WARN"))
    # Executors of a local cluster come one after the other: the job shall see all of them.
    wanted = int(options.get("smoke.executors", "1"))
    deadline = time.monotonic() + 60
    while (
        sc._jsc.sc().getExecutorMemoryStatus().size() - 1 < wanted and time.monotonic() < deadline
    ):
        time.sleep(0.1)

    started_s = time.time()
    # An RDD with a Python shuffle, then a SQL one under adaptive execution.
    rdd = sc.parallelize(range(TASKS * ROWS_PER_TASK), 4).mapPartitions(payload)
    times = result.with_suffix(".times").absolute()
    reduced = rdd.partitionBy(TASKS, lambda key: key).mapPartitions(
        lambda records: reduce_slowly(records, times)
    )
    by_key = reduced.collect()
    frame = spark.range(0, 40_000, 1, 4).select(
        (F.col("id") % 97).alias("k"), F.sha2(F.col("id").cast("string"), 256).alias("text")
    )
    rows = (
        frame.repartition(6, "k")
        .groupBy("k")
        .agg(F.count("*").alias("n"), F.min("text").alias("first"))
        .orderBy("k")
        .collect()
    )
    wall_s = time.time() - started_s
    report: dict[str, Any] = {}
    if options.get("spark.plugins"):
        assert sc._jvm is not None
        report = json.loads(sc._jvm.org.apache.spark.scheduler.dagopt.Dagopt.reportJson())
    result.write_text(
        json.dumps(
            {
                "spark": spark.version,
                "wall_s": wall_s,
                "rdd": sorted(by_key),
                "sql": [list(row) for row in rows],
                "report": report,
                "times": [line.split() for line in times.read_text().splitlines()],
            }
        )
    )
    spark.stop()


if __name__ == "__main__":
    pairs = [argument.split("=", 1) for argument in sys.argv[3:]]
    main(Path(sys.argv[1]), sys.argv[2], dict(pairs))
