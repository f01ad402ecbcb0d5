"""One application of the benchmark: a driver process that runs cases when told to.

Started by :mod:`jobs.overlap.runner`, and served as :mod:`jobs.overlap.serve` says.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession

from jobs.overlap.cases import CASES, Job, Setting, await_executors
from jobs.overlap.serve import Handler, serve

PREPARE_GROUP = "prepare"
"""Job group of what is done once, before any run."""


def start(spark: SparkSession, request: dict[str, Any]) -> Handler:
    """Wait for the executors."""
    spark.sparkContext.setLogLevel("WARN")
    setting = Setting(
        hosts=tuple(request["hosts"]),
        sources=tuple(request["sources"]),
        link_bytes_per_s=request["link_bytes_per_s"],
        scale=request["scale"],
        core_dir=request["core_dir"],
    )
    await_executors(spark, len({*setting.hosts, *setting.sources}))
    return Session(spark, setting).handle


class Session:
    """Cases in one application, one at a time: prepared once, run as often as asked."""

    def __init__(self, spark: SparkSession, setting: Setting) -> None:
        self._spark = spark
        self._setting = setting
        self._job: Job | None = None

    def handle(self, command: dict[str, Any]) -> dict[str, Any]:
        """Carry out ``{"do": "prepare", "case": name}`` or ``{"do": "run", "group": name}``."""
        context = self._spark.sparkContext
        if command["do"] == "prepare":
            context.setJobGroup(PREPARE_GROUP, "map outputs and warm executors")
            case = CASES[command["case"]]
            self._job = case.prepare(self._spark, self._setting, case)
            return {}
        context.setJobGroup(command["group"], "measured")
        before = self._report()
        if self._job is None:
            raise RuntimeError("the case has not been prepared")
        core_s = self._job()
        after = self._report()
        idle_hold_s = idle_hold(after) - idle_hold(before)
        return {"core_s": core_s, "idle_hold_s": idle_hold_s, "report": after}

    def _report(self) -> dict[str, Any]:
        if "dagopt" not in (self._spark.conf.get("spark.plugins", "") or ""):
            return {}
        jvm = self._spark.sparkContext._jvm
        if jvm is None:
            raise RuntimeError("the session has no JVM")
        text = jvm.org.apache.spark.scheduler.dagopt.Dagopt.reportJson()
        report: dict[str, Any] = json.loads(text)
        return report


def idle_hold(report: dict[str, Any]) -> float:
    """Idle seconds that holds caused so far; 0 without dagopt."""
    return float(report.get("idle_hold_s", 0.0))


if __name__ == "__main__":
    serve("overlap", start)
