"""How many tasks of a stage share a core.

A task that waits for its input leaves its core idle, so a core needs ``1 + io / cpu`` tasks to have
one that computes. A stage that computes, or that runs out of memory, gets what Spark gives it: one
task a core, never more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dagopt.errors import InputError

IO_BOUND_FRACTION = 0.1
"""Below this share of I/O in a task's time, as Spark runs it, a stage counts as CPU-bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrencyChoice:
    """Tasks per core, and on one executor."""

    tasks_per_core: int
    """At least 1; 1 is Spark's own."""

    per_executor: int
    """Tasks of the stage that are launched on one executor at a time, at least 1."""

    reason: str
    is_io_bound: bool = True
    """False where a stage computes, or is short of memory: then nothing of it is delayed."""


def choose_concurrency(
    *,
    io_s: float,
    cpu_s: float | None,
    cores: float,
    max_tasks_per_core: int,
    memory_bound_from: int | None = None,
) -> ConcurrencyChoice:
    """Tasks per core for a stage whose mean task reads ``io_s`` and computes ``cpu_s``.

    Args:
        io_s: mean seconds of reading alone on the link, >= 0.
        cpu_s: mean seconds of computing, >= 0; None where the stage has not been seen.
        cores: of one executor, > 0.
        max_tasks_per_core: upper bound, >= 1.
        memory_bound_from: tasks per core at which the stage was seen to spill, if it was.
    """
    if io_s < 0 or (cpu_s is not None and cpu_s < 0) or cores <= 0 or max_tasks_per_core < 1:
        raise InputError(f"io_s {io_s}, cpu_s {cpu_s}, cores {cores}, max {max_tasks_per_core}")
    whole_cores = max(1, math.floor(cores))
    limit = max_tasks_per_core
    if memory_bound_from is not None:
        limit = min(limit, max(1, memory_bound_from - 1))
    if limit == 1:
        is_possible = max_tasks_per_core > 1
        why = (
            f"memory-bound: it spilled at {memory_bound_from} tasks per core"
            if is_possible
            else "more tasks at once are not possible here"
        )
        return ConcurrencyChoice(
            tasks_per_core=1, per_executor=whole_cores, reason=why, is_io_bound=not is_possible
        )
    # The tasks that Spark starts at once share the link, so each reads as long as all of them.
    shared_io_s = whole_cores * io_s
    if cpu_s is not None and shared_io_s < IO_BOUND_FRACTION * (shared_io_s + cpu_s):
        why = f"CPU-bound: I/O {io_s:.2f} s of {io_s + cpu_s:.2f} s a task"
        return ConcurrencyChoice(
            tasks_per_core=1, per_executor=whole_cores, reason=why, is_io_bound=False
        )
    if cpu_s is None:
        ratio, known = float(limit - 1), "CPU time not yet known"
    elif cpu_s == 0:
        ratio, known = float(limit - 1), f"I/O {io_s:.2f} s and no CPU time a task"
    else:
        # Above the limit it makes no difference, and next to no CPU time would make it infinite.
        ratio = min(io_s / cpu_s, float(limit))
        known = f"I/O {io_s:.2f} s and CPU {cpu_s:.2f} s a task"
    # One more than the ratio asks for, so that a core has work when a fetch is late.
    wanted = math.ceil(cores * (1 + ratio)) + 1
    tasks_per_core = min(limit, math.ceil(wanted / cores))
    per_executor = max(1, min(wanted, math.floor(tasks_per_core * cores)))
    return ConcurrencyChoice(
        tasks_per_core=tasks_per_core, per_executor=per_executor, reason=f"I/O-bound: {known}"
    )
