"""The executors that an application has now, as Spark's status store tells them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dagopt.spark.devices import RESOURCE

DRIVER = "driver"
"""Id by which the store lists the driver among the executors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveExecutor:
    """One of them, or the driver."""

    executor: str
    host: str
    """Empty for one that is about to register."""
    cores: int
    """Task slots of one cpu each; the driver has some in local mode only."""
    profile_id: int
    addresses: tuple[str, ...]
    """Of its accelerators."""


def live_executors(context: Any) -> list[LiveExecutor]:
    """All that are alive, the driver too.

    Args:
        context: the SparkContext.
    """
    summaries = context._jsc.sc().statusStore().executorList(True)  # noqa: SLF001  no other door
    found = []
    for index in range(summaries.size()):
        summary = summaries.apply(index)
        held = summary.resources().get(RESOURCE)
        found.append(
            LiveExecutor(
                executor=str(summary.id()),
                host=str(summary.hostPort()).rpartition(":")[0],
                cores=int(summary.totalCores()),
                profile_id=int(summary.resourceProfileId()),
                addresses=tuple(map(str, held.get().addresses())) if held.isDefined() else (),
            )
        )
    return found
