"""Sia: an integer programme chooses one configuration for each job.

Configurations are powers of two within a host, and whole hosts. A job's goodput on each is taken
relative to its least, counts less where it means a restart, and is raised to a negative power that
makes the sum fair. A job grows to at most twice what it had. Accelerators are of one kind here, so its
matching of jobs to kinds is not.

Source:
    S. Jayaram Subramanya et al., "Sia: heterogeneity-aware, goodput-optimized ML-cluster scheduling",
    SOSP 2023, section 3.4; exponent -0.5 and lambda 1.1 are its evaluation's. Solved by HiGHS.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dagopt.cost.goodput import best_goodput, job_columns
from dagopt.errors import InfeasibleError
from dagopt.model.training import ClusterView, JobView, Plan, free_of, num_held, placement_of
from dagopt.sim.cluster.policy import take_emptiest

_NOTHING = 1e-9


class Sia:
    """Nothing is kept between plans."""

    name = "sia"
    tunes_batch = True

    def __init__(
        self, *, power: float = -0.5, queue_weight: float = 1.1, limit_s: float = 10.0
    ) -> None:
        self._power, self._queue_weight, self._limit_s = power, queue_weight, limit_s

    def plan(self, jobs: Sequence[JobView], cluster: ClusterView, now_s: float) -> Plan:  # noqa: ARG002
        """Choose the numbers, then place: whole hosts first, and what is kept where it is."""
        ordered = sorted(jobs, key=lambda each: (each.job.arrival_s, each.job.job_id))
        numbers = self._choose(ordered, cluster)
        wanted = {
            view.job.job_id: number
            for view, number in zip(ordered, numbers, strict=True)
            if number > 0
        }
        return _place(ordered, wanted, cluster)

    def _choose(self, jobs: Sequence[JobView], cluster: ClusterView) -> list[int]:
        """Accelerators of each job."""
        from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415
        from scipy.sparse import csr_array  # noqa: PLC0415

        sizes = configurations(cluster)
        if not sizes:
            return [0] * len(jobs)
        value = self._values(jobs, cluster, np.array(sizes))
        row, column = np.nonzero(value > 0)
        # A negative power turns the largest sum into the smallest; to wait costs the queue's weight.
        sign = np.sign(self._power)
        worth = sign * value[row, column] ** self._power + self._queue_weight
        one_each = csr_array((np.ones(len(row)), (row, np.arange(len(row)))))
        one_each.resize((len(jobs), len(row)))
        total = csr_array(np.array(sizes, dtype=np.float64)[column][None, :])
        result = milp(
            -worth,
            integrality=np.ones(len(row)),
            bounds=Bounds(0, 1),
            constraints=[
                LinearConstraint(one_each, -np.inf, 1),
                LinearConstraint(total, -np.inf, cluster.num_accelerators),
            ],
            options={"time_limit": self._limit_s, "mip_rel_gap": 1e-4},
        )
        if result.x is None:
            raise InfeasibleError(f"sia: the solver gave up: {result.message}")
        numbers = [0] * len(jobs)
        for at in np.flatnonzero(np.round(result.x)):
            numbers[row[at]] = sizes[column[at]]
        return numbers

    def _values(
        self, jobs: Sequence[JobView], cluster: ClusterView, sizes: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """``(J, C)`` discounted goodputs relative to the job's least; 0 where one is not allowed."""
        hosts = -(-sizes // max(1, cluster.per_host))
        value = np.tile(sizes.astype(np.float64), (len(jobs), 1))
        known = [at for at, view in enumerate(jobs) if view.coefficients is not None]
        if known:
            columns = job_columns([jobs[at] for at in known])
            value[known] = best_goodput(columns, hosts, sizes).per_s
        for at, view in enumerate(jobs):
            held = num_held(view.held)
            most = max(1, 2 * max(held, view.most_replicas))
            value[at, sizes > min(most, view.job.max_replicas)] = 0.0
            positive = value[at][value[at] > 0]
            if len(positive):
                value[at] /= positive.min()
            lost_s = cluster.restart_s * view.num_restarts
            factor = max(view.age_s - lost_s, 0.0) / (view.age_s + cluster.restart_s)
            if held:
                value[at, sizes != held] *= max(factor, _NOTHING)
        return value


def configurations(cluster: ClusterView) -> list[int]:
    """Numbers of accelerators that a job may have: powers of two in a host, then whole hosts."""
    per_host = cluster.per_host
    found, number = [], 1
    while number < per_host:
        found.append(number)
        number *= 2
    whole = sum(1 for number in cluster.capacity if number == per_host) if per_host else 0
    return found + [per_host * hosts for hosts in range(1, whole + 1)]


def _place(jobs: Sequence[JobView], wanted: dict[str, int], cluster: ClusterView) -> Plan:
    """Whole hosts for what needs them, single hosts for the rest; jobs are moved only if they must be."""
    views = {view.job.job_id: view for view in jobs}
    kept = {
        job_id: views[job_id].held
        for job_id, number in wanted.items()
        if num_held(views[job_id].held) == number
    }
    queue = sorted((i for i in wanted if i not in kept), key=lambda each: (-wanted[each], each))
    plan: Plan = dict(kept)
    while queue:
        job_id = queue.pop(0)
        number, free = wanted[job_id], free_of(cluster, plan)
        full = [h for h, n in enumerate(free) if n == cluster.capacity[h] == cluster.per_host]
        hosts, rest = divmod(number, cluster.per_host)
        if hosts and rest == 0 and len(full) >= hosts:
            plan[job_id] = placement_of((host, cluster.per_host) for host in full[:hosts])
            continue
        fits = [h for h, n in enumerate(free) if n >= number]
        if not hosts and fits:
            plan[job_id] = placement_of([(min(fits, key=lambda h: (free[h], h)), number)])
            continue
        # Somebody smaller makes room: the jobs of the host that is nearest to what is needed.
        small = [i for i in plan if wanted[i] < min(number, cluster.per_host)]
        by_host: dict[int, list[str]] = {}
        for other in small:
            by_host.setdefault(plan[other][0][0], []).append(other)
        if not by_host:
            plan[job_id] = take_emptiest(free, number)
            continue
        host = max(by_host, key=lambda h: (free[h], -h))
        for other in by_host[host]:
            del plan[other]
            queue.append(other)
        queue = [job_id, *queue]
        queue.sort(key=lambda each: (-wanted[each], each))
    return plan
