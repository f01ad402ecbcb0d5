"""Allocation and reclamation for one job: one accelerator at a time, gain against cost.

Both sides are seconds of an iteration at a fixed global batch. The gain of an accelerator is the
computing that it takes off; its cost is the synchronisation that it adds, over all pairs of members, and
its share of the transfer of the model's state to it. It is allocated if the gain exceeds the cost by the
hysteresis, and reclaimed if it falls short by it; in between nothing happens, so constant load does not
oscillate. Accelerators on hosts that the job is on are tried first, then the others by distance.

An iteration takes as long as its slowest accelerator, so one more of the job's stragglers gains less than
others, and one that is held is exchanged or reclaimed when the job is faster without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from dagopt.cost.accelerator_metrics import AcceleratorMetrics, spans_several
from dagopt.cost.collective import all_reduce_s
from dagopt.errors import InputError
from dagopt.model.topology import Accelerator, Topology

Members = frozenset[Accelerator]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCost:
    """What an iteration of a job costs on any set of accelerators."""

    topology: Topology
    compute_s: Callable[[int], float]
    """Seconds of computing of an iteration, by number of accelerators without a straggler, at the fixed
    global batch."""
    gradient_bytes: float
    """What every accelerator contributes to an all-reduce."""
    state_bytes: float = 0.0
    """What a new accelerator must get before it can take part."""
    remaining_iterations: float = 1000.0
    """Iterations over which that transfer is spread, >= 1."""
    metrics: AcceleratorMetrics = field(default_factory=AcceleratorMetrics)

    _slowness: Mapping[Accelerator, float] = field(init=False, repr=False, compare=False)
    _corrections: tuple[float, ...] = field(init=False, repr=False, compare=False)
    """Of members on one host, and on several."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_slowness", self.metrics.slowness())
        corrections = tuple(
            self.metrics.correction(self.prior_sync_s, spans_hosts=spans) for spans in (False, True)
        )
        object.__setattr__(self, "_corrections", corrections)

    def prior_sync_s(self, members: Members) -> float:
        """Synchronisation before anything was measured: the faster of ring and tree."""
        ordered = sorted(members)
        return all_reduce_s(
            self.gradient_bytes,
            self.topology.bandwidth_bytes_per_s(ordered),
            self.topology.latency_s(ordered),
        )

    def sync_s(self, members: Members) -> float:
        """Synchronisation, corrected by what was measured while the job ran."""
        return self.prior_sync_s(members) * self._corrections[spans_several(members)]

    def computing_s(self, members: Members) -> float:
        """Computing on the slowest of the members, for which all wait; infinite without any."""
        if not members:
            return float("inf")
        slowest = max(self._slowness.get(member, 1.0) for member in members)
        return self.compute_s(len(members)) * slowest

    def iteration_s(self, members: Members) -> float:
        """Seconds of an iteration; infinite without accelerators."""
        return self.computing_s(members) + (self.sync_s(members) if members else 0.0)

    def gain_s(self, members: Members, new: Accelerator) -> float:
        """Seconds of computing that it takes off an iteration, as one accelerator more."""
        return self.computing_s(members) - self.computing_s(members | {new})

    def cost_s(self, members: Members, new: Accelerator) -> float:
        """Seconds that it adds: synchronising with all members, and the state's transfer to it."""
        added_s = self.sync_s(members | {new}) - self.sync_s(members)
        return added_s + self.transfer_s(members, new) / max(1.0, self.remaining_iterations)

    def transfer_s(self, members: Members, new: Accelerator) -> float:
        """Seconds that the model's state takes to a new accelerator, from the nearest member."""
        links = [self.topology.link(member, new) for member in sorted(members)]
        if not links or self.state_bytes == 0:
            return 0.0
        return min(self.state_bytes / li.bandwidth_bytes_per_s + li.latency_s for li in links)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What to do with one accelerator, or with one for another, and why."""

    kind: Literal["allocate", "reclaim", "exchange"]
    new: Accelerator | None
    """Taken from the pool."""
    old: Accelerator | None
    """Given back to the pool, and its host."""
    gain_s: float
    """Seconds of an iteration in its favour."""
    cost_s: float
    """Seconds of an iteration against it."""

    def told(self, new: str, old: str) -> str:
        """The step in words, with names of both accelerators."""
        which = {"allocate": new, "reclaim": old, "exchange": f"{old} for {new}"}[self.kind]
        gain_ms, cost_ms = 1e3 * self.gain_s, 1e3 * self.cost_s
        return f"{self.kind} {which}: {gain_ms:.3g} ms of an iteration for it, {cost_ms:.3g} ms against"


def next_step(
    job: JobCost,
    members: Members,
    free: Iterable[Accelerator],
    *,
    hysteresis: float = 0.05,
    most: int | None = None,
) -> Step | None:
    """The single change that helps most, or None where none does.

    Args:
        job: what iterations cost.
        members: accelerators of the job, at least one.
        free: accelerators in the pool.
        hysteresis: share by which one side must exceed the other, >= 0.
        most: accelerators that the job may have; default: all.

    Raises:
        InputError: the job has no accelerator, or one of them is in the pool too.
    """
    pool = sorted(set(free))
    if not members:
        raise InputError("a job without accelerators has no next step")
    if members & set(pool):
        raise InputError(f"{min(members & set(pool))} is held and free at once")
    steps: list[tuple[float, Step]] = []
    grows = most is None or len(members) < most
    for new in _nearest_first(job, members, pool) if grows else ():
        gain_s, cost_s = job.gain_s(members, new), job.cost_s(members, new)
        if gain_s > cost_s * (1 + hysteresis) and gain_s > cost_s:
            step = Step(kind="allocate", new=new, old=None, gain_s=gain_s, cost_s=cost_s)
            steps.append((gain_s - cost_s, step))
    for old in sorted(members) if len(members) > 1 else ():
        rest = members - {old}
        # Its state is there already, so only synchronising counts.
        kept_s = job.gain_s(rest, old)
        sync_s = job.sync_s(members) - job.sync_s(rest)
        if kept_s < sync_s * (1 - hysteresis):
            step = Step(kind="reclaim", new=None, old=old, gain_s=sync_s, cost_s=kept_s)
            steps.append((sync_s - kept_s, step))
    steps += _exchanges(job, members, pool, hysteresis)
    best = max(steps, key=lambda each: each[0], default=None)
    return best[1] if best else None


def applied(members: Members, step: Step) -> Members:
    """The job's accelerators after a step."""
    taken = {step.new} if step.new is not None else set()
    given = {step.old} if step.old is not None else set()
    return (members | taken) - given


