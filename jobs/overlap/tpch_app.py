"""One application of the case ``tpch``: a driver process that runs a query when told to.

Started with one argument, a JSON object of ``conf``, ``scale`` and ``data``; then a command a line
on stdin, ``{"query": 5, "results": directory}``, and one line of JSON for each on stdout.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from pathlib import Path

from pyspark.sql import SparkSession

from jobs.tpch import TABLES, query_sql, write_result


def main() -> None:
    """Serve queries until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request = json.loads(sys.argv[1])
    builder = SparkSession.builder.appName(f"TPC-H {request['mode']}")
    spark = builder.config(map=request["conf"]).getOrCreate()

    def answer(body: dict[str, object]) -> None:
        answers.write(json.dumps(body) + "\n")
        answers.flush()

    try:
        for table in TABLES:
            spark.read.parquet(f"{request['data']}/{table}").createOrReplaceTempView(table)
        answer({"ok": True, "app_id": spark.sparkContext.applicationId})
        for line in sys.stdin:
            command = json.loads(line)
            try:
                spark.sparkContext.setJobDescription(f"TPC-H Q{command['query']}")
                start_s = time.perf_counter()
                frame = spark.sql(query_sql(command["query"], request["scale"]))
                rows = frame.collect()
                elapsed_s = time.perf_counter() - start_s
                write_result(Path(command["results"]), command["query"], frame.dtypes, rows)
                answer({"ok": True, "elapsed_s": elapsed_s})
            except Exception as error:  # noqa: BLE001  told to the benchmark, which names the query
                traceback.print_exc()
                answer({"ok": False, "error": f"{type(error).__name__}: {error}"[:2000]})
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
