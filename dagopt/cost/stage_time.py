"""How long a stage takes, from the I/O and CPU time of its tasks.

Two closed forms for T equal tasks on executors with C cores each, every executor behind a link of
its own. As Spark runs it, the C tasks of a wave share the link and then all compute:
``waves * (C * io + cpu)``, the last wave with as many tasks as are left. With groups one fetch time
apart, link and cores work at once and the longer of both decides, plus the first fetch or the last
computation that nothing hides. They are bounds for a decision and for its reason, not a simulation
(:mod:`dagopt.sim` does that).
"""

from __future__ import annotations

import math

from dagopt.errors import InputError


def _check(num_tasks: int, num_executors: int, cores: float, io_s: float, cpu_s: float) -> None:
    if num_tasks < 1 or num_executors < 1 or cores <= 0 or io_s < 0 or cpu_s < 0:
        raise InputError(
            f"num_tasks {num_tasks}, num_executors {num_executors} and cores {cores} must be positive,"
            f" io_s {io_s} and cpu_s {cpu_s} not negative"
        )


def _of_the_fullest(num_tasks: int, num_executors: int, cores: float) -> tuple[int, int]:
    """Tasks of the executor that has the most, which ends last, and how many run at once."""
    return math.ceil(num_tasks / num_executors), max(1, math.floor(cores))


def stock_s(num_tasks: int, num_executors: int, cores: float, io_s: float, cpu_s: float) -> float:
    """Seconds of a stage that starts as many tasks as there are cores and replaces what ends.

    Args:
        num_tasks: T.
        num_executors: executors, each behind its own link.
        cores: tasks that an executor runs at once.
        io_s: seconds that a task reads when it is alone on the link.
        cpu_s: seconds that a task computes on a core of its own.
    """
    _check(num_tasks, num_executors, cores, io_s, cpu_s)
    per_executor, slots = _of_the_fullest(num_tasks, num_executors, cores)
    full_waves, rest = divmod(per_executor, slots)
    time_s = full_waves * (slots * io_s + cpu_s)
    return time_s + (rest * io_s + cpu_s if rest else 0.0)


def grouped_s(num_tasks: int, num_executors: int, cores: float, io_s: float, cpu_s: float) -> float:
    """Seconds of the same stage when groups start one fetch time apart; a lower bound.

    Args as :func:`stock_s`.
    """
    _check(num_tasks, num_executors, cores, io_s, cpu_s)
    per_executor, slots = _of_the_fullest(num_tasks, num_executors, cores)
    link_s = per_executor * io_s
    cpu_total_s = per_executor * cpu_s / slots
    # With fewer tasks than cores on an executor, a task's own computation is the floor.
    work_s = max(link_s, cpu_total_s, io_s + cpu_s)
    hidden_by_nothing_s = min(io_s, cpu_s) if per_executor > 1 else 0.0
    return max(work_s, min(link_s + cpu_s, max(link_s, cpu_total_s) + hidden_by_nothing_s))
