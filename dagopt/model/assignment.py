"""Which accelerators of a host a job gets, once it is said how many.

A job keeps what it has of a host as far as its number there allows; the rest is taken from what nobody
keeps, lowest place first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from dagopt.errors import InputError
from dagopt.model.training import Plan

Places: TypeAlias = tuple[tuple[int, int], ...]
"""Accelerators as (host, place within the host), ascending."""


def assign(plan: Plan, held: Mapping[str, Places], capacity: Sequence[int]) -> dict[str, Places]:
    """The accelerators of each job of a plan.

    Args:
        plan: by job, how many accelerators of which hosts.
        held: by job, the accelerators that it has now; each is in one job only.
        capacity: accelerators of each host.

    Raises:
        InputError: the plan gives more of a host than it has.
    """
    kept: dict[str, list[tuple[int, int]]] = {}
    taken: set[tuple[int, int]] = set()
    for job_id, placement in sorted(plan.items()):
        wanted = dict(placement)
        mine = kept.setdefault(job_id, [])
        for host, place in held.get(job_id, ()):
            if wanted.get(host, 0) > 0 and place < capacity[host]:
                wanted[host] -= 1
                mine.append((host, place))
                taken.add((host, place))
    free: dict[int, list[int]] = {}
    for job_id, placement in sorted(plan.items()):
        mine = kept[job_id]
        for host, number in placement:
            if host not in free:
                places = range(capacity[host])
                free[host] = [p for p in reversed(places) if (host, p) not in taken]
            for _ in range(number - sum(1 for at, _ in mine if at == host)):
                if not free[host]:
                    raise InputError(
                        f"host {host} has {capacity[host]} accelerators, more are given"
                    )
                mine.append((host, free[host].pop()))
    return {job_id: tuple(sorted(mine)) for job_id, mine in kept.items()}
