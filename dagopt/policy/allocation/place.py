"""Where the accelerators of jobs are taken: few hosts a job, and few moves.

Jobs that keep their number stay. The others, largest first, get whole hosts where they fill them, and
for the rest the host that is left with least. What is spread over more hosts than necessary may be worth
less than fewer accelerators on fewer hosts: the caller's value decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dagopt.model.training import Placement, Plan, fewest_hosts, num_held, placement_of

Value = Callable[[str, int, int], float]
"""What a job gets from (hosts, accelerators)."""


def place(
    numbers: Mapping[str, int], held: Mapping[str, Placement], capacity: Sequence[int], value: Value
) -> Plan:
    """Placements of all jobs that get something.

    Args:
        numbers: accelerators by job, their sum at most that of ``capacity``.
        held: by job where it runs now.
        capacity: accelerators of each host that work.
        value: what a placement is worth to a job.

    Returns:
        By job its placement: never more than its number, and fewer where that is worth more.
    """
    plan: Plan = {}
    free = list(capacity)
    for job_id in sorted(numbers):
        placement = held.get(job_id, ())
        stays = placement and num_held(placement) == numbers[job_id]
        if stays and all(capacity[host] >= number for host, number in placement):
            plan[job_id] = placement
            for host, number in placement:
                free[host] -= number
    if min(free, default=0) < 0:
        raise AssertionError("jobs hold more of a host than it has")
    waiting = [job_id for job_id, number in numbers.items() if number > 0 and job_id not in plan]
    for job_id in sorted(waiting, key=lambda each: (-numbers[each], each)):
        best: Placement = ()
        best_value = 0.0
        for number in range(numbers[job_id], 0, -1):
            found = pack(free, number, prefer=held.get(job_id, ()))
            worth = value(job_id, len(found), number) if found else 0.0
            if worth > best_value:
                best, best_value = found, worth
            if found and len(found) == fewest_hosts(number, capacity):
                break
        for host, number in best:
            free[host] -= number
        if best:
            plan[job_id] = best
    return plan


def pack(free: Sequence[int], number: int, *, prefer: Placement = ()) -> Placement:
    """A placement on as few hosts as possible, the fullest that do; empty if there is no room.

    Of hosts that are equally good those of ``prefer`` are taken.
    """
    if number > sum(free) or number <= 0:
        return ()
    mine = dict(prefer)
    counts: dict[int, int] = {}
    left = number
    # Emptiest first while they are used up as a whole, then the one that fits best.
    order = sorted(range(len(free)), key=lambda host: (-free[host], -mine.get(host, 0), host))
    for at, host in enumerate(order):
        if free[host] < left:
            counts[host] = free[host]
            left -= free[host]
            continue
        fits = (each for each in order[at:] if free[each] >= left)
        best = min(fits, key=lambda each: (free[each], -mine.get(each, 0), each))
        counts[best] = left
        break
    return placement_of(counts)