def settled(
    job: JobCost,
    members: Members,
    free: Iterable[Accelerator],
    *,
    hysteresis: float = 0.05,
    most: int | None = None,
) -> tuple[Members, list[Step]]:
    """The topology at which no single change helps, and the steps to it; arguments as above.

    Each step shortens the iteration, so no topology is seen twice and the search ends.
    """
    pool = set(free)
    steps: list[Step] = []
    while (step := next_step(job, members, pool, hysteresis=hysteresis, most=most)) is not None:
        members = applied(members, step)
        if step.new is not None:
            pool.remove(step.new)
        if step.old is not None:
            pool.add(step.old)
        steps.append(step)
    return members, steps


# Private functions


def _nearest_first(
    job: JobCost, members: Members, pool: Sequence[Accelerator]
) -> list[Accelerator]:
    def key(new: Accelerator) -> tuple[float, Accelerator]:
        return min(job.topology.link(member, new).distance for member in members), new

    return sorted(pool, key=key)


def _exchanges(
    job: JobCost, members: Members, pool: Sequence[Accelerator], hysteresis: float
) -> list[tuple[float, Step]]:
    """One accelerator for another: synchronising may become less, or a straggler be left behind."""
    found: list[tuple[float, Step]] = []
    now_s = job.iteration_s(members)
    # Where neither was seen to take time, there is nothing to win.
    least_s = hysteresis * (job.sync_s(members) if len(members) > 1 else now_s)
    for old in sorted(members):
        rest = members - {old}
        for new in pool:
            transfer_s = job.transfer_s(members, new) / max(1.0, job.remaining_iterations)
            gain_s = now_s - job.iteration_s(rest | {new})
            if gain_s > transfer_s + least_s:
                step = Step(kind="exchange", new=new, old=old, gain_s=gain_s, cost_s=transfer_s)
                found.append((gain_s - transfer_s, step))
    return found
