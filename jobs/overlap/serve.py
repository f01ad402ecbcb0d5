"""The process of one application of a benchmark, which does what it is told.

It is started with one argument, a JSON object with the mode and its configuration. Then it reads a
command a line from stdin, and answers each with one JSON line on what was stdout at the start.
Whatever else is printed goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import IO, Any, TypeAlias

from pyspark.sql import SparkSession

Handler: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""Carries out a command; what it returns is the answer."""


def serve(name: str, start: Callable[[SparkSession, dict[str, Any]], Handler]) -> None:
    """Serve commands in a Spark application until stdin ends.

    Args:
        name: of the application; its mode is added.
        start: called with the session and the request, once.
    """
    answers = take_stdout()
    request = json.loads(sys.argv[1])
    builder = SparkSession.builder.appName(f"{name} {request['mode']}")
    spark = builder.config(map=request["conf"]).getOrCreate()
    try:
        handle = start(spark, request)
        serve_commands(answers, {"app_id": spark.sparkContext.applicationId}, handle)
    finally:
        spark.stop()


def take_stdout() -> IO[str]:
    """What was stdout, for answers; from here on stdout is stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def serve_commands(answers: IO[str], ready: dict[str, Any], handle: Handler) -> None:
    """Answer with ``ready``, then each command, until stdin ends."""

    def answer(body: dict[str, Any]) -> None:
        answers.write(json.dumps(body) + "\n")
        answers.flush()

    answer({"ok": True, **ready})
    for line in sys.stdin:
        try:
            answer({"ok": True, **handle(json.loads(line))})
        except Exception as error:  # noqa: BLE001, PERF203  told to the benchmark, which goes on
            traceback.print_exc()
            answer({"ok": False, "error": f"{type(error).__name__}: {error}"[:2000]})
