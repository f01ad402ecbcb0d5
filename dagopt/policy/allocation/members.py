"""Which accelerators the jobs of a plan run on, when each of these is looked at by itself.

A plan says how many accelerators of which host a job gets. What its own accelerators measured since may
say otherwise: one of them is a straggler, one is linked worse than another that is free, or synchronising
one more takes longer than it computes. So each job in turn is settled over its accelerators and those that
are free, by :mod:`dagopt.policy.allocation.one_job`. A job that the plan would leave where it is changes
only if that gains more, over the iterations ahead, than the restart takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dagopt.errors import InputError
from dagopt.model.topology import Accelerator
from dagopt.policy.allocation.one_job import JobCost, Members, Step, settled


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A job with what a plan gives it."""

    cost: JobCost
    given: Members
    """By the plan, at least one."""
    before: Members
    """Where it runs; empty where it does not."""
    most: int
    """Accelerators that it may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The accelerators that a job gets, and the steps from those of the plan or of before."""

    members: Members
    steps: tuple[Step, ...] = ()


def choose_members(
    jobs: Mapping[str, Planned], free: Iterable[Accelerator], *, restart_s: float
) -> dict[str, Chosen]:
    """The accelerators of each job; no accelerator is in two.

    Args:
        jobs: in the order in which they may take free accelerators.
        free: what the plan gives nobody.
        restart_s: seconds that a change takes from a job that runs, >= 0.

    Raises:
        InputError: an accelerator is given twice, or given and free.
    """
    pool = set(free)
    given = [each for job in jobs.values() for each in sorted(job.given)]
    twice = [each for each in given if each in pool] + sorted(
        each for each in set(given) if given.count(each) > 1
    )
    if twice:
        raise InputError(f"{twice[0]} is given twice, or given and free")
    found: dict[str, Chosen] = {}
    for name, job in jobs.items():
        chosen = _choose(job, pool, restart_s)
        pool = (pool | job.given) - chosen.members
        found[name] = chosen
    return found


# Private functions


def _choose(job: Planned, pool: set[Accelerator], restart_s: float) -> Chosen:
    cost, reachable = job.cost, pool | job.given
    stays = (
        0 < len(job.before) <= job.most
        and job.before <= reachable
        and cost.iteration_s(job.before) <= cost.iteration_s(job.given)
    )
    start = job.before if stays else job.given
    members, steps = settled(cost, start, reachable - start, most=job.most)
    gained_s = cost.iteration_s(start) - cost.iteration_s(members)
    # Whoever moves in any case has its restart paid for.
    if stays and gained_s * cost.remaining_iterations <= restart_s:
        return Chosen(members=start)
    return Chosen(members=members, steps=tuple(steps))
