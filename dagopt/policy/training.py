"""The plan for all training jobs of a cluster: numbers by marginal gain, then places, then regrouping.

A change stops a job for a restart, so its worth on another number than it has is taken less by the
part of the time ahead that the restart takes. How long a change will last is not known: until the job
ends, or as long as its placements lasted so far, whichever is shorter. This is what keeps jobs from
being moved for small gains, and short jobs from being grown at all.

Pure: the same jobs, cluster and time give the same plan. Nothing is remembered between plans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dagopt.cost.goodput import relative_speed
from dagopt.model.training import ClusterView, JobView, Plan, free_of, num_held
from dagopt.policy.allocation.objective import Objective, weights
from dagopt.policy.allocation.place import place
from dagopt.policy.allocation.share import share
from dagopt.policy.allocation.speeds import Speeds, speeds
from dagopt.policy.allocation.stay import expected_stay_s, steady_s
from dagopt.policy.regrouping.regroup import Regrouping, regroup


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler:
    """dagopt's policy; an instance holds settings and no state."""

    objective: Objective = "jct"
    regrouping: Regrouping | None = field(default_factory=Regrouping)
    """How jobs are moved together; None leaves them where they are."""
    chooses_members: bool = True
    """Whether live jobs leave accelerators of the plan for others, by what each of them measured: see
    :mod:`dagopt.policy.allocation.members`."""
    name: str = "dagopt"
    tunes_batch: bool = True

    def plan(self, jobs: Sequence[JobView], cluster: ClusterView, now_s: float) -> Plan:
        """Where each job runs from now on; a job that is missing waits."""
        ordered = sorted(jobs, key=lambda view: (view.job.arrival_s, view.job.job_id))
        if not ordered or cluster.num_accelerators == 0:
            return {}
        found = speeds(ordered, cluster)
        worth = _worth(ordered, cluster, found, self.objective)
        candidates = [
            [(int(n), float(v)) for n, v in zip(found.numbers, row, strict=True) if v > 0]
            for row in worth.by_number
        ]
        for at, view in enumerate(ordered):
            held = num_held(view.held)
            if held:
                others = [each for each in candidates[at] if each[0] != held]
                candidates[at] = sorted([*others, (held, float(worth.held[at]))])
        numbers = share(candidates, cluster.num_accelerators)
        rows = {view.job.job_id: at for at, view in enumerate(ordered)}
        per_host = max(1, cluster.per_host)

        def value(job_id: str, hosts: int, number: int) -> float:
            at = rows[job_id]
            packed = float(np.interp(number, found.numbers, found.per_s[at]))
            if hosts <= -(-number // per_host):
                return packed
            return packed * _spread(ordered[at], hosts, number, per_host)

        places = {view.job.job_id: view.held for view in ordered if view.held}
        by_id = dict(zip(rows, numbers, strict=True))
        plan = place(by_id, places, cluster.capacity, value)
        # Whoever gets fewer because they are not together leaves some for those that got none.
        while waiting := [job_id for job_id in rows if job_id not in plan]:
            free = free_of(cluster, plan)
            numbers = share([candidates[rows[job_id]] for job_id in waiting], sum(free))
            more = place(dict(zip(waiting, numbers, strict=True)), places, free, value)
            if not more:
                break
            plan |= more
        if self.regrouping is not None:
            plan = regroup(ordered, cluster, plan, now_s, self.regrouping)
        return plan


# Private functions


@dataclass(frozen=True, slots=True, kw_only=True)
class _Worth:
    by_number: NDArray[np.float64]
    """``(J, N)`` weighted relative speeds, less what a restart costs."""
    held: NDArray[np.float64]
    """``(J,)`` the same where each job runs now, without one."""


def _worth(
    jobs: Sequence[JobView], cluster: ClusterView, found: Speeds, objective: Objective
) -> _Worth:
    remaining = np.array([view.remaining for view in jobs])
    progress = np.array([view.progress for view in jobs])
    age_s = np.array([view.age_s for view in jobs])
    restarts = np.array([view.num_restarts for view in jobs], dtype=np.float64)
    known = np.array([view.coefficients is not None for view in jobs])
    size_s = np.where(known, remaining / found.share_per_s, 0.0)
    alone_s = np.maximum((remaining + progress) / found.share_per_s, 1.0)
    if objective == "fairness":
        # Of whom nothing is known yet is taken to be short: else it would never come to run.
        size_s = np.where(known, size_s, steady_s(cluster.interval_s))
        alone_s = np.where(known, alone_s, steady_s(cluster.interval_s))
    weight = weights(objective, size_s, power=found.power, age_s=age_s, alone_s=alone_s)
    weight = weight / found.share_per_s
    lasts_s = expected_stay_s(age_s, restarts, cluster.interval_s)
    left_s = remaining[:, None] / np.maximum(found.per_s, 1e-30)
    horizon_s = np.where(known[:, None], np.minimum(left_s, lasts_s[:, None]), np.inf)
    kept = np.maximum(0.0, 1 - cluster.restart_s / np.maximum(horizon_s, 1e-9))
    running = np.array([bool(view.held) for view in jobs])
    # Whoever does not run has to start in any case.
    factor = np.where(running[:, None], kept, 1.0)
    return _Worth(by_number=found.per_s * factor * weight[:, None], held=found.held_per_s * weight)


def _spread(view: JobView, hosts: int, number: int, per_host: int) -> float:
    """Speed on more hosts than necessary, relative to as few as possible."""
    return relative_speed(view, hosts=hosts, fewest=-(-number // per_host), number=number)
