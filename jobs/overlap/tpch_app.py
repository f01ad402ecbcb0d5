"""One application of the case ``tpch``: a driver process that runs a query when told to.

Served as :mod:`jobs.overlap.serve` says; a command is ``{"query": 5, "results": directory}``.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from jobs.overlap.serve import Handler, serve
from jobs.tpch import TABLES, query_sql, write_result


def start(spark: SparkSession, request: dict[str, Any]) -> Handler:
    """Find the tables."""
    for table in TABLES:
        spark.read.parquet(f"{request['data']}/{table}").createOrReplaceTempView(table)

    def run_query(command: dict[str, Any]) -> dict[str, Any]:
        number = command["query"]
        spark.sparkContext.setJobDescription(f"TPC-H Q{number}")
        start_s = time.perf_counter()
        frame = spark.sql(query_sql(number, request["scale"]))
        rows = frame.collect()
        elapsed_s = time.perf_counter() - start_s
        write_result(Path(command["results"]), number, frame.dtypes, rows)
        return {"elapsed_s": elapsed_s}

    return run_query


if __name__ == "__main__":
    serve("TPC-H", start)
