"""How many accelerators each job gets: steps of most value per accelerator first.

A job's candidates are numbers of accelerators with the value that each has for it. Values that do not
lie on the upper concave hull are never worth it: whoever takes that many gets more from the mixture of
its neighbours. On the hull, steps are taken in the order of value per accelerator, over all jobs,
which is the best that can be done with the accelerators used so far; a step that does not fit any more
is passed over for smaller ones.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

Candidates = Sequence[tuple[int, float]]
"""Numbers of accelerators, ascending from more than 0, with their values."""


def share(jobs: Sequence[Candidates], num_accelerators: int) -> list[int]:
    """Accelerators of each job; their sum is at most what there is.

    Ties go to the job that comes first.
    """
    hulls = [hull(candidates) for candidates in jobs]
    numbers = [0] * len(jobs)
    at = [0] * len(jobs)
    left = num_accelerators
    steps: list[tuple[float, int]] = []

    def push(job: int) -> None:
        if at[job] + 1 < len(hulls[job]):
            (n0, v0), (n1, v1) = hulls[job][at[job] : at[job] + 2]
            heapq.heappush(steps, (-(v1 - v0) / (n1 - n0), job))

    for job in range(len(jobs)):
        push(job)
    while steps and left > 0:
        _, job = heapq.heappop(steps)
        number = hulls[job][at[job] + 1][0]
        if number - numbers[job] <= left:
            left -= number - numbers[job]
            numbers[job] = number
            at[job] += 1
            push(job)
        elif left > 0:
            # The largest candidate that still fits, if it is worth more than what the job has.
            fits = [c for c in jobs[job] if numbers[job] < c[0] <= numbers[job] + left]
            best = max(fits, key=lambda c: (c[1], -c[0]), default=None)
            if best is not None and best[1] > hulls[job][at[job]][1]:
                left -= best[0] - numbers[job]
                numbers[job] = best[0]
    return numbers


def hull(candidates: Candidates) -> list[tuple[int, float]]:
    """The upper concave hull from (0, 0) up to the best value, rising all the way."""
    points = [(0, 0.0)]
    for number, value in candidates:
        if value <= points[-1][1]:
            continue
        while len(points) > 1:
            (n0, v0), (n1, v1) = points[-2:]
            if (v1 - v0) * (number - n1) <= (value - v1) * (n1 - n0):
                points.pop()
            else:
                break
        points.append((number, value))
    return points
