"""What to do with a task set: nothing, another order, or groups with delays.

Doing nothing is the default. Groups pay where tasks read for long and something can compute
meanwhile; where a stage is CPU-bound or memory-bound, short, or not understood, Spark's own way is
kept, and the reason says so in numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from dagopt.cost.stage_time import grouped_s, stock_s
from dagopt.errors import InputError
from dagopt.policy.grouping.concurrency import ConcurrencyChoice, choose_concurrency


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupingSettings:
    """What the user may set, and the thresholds that they need not know."""

    max_tasks_per_core: int = 4
    min_delay_s: float = 0.1
    """A group is not worth a message if its tasks read for less than this, in seconds."""
    max_delay_s: float = 10.0
    """No group is delayed longer, in seconds."""
    min_gain_fraction: float = 0.05
    """Predicted gain below which Spark's own way is kept."""
    min_waves: float = 2.0
    """Tasks over cores below which Spark's own way is kept: what overlaps is little, and a task in a
    group cannot move to the core that is free first."""

    def __post_init__(self) -> None:
        if self.max_tasks_per_core < 1 or self.max_delay_s < 0:
            raise InputError(
                f"max_tasks_per_core {self.max_tasks_per_core} must be >= 1,"
                f" max_delay_s {self.max_delay_s} must be >= 0"
            )

    def hold_from(self, total_cores: float) -> int:
        """Tasks from which on a task set may gain; a smaller one is passed whatever it reads."""
        return max(2, math.ceil(self.min_waves * total_cores))


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOutlook:
    """What is known of a task set when it is submitted."""

    num_tasks: int
    num_executors: int
    cores: float
    """Mean cores of an executor."""
    io_s: float
    """Mean seconds that a task reads when it is alone on the links."""
    cpu_s: float | None
    """Mean seconds that it computes; None where the stage has not been seen."""
    reads_blocks: bool
    """Whether it reads files or cached blocks, where Spark measures no wait."""
    num_sources: int
    """Distinct hosts that tasks mainly read from; 1 where all read from everywhere."""
    memory_bound_from: int | None
    can_raise: bool
    """Whether more tasks than cores can run at once."""
    can_pin: bool = True
    """Whether a task may be bound to an executor; not where blocks are cached in one of several
    executors of a host, which only Spark tells apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupingDecision:
    """The action for one task set, and why."""

    action: Literal["pass", "order", "group"]
    concurrency: ConcurrencyChoice
    stock_s: float | None
    """Predicted seconds of the stage as Spark runs it; None where the CPU time is not known."""
    grouped_s: float | None
    """Predicted seconds in groups."""
    reason: str


def decide(outlook: StageOutlook, settings: GroupingSettings) -> GroupingDecision:
    """The action for a task set with this outlook."""
    if outlook.num_executors == 0:
        return _keep(outlook, "no executor is known yet")
    total_cores = outlook.num_executors * outlook.cores
    if outlook.num_tasks < settings.hold_from(total_cores):
        why = f"its {outlook.num_tasks} tasks are not {settings.min_waves:g} waves on {total_cores:g} cores"
        return _keep(outlook, why, may_order=False)
    if outlook.reads_blocks and outlook.cpu_s is None:
        return _keep(outlook, "reads blocks: how long is only known once it has run")
    if not outlook.can_pin:
        return _keep(outlook, "reads blocks of single executors, which Spark places")
    choice = choose_concurrency(
        io_s=outlook.io_s,
        cpu_s=outlook.cpu_s,
        cores=outlook.cores,
        max_tasks_per_core=settings.max_tasks_per_core if outlook.can_raise else 1,
        memory_bound_from=outlook.memory_bound_from,
    )
    where = (
        f"{outlook.num_tasks} tasks on {outlook.num_executors} executors x {outlook.cores:g} cores"
    )
    if outlook.cpu_s is None:
        if outlook.io_s < settings.min_delay_s:
            return _keep(outlook, f"reads {outlook.io_s:.3f} s a task, too short for delays")
        reason = f"{choice.reason}; I/O {outlook.io_s:.2f} s a task; {where}"
        return _group(choice, reason, None, None)
    stock = stock_s(
        outlook.num_tasks, outlook.num_executors, outlook.cores, outlook.io_s, outlook.cpu_s
    )
    grouped = grouped_s(
        outlook.num_tasks, outlook.num_executors, outlook.cores, outlook.io_s, outlook.cpu_s
    )
    times = f"{where}: {stock:.1f} s as Spark runs it, {grouped:.1f} s in groups"
    if not choice.is_io_bound or (choice.tasks_per_core == 1 and outlook.num_sources < 2):
        # Turns of source hosts help tasks that wait for these, and nobody else.
        return _keep(
            outlook, f"{choice.reason}; {times}", stock, grouped, may_order=choice.is_io_bound
        )
    gain = 1 - grouped / stock if stock > 0 else 0.0
    if gain < settings.min_gain_fraction and outlook.num_sources < 2:
        return _keep(outlook, f"nothing to gain; {times}", stock, grouped)
    reason = f"{choice.reason}; {times}; {choice.tasks_per_core} tasks per core"
    if outlook.io_s < settings.min_delay_s:
        kept = _keep(outlook, f"reads {outlook.io_s:.3f} s a task, too short for delays; {reason}")
        return replace(kept, concurrency=choice, stock_s=stock, grouped_s=grouped)
    return _group(choice, reason, stock, grouped)


def _group(
    choice: ConcurrencyChoice, reason: str, stock: float | None, grouped: float | None
) -> GroupingDecision:
    return GroupingDecision(
        action="group", concurrency=choice, stock_s=stock, grouped_s=grouped, reason=reason
    )


def _keep(
    outlook: StageOutlook,
    reason: str,
    stock: float | None = None,
    grouped: float | None = None,
    *,
    may_order: bool = True,
) -> GroupingDecision:
    """Spark's own concurrency; the order changes where tasks mainly read from different hosts."""
    one = ConcurrencyChoice(
        tasks_per_core=1, per_executor=max(1, int(outlook.cores)), reason="as Spark runs it"
    )
    if not may_order or outlook.num_sources < 2:
        action: Literal["pass", "order"] = "pass"
    else:
        action = "order"
        reason = f"{reason}; tasks of {outlook.num_sources} source hosts take turns"
    return GroupingDecision(
        action=action, concurrency=one, stock_s=stock, grouped_s=grouped, reason=reason
    )
