"""Training jobs as a scheduler of accelerators sees them, and where they run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dagopt.errors import InputError

Placement: TypeAlias = tuple[tuple[int, int], ...]
"""Accelerators that a job holds, as (place of the host in the cluster, number > 0), hosts ascending."""

NOWHERE: Placement = ()


def placement_of(counts: Mapping[int, int] | Iterable[tuple[int, int]]) -> Placement:
    """A placement from numbers by host; zeros are left out."""
    items = counts.items() if isinstance(counts, Mapping) else counts
    return tuple(sorted((host, number) for host, number in items if number > 0))


def num_held(placement: Placement) -> int:
    """Accelerators of a placement."""
    return sum(number for _, number in placement)


def fewest_hosts(number: int, capacity: Sequence[int]) -> int:
    """On how few hosts that many accelerators are, if nobody else is there."""
    hosts = 0
    for size in sorted(capacity, reverse=True):
        if number <= 0:
            break
        number -= size
        hosts += 1
    return hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """Between which batch sizes a job trains well; all in examples."""

    initial: int
    """The batch for which its learning rate was chosen."""
    largest: int
    """The largest batch of all replicas together."""
    min_local: int
    """The smallest batch of a replica."""
    max_local: int
    """What fits into an accelerator's memory."""

    def __post_init__(self) -> None:
        if not 1 <= self.initial <= self.largest:
            raise InputError(f"batches: expected 1 <= initial <= largest, got {self}")
        if not 1 <= self.min_local <= self.max_local:
            raise InputError(f"batches: expected 1 <= min_local <= max_local, got {self}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJob:
    """What a user submits."""

    job_id: str
    arrival_s: float
    application: str
    """What it trains: the name of its measurements in a simulation."""
    batches: BatchLimits
    max_replicas: int
    """Most accelerators that it can use, >= 1."""
    asked_replicas: int
    """Accelerators that the user would ask for, for schedulers that do not choose."""
    asked_batch: int
    """Batch of all replicas that the user would choose."""
    is_batch_fixed: bool = False
    """Whether only ``asked_batch`` may be trained with."""

    def __post_init__(self) -> None:
        if self.max_replicas < 1 or self.asked_replicas < 1:
            raise InputError(
                f"job {self.job_id}: max_replicas is {self.max_replicas} and asked_replicas "
                f"{self.asked_replicas}, both must be >= 1"
            )
        if not self.arrival_s >= 0:
            raise InputError(f"job {self.job_id}: arrival_s is {self.arrival_s}, must be >= 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job that has come and is not done, with what is known of it now."""

    job: TrainingJob
    held: Placement
    """Where it runs, or is about to."""
    remaining: float
    """Progress to go, in steps of the initial batch, >= 0."""
    progress: float = 0.0
    """Progress made, in the same unit."""
    coefficients: tuple[float, ...] | None
    """Of its step time, as fitted to what it measured (``cost.step_time.COLUMNS``); None before."""
    grad_sqr: float = 0.0
    grad_var: float = 0.0
    """Statistics of its gradient now, see ``cost.efficiency``; 0 and 0 before they are known."""
    most_replicas: int = 0
    """Most accelerators on which its steps were measured."""
    age_s: float = 0.0
    """Seconds since it came."""
    attained_s: float = 0.0
    """Accelerator seconds that it had."""
    num_restarts: int = 0
    """How often it was stopped and started elsewhere."""
    step_s: float = 0.0
    """Seconds of its steps where it runs now, 0 where it does not."""
    next_boundary_s: float = 0.0
    """When its current step ends, on the clock of ``now_s``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """What there is to give."""

    capacity: tuple[int, ...]
    """Accelerators of each host that work now."""
    restart_s: float
    """Seconds that a job loses when it is stopped and started elsewhere."""
    interval_s: float
    """Seconds between two plans."""

    @property
    def num_accelerators(self) -> int:
        """All of them."""
        return sum(self.capacity)

    @property
    def per_host(self) -> int:
        """Accelerators of the largest host."""
        return max(self.capacity, default=0)


Plan: TypeAlias = dict[str, Placement]
"""By job id where it is to run; a job that is missing gets nothing."""


def free_of(cluster: ClusterView, plan: Mapping[str, Placement]) -> list[int]:
    """Accelerators of each host that a plan leaves free."""
    free = list(cluster.capacity)
    for placement in plan.values():
        for host, number in placement:
            free[host] -= number
    return free


def check_plan(plan: Plan, jobs: Iterable[JobView], cluster: ClusterView) -> None:
    """Check that a plan can be carried out.

    Raises:
        InputError: it names an unknown job or host, gives more of a host than it has, or gives a job
            more than it can use.
    """
    by_id = {view.job.job_id: view.job for view in jobs}
    used = [0] * len(cluster.capacity)
    for job_id, placement in plan.items():
        if job_id not in by_id:
            raise InputError(f"the plan names job {job_id}, which is not there")
        if num_held(placement) > by_id[job_id].max_replicas:
            raise InputError(
                f"the plan gives job {job_id} {num_held(placement)} accelerators, "
                f"it can use {by_id[job_id].max_replicas}"
            )
        for host, number in placement:
            if not 0 <= host < len(used) or number < 1:
                raise InputError(
                    f"the plan gives job {job_id} {number} accelerators of host {host}"
                )
            used[host] += number
            if used[host] > cluster.capacity[host]:
                raise InputError(
                    f"the plan gives {used[host]} accelerators of host {host}, "
                    f"which has {cluster.capacity[host]}"
                )
