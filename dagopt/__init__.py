"""dagopt: Spark applications that mix I/O and CPU work finish sooner, with the same results.

What users import::

    spark = dagopt.configure(SparkSession.builder.appName("etl")).getOrCreate()
    print(dagopt.report(spark))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dagopt.spark.session import configure, report

__all__ = ["configure", "report"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import what is asked for: the planner process must not wait for code that it never uses."""
    if name in __all__:
        from dagopt.spark import session  # noqa: PLC0415  the reason is above

        return getattr(session, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
