"""dagopt: Spark applications that mix I/O and CPU work finish sooner, with the same results.

What users import::

    spark = dagopt.configure(SparkSession.builder.appName("etl")).getOrCreate()
    print(dagopt.report(spark))
    scores = frame.mapInPandas(infer, schema, profile=dagopt.gpu_profile())
    print(dagopt.explain(scores))

and, in functions that run in tasks, ``dagopt.device()`` and ``dagopt.array_module()``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dagopt.spark.devices import array_module, device
    from dagopt.spark.explain import explain
    from dagopt.spark.profiles import gpu_profile
    from dagopt.spark.rdd import gpu_stage
    from dagopt.spark.session import configure, report
    from dagopt.spark.udf import gpu_udf

__all__ = [
    "array_module",
    "configure",
    "device",
    "explain",
    "gpu_profile",
    "gpu_stage",
    "gpu_udf",
    "report",
]

__version__ = "0.1.0"

_MODULES = {
    "array_module": "devices",
    "configure": "session",
    "device": "devices",
    "explain": "explain",
    "gpu_profile": "profiles",
    "gpu_stage": "rdd",
    "gpu_udf": "udf",
    "report": "session",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: the planner process must not wait for code that it never uses."""
    if name in _MODULES:
        return getattr(importlib.import_module(f"dagopt.spark.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
