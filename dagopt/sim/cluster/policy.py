"""What a simulated cluster asks of a scheduler, and what schedulers share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from dagopt.model.training import ClusterView, JobView, Placement, Plan, free_of, placement_of


class Policy(Protocol):
    """A scheduler: from what is known now to where every job runs."""

    @property
    def name(self) -> str:
        """What it is called on the command line and in tables."""

    @property
    def tunes_batch(self) -> bool:
        """Whether jobs choose their batch size; else they keep the one that their users asked for."""

    def plan(self, jobs: Sequence[JobView], cluster: ClusterView, now_s: float) -> Plan:
        """Where each job runs from now on; a job that is missing gets nothing."""


class Oracle(Protocol):
    """What no scheduler knows, for those whose papers take it as given."""

    def step_s(self, job_id: str, num_replicas: int) -> float:
        """Seconds of a step at the batch that the user asked for, on as few hosts as possible."""

    def remaining_steps(self, job_id: str) -> float:
        """Steps at that batch until the job's end, > 0."""


def take_emptiest(free: list[int], number: int) -> Placement:
    """Take accelerators from the emptiest hosts, so that a job is spread over few; ``free`` shrinks."""
    counts: dict[int, int] = {}
    left = number
    while left > 0:
        host = max(range(len(free)), key=lambda at: (free[at], -at))
        taken = min(free[host], left)
        if taken == 0:
            raise AssertionError(f"{left} of {number} accelerators are not free")
        counts[host] = counts.get(host, 0) + taken
        free[host] -= taken
        left -= taken
    return placement_of(counts)


def run_in_order(queue: Iterable[JobView], cluster: ClusterView) -> Plan:
    """Each job of a queue gets what its user asked for while there is room; who runs stays in place.

    A job that does not fit is passed over for those behind it.
    """
    left = cluster.num_accelerators
    chosen: list[JobView] = []
    for view in queue:
        if view.job.asked_replicas <= left:
            left -= view.job.asked_replicas
            chosen.append(view)
    plan = {view.job.job_id: view.held for view in chosen if view.held}
    free = free_of(cluster, plan)
    for view in chosen:
        if not view.held:
            plan[view.job.job_id] = take_emptiest(free, view.job.asked_replicas)
    return plan


def packed(number: int, per_host: int) -> tuple[int, ...]:
    """Accelerators on each host where hosts are filled one after another."""
    full, rest = divmod(number, per_host)
    return (per_host,) * full + ((rest,) if rest else ())
