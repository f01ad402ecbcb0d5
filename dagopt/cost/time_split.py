"""Where the time of recorded tasks went: measured parts, and the rest that nothing explains.

Attempts that failed or were killed may tell nonsense of themselves, so they are in no part; the time
that they held their slots is *lost*.

A task attempt holds its slot from launch to finish. Of that time Spark measures waiting for shuffle
blocks, JVM CPU time, garbage collection, unpacking and packing, and writing map output. Parts
overlap in some versions (writing takes CPU time too), so each is taken from what is left of the
attempt, in the order of :data:`PARTS`, and the sum is never more than the attempt took.

What is left is *unexplained*: reading files, waiting for a core, Python workers, other systems. It is
never counted as I/O, since Spark measures no such wait. Where a Python worker runs, it is its time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from dagopt.events.observed_profile import MIN_COVERAGE

if TYPE_CHECKING:
    from dagopt.events.trace import StageTrace, TaskColumns

Bound: TypeAlias = Literal["io", "cpu", "unknown"]

PARTS: Final = ("fetch_wait_s", "cpu_s", "gc_s", "serialization_s", "shuffle_write_s")
"""The measured parts, in the order in which they are taken from an attempt's time."""

_IO_FRACTION: Final = 0.1
"""From this share of fetch wait on a stage waits for I/O: the planner's own threshold."""

_CPU_FRACTION: Final = 0.5
"""From this share of CPU time and garbage collection on, a stage that does not wait computes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSplit:
    """Slot seconds of a stage attempt, summed over the task attempts that succeeded."""

    elapsed_s: float
    """Launch to finish; the parts and ``unexplained_s`` add up to it."""

    fetch_wait_s: float
    cpu_s: float
    gc_s: float
    serialization_s: float
    shuffle_write_s: float
    unexplained_s: float
    """Python workers' time where there are any; else what Spark does not measure."""

    lost_s: float
    """Of attempts that failed or were killed; in none of the others."""

    num_tasks: int
    """Attempts that are summed here: those that have metrics."""


def split_time(tasks: TaskColumns) -> TimeSplit | None:
    """The time of all attempts; None where none that succeeded has metrics."""
    columns = {
        "fetch_wait_s": tasks.fetch_wait_s,
        "cpu_s": tasks.cpu_s,
        "gc_s": tasks.gc_s,
        "serialization_s": np.nan_to_num(tasks.deserialize_s) + np.nan_to_num(tasks.serialize_s),
        "shuffle_write_s": tasks.shuffle_write_s,
    }
    used = tasks.ok & np.isfinite(tasks.elapsed_s) & np.isfinite(tasks.run_s)
    if not used.any():
        return None
    left = tasks.elapsed_s[used].copy()
    elapsed_s = float(left.sum())
    sums: dict[str, float] = {}
    for part in PARTS:
        taken = np.minimum(np.nan_to_num(columns[part][used]), left)
        left -= taken
        sums[part] = float(taken.sum())
    return TimeSplit(
        elapsed_s=elapsed_s,
        unexplained_s=float(left.sum()),
        lost_s=float(np.nansum(tasks.elapsed_s[~tasks.ok])),
        num_tasks=int(used.sum()),
        **sums,
    )


def bound_of(stage: StageTrace, split: TimeSplit | None) -> tuple[Bound, str]:
    """What a stage attempt was bound by, and why.

    Returns:
        ``unknown`` where too little was recorded, or where most of the time is unexplained.
    """
    if split is None:
        return "unknown", "no task of it succeeded with metrics"
    if stage.coverage < MIN_COVERAGE:
        return "unknown", f"only {stage.coverage:.0%} of its tasks are in the log"
    if split.elapsed_s <= 0:
        return "unknown", "its tasks took no measurable time"
    wait = split.fetch_wait_s / split.elapsed_s
    if wait >= _IO_FRACTION:
        return "io", f"{wait:.0%} of task time waited for shuffle blocks"
    if stage.has_python:
        return "unknown", "Python workers run in it, and Spark does not measure their time"
    if stage.works_outside_jvm:
        return "unknown", "operators of it run on a GPU, and Spark does not measure their time"
    if not np.isfinite(stage.tasks.cpu_s).any():
        return "unknown", "this Spark recorded no CPU time"
    busy = (split.cpu_s + split.gc_s) / split.elapsed_s
    if busy >= _CPU_FRACTION:
        return "cpu", f"{busy:.0%} of task time was CPU and garbage collection"
    return "unknown", f"{split.unexplained_s / split.elapsed_s:.0%} of task time is unexplained"
