"""How much a job has to gain from being moved together, and the queue of jobs by it.

The default is the accelerator-seconds that a job has still to run, times how many more hosts it is on
than it needs. Any function of a :class:`Spread` may stand in for it. The queue is ascending, so those
with most to gain are at its end, from where they are selected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dagopt.cost.goodput import progress_per_s, relative_speed
from dagopt.model.training import ClusterView, JobView, Placement, Plan, fewest_hosts, num_held


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How a job is spread now, and for how long it will be."""

    job_id: str
    num_accelerators: int
    num_hosts: int
    fewest_hosts: int
    """Hosts that so many accelerators need at least."""
    remaining_s: float
    """Seconds until its end where it runs now."""


Metric: TypeAlias = Callable[[Spread], float]


def accelerator_seconds(spread: Spread) -> float:
    """Accelerator-seconds to go, weighted by fragmentation."""
    if spread.num_accelerators == 0:
        return 0.0
    fragmentation = spread.num_hosts / spread.fewest_hosts
    return spread.num_accelerators * fragmentation * spread.remaining_s


def spread_of(view: JobView, placement: Placement, cluster: ClusterView) -> Spread:
    """The spread of a job on a placement; of unknown speed, it has no time to go."""
    number = num_held(placement)
    remaining_s = 0.0
    if view.coefficients is not None and number:
        rate = progress_per_s(view, hosts=len(placement), number=number)
        remaining_s = view.remaining / rate if rate > 0 else 0.0
    return Spread(
        job_id=view.job.job_id,
        num_accelerators=number,
        num_hosts=len(placement),
        fewest_hosts=fewest_hosts(number, cluster.capacity),
        remaining_s=remaining_s,
    )


def speed_lost(views: Mapping[str, JobView], plan: Plan, cluster: ClusterView) -> float:
    """Share of the speed of all accelerators in use, 0 to 1, that jobs on too many hosts lose."""
    used, lost = 0, 0.0
    for job_id, placement in plan.items():
        number = num_held(placement)
        fewest = fewest_hosts(number, cluster.capacity)
        used += number
        if len(placement) > fewest:
            speed = relative_speed(
                views[job_id], hosts=len(placement), fewest=fewest, number=number
            )
            lost += number * (1 - min(1.0, speed))
    return lost / used if used else 0.0


def queue(spreads: Sequence[Spread], metric: Metric = accelerator_seconds) -> list[Spread]:
    """All jobs from the smallest metric to the largest; equal ones stay in their order."""
    return sorted(spreads, key=metric)


def selected(
    ordered: Sequence[Spread], *, threshold: float, metric: Metric = accelerator_seconds
) -> list[Spread]:
    """Those worth moving: spread over more hosts than needed, and at least at the threshold.

    Taken from the queue's end, so the largest comes first.
    """
    return [
        spread
        for spread in reversed(ordered)
        if spread.num_hosts > spread.fewest_hosts and metric(spread) >= threshold
    ]
