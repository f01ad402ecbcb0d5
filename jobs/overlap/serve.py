"""The process of one application of the benchmark, which does what it is told.

It is started with one argument, a JSON object with the mode and its Spark configuration. Then it
reads a command a line from stdin, and answers each with one JSON line on what was stdout at the
start. Whatever else is printed goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, TypeAlias

from pyspark.sql import SparkSession

Handler: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""Carries out a command; what it returns is the answer."""


def serve(name: str, start: Callable[[SparkSession, dict[str, Any]], Handler]) -> None:
    """Serve commands until stdin ends.

    Args:
        name: of the application; its mode is added.
        start: called with the session and the request, once.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request = json.loads(sys.argv[1])
    builder = SparkSession.builder.appName(f"{name} {request['mode']}")
    spark = builder.config(map=request["conf"]).getOrCreate()

    def answer(body: dict[str, Any]) -> None:
        answers.write(json.dumps(body) + "\n")
        answers.flush()

    try:
        handle = start(spark, request)
        answer({"ok": True, "app_id": spark.sparkContext.applicationId})
        for line in sys.stdin:
            try:
                answer({"ok": True, **handle(json.loads(line))})
            except Exception as error:  # noqa: BLE001, PERF203  told to the benchmark, which goes on
                traceback.print_exc()
                answer({"ok": False, "error": f"{type(error).__name__}: {error}"[:2000]})
    finally:
        spark.stop()
