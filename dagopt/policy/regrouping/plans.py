"""Explicit plans: where jobs would be after a regrouping, what moves, and what each move costs.

A selected job gets the hosts that hold most of it already, or the emptiest ones; whoever of lesser
metric is in the way gets, accelerator for accelerator, what the selected job leaves. So every job keeps
its number, and no host gives more than it has.

A job's cost has two parts: the *adjustment* (stop, restore, and what the scheduler does), and the *wait*
of the accelerators from its own boundary to the last boundary of the jobs that exchange with it. The
switching time of the plan is that last boundary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dagopt.model.training import Placement, Plan, num_held, placement_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A job that changes its place, with what that costs it; seconds."""

    job_id: str
    before: Placement
    after: Placement
    adjustment_s: float
    wait_s: float

    @property
    def cost_s(self) -> float:
        """Both parts."""
        return self.adjustment_s + self.wait_s


@dataclass(frozen=True, slots=True, kw_only=True)
class RegroupingPlan:
    """One way to move jobs together."""

    target: Mapping[str, Placement]
    """Where every job is afterwards."""
    moves: tuple[Move, ...]
    switch_s: float
    """When it takes effect: the last next boundary of the jobs that move."""
    benefit_s: float = 0.0
    """Seconds that all moved jobs together end sooner, before costs."""

    @property
    def cost_s(self) -> float:
        """Seconds that all moved jobs lose."""
        return sum(move.cost_s for move in self.moves)

    @property
    def net_s(self) -> float:
        """What is gained on the whole."""
        return self.benefit_s - self.cost_s


def plans_for(
    job_id: str,
    current: Plan,
    rank: Mapping[str, int],
    capacity: Sequence[int],
    *,
    most: int = 4,
) -> list[Plan]:
    """Targets in which one job is on as few hosts as possible, cheapest kind first.

    Args:
        job_id: the job that is moved together.
        current: where all jobs are.
        rank: place of each job in the queue; only jobs of lower rank are moved out of the way.
        capacity: accelerators of each host.
        most: how many host sets are tried.
    """
    found: list[Plan] = []
    for hosts in _host_sets(job_id, current, rank, capacity, most):
        target = _swap(job_id, current, hosts, rank, capacity)
        if target is not None and target not in found:
            found.append(target)
    return found


def moves_of(
    current: Plan,
    target: Plan,
    *,
    boundary_s: Mapping[str, float],
    adjustment_s: float,
    running: frozenset[str],
) -> tuple[Move, ...]:
    """The moves between two plans, each with its cost.

    Args:
        current: where all jobs are.
        target: where they are to be.
        boundary_s: by job, when its step ends.
        adjustment_s: what a stop and a start cost.
        running: jobs that hold accelerators now; the others start in any case, so moving them is free.
    """
    changed = [job_id for job_id in sorted(current) if target[job_id] != current[job_id]]
    stopped = [job_id for job_id in changed if job_id in running]
    last_s = max((boundary_s[job_id] for job_id in stopped), default=0.0)
    return tuple(
        Move(
            job_id=job_id,
            before=current[job_id],
            after=target[job_id],
            adjustment_s=adjustment_s if job_id in running else 0.0,
            wait_s=last_s - boundary_s[job_id] if job_id in running else 0.0,
        )
        for job_id in changed
    )


# Private functions


def _host_sets(
    job_id: str, current: Plan, rank: Mapping[str, int], capacity: Sequence[int], most: int
) -> list[tuple[int, ...]]:
    """Candidate sets of hosts that hold the job, each with room once lesser jobs are moved."""
    number, mine = num_held(current[job_id]), dict(current[job_id])
    blocked, others = [0] * len(capacity), [0] * len(capacity)
    for other, placement in current.items():
        if other == job_id:
            continue
        for host, count in placement:
            others[host] += count
            if rank.get(other, 0) >= rank.get(job_id, 0):
                blocked[host] += count
    room = [capacity[host] - blocked[host] for host in range(len(capacity))]
    hosts = [host for host in range(len(capacity)) if room[host] > 0]
    largest = max((room[host] for host in hosts), default=0)
    if not largest:
        return []
    sets: list[tuple[int, ...]] = []
    # Most of the job already there; least of others in the way; most room.
    keys: tuple[Callable[[int], tuple[int, ...]], ...] = (
        lambda h: (-mine.get(h, 0), others[h], h),
        lambda h: (others[h], -mine.get(h, 0), h),
        lambda h: (-room[h], -mine.get(h, 0), h),
    )
    for key in keys:
        order = [(room[h] < min(largest, number), *key(h)) for h in hosts]
        ordered = [each[-1] for each in sorted(order)]
        for first in range(max(1, most // len(keys))):
            chosen: list[int] = []
            held = 0
            for host in ordered[first:]:
                if held >= number:
                    break
                chosen.append(host)
                held += room[host]
            if held >= number and tuple(sorted(chosen)) not in sets:
                sets.append(tuple(sorted(chosen)))
    return sets


def _swap(
    job_id: str,
    current: Plan,
    hosts: Sequence[int],
    rank: Mapping[str, int],
    capacity: Sequence[int],
) -> Plan | None:
    """The plan in which the job is on those hosts alone; None if others cannot make room."""
    number, mine = num_held(current[job_id]), dict(current[job_id])
    counts = {other: dict(placement) for other, placement in current.items()}
    used = [0] * len(capacity)
    for placement in current.values():
        for host, count in placement:
            used[host] += count
    target: dict[int, int] = {}
    left = number
    for host in sorted(hosts, key=lambda h: (-mine.get(h, 0), h)):
        target[host] = min(left, mine.get(host, 0))
        left -= target[host]
    lesser = sorted(
        (other for other in current if other != job_id and rank.get(other, 0) < rank[job_id]),
        key=lambda other: (num_held(current[other]), other),
    )
    leaving = [
        host for host, count in sorted(mine.items()) for _ in range(count - target.get(host, 0))
    ]
    for host in hosts:
        while left > 0 and used[host] < capacity[host]:
            used[host] += 1
            used[leaving[-1]] -= 1
            leaving.pop()
            target[host] += 1
            left -= 1
        for other in lesser:
            while left > 0 and counts[other].get(host, 0) > 0 and host not in leaving:
                counts[other][host] -= 1
                place = leaving.pop()
                counts[other][place] = counts[other].get(place, 0) + 1
                target[host] += 1
                left -= 1
    if left > 0:
        return None
    counts[job_id] = target
    return {other: placement_of(found) for other, found in counts.items()}
