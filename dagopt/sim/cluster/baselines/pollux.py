"""Pollux: a genetic search for the placements with the best power mean of speedups.

A job's speedup is its goodput at its best batch size over its goodput on an equal share of the cluster.
Jobs that would be restarted count less, by how much of their age restarts have cost. At most one job
that is spread over hosts may use a host, which avoids interference. The population is kept from one plan
to the next. A job may have at most twice the accelerators that it was ever measured on.

Searched for the power mean alone: cluster utilisation, its second objective, only matters where the
cluster's size is chosen too.

Source:
    A. Qiao et al., "Pollux: co-adaptive cluster scheduling for goodput-optimized deep learning",
    OSDI 2021, section 4.2. Population, generations and exponent are those of its evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dagopt.cost.goodput import best_goodput, job_columns
from dagopt.model.training import ClusterView, JobView, Plan, placement_of

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]

_LEAST_SPEEDUP = 1e-3


class Pollux:
    """Keeps its population and its random numbers between plans."""

    name = "pollux"
    tunes_batch = True

    def __init__(
        self, *, seed: int = 0, population: int = 100, generations: int = 100, power: float = -1.0
    ) -> None:
        self._rng = np.random.default_rng(seed)
        self._size, self._generations, self._power = population, generations, power
        self._population: _Ints = np.zeros((0, 0, 0), dtype=np.int64)
        self._order: list[str] = []

    def plan(self, jobs: Sequence[JobView], cluster: ClusterView, now_s: float) -> Plan:  # noqa: ARG002
        """Search from the last population, in which new jobs have nothing yet."""
        ordered = sorted(jobs, key=lambda v: (v.attained_s, v.job.arrival_s, v.job.job_id))
        search = _Search(ordered, cluster, self._rng, self._power)
        people = search.repair(self._adapted(ordered, cluster, search.base))
        values = search.fitness(people)
        for _ in range(self._generations):
            parents = people[self._tournament(values)]
            children = search.repair(search.mutate(search.cross(parents)))
            both = np.concatenate([people, children])
            found = np.concatenate([values, search.fitness(children)])
            keep = np.argsort(-found, kind="stable")
            # Copies of the best would soon be all that there is.
            _, first = np.unique(both[keep].reshape(len(keep), -1), axis=0, return_index=True)
            keep = keep[np.sort(first)][: self._size]
            people, values = both[keep], found[keep]
        self._population, self._order = people, [view.job.job_id for view in ordered]
        best = people[int(values.argmax())]
        return {
            view.job.job_id: placement_of(enumerate(row.tolist()))
            for view, row in zip(ordered, best, strict=True)
            if row.any()
        }

    def _adapted(self, jobs: Sequence[JobView], cluster: ClusterView, base: _Ints) -> _Ints:
        """The last population with the jobs that there are now, filled up with what runs."""
        people = np.repeat(base[None], self._size, axis=0)
        if self._population.shape[2] == len(cluster.capacity):
            rows = {job_id: at for at, job_id in enumerate(self._order)}
            num = min(self._size - 1, len(self._population))
            for at, view in enumerate(jobs):
                if view.job.job_id in rows:
                    people[1 : 1 + num, at] = self._population[:num, rows[view.job.job_id]]
        return people

    def _tournament(self, values: _Floats) -> _Ints:
        """``(2, size)`` parents: of two drawn at random, the better one."""
        pairs = self._rng.integers(len(values), size=(2, self._size, 2))
        better: _Ints = np.where(
            values[pairs[..., 0]] >= values[pairs[..., 1]], pairs[..., 0], pairs[..., 1]
        )
        return better


class _Search:
    """What one plan searches in: states are ``(P, J, H)`` numbers of accelerators."""

    def __init__(
        self,
        jobs: Sequence[JobView],
        cluster: ClusterView,
        rng: np.random.Generator,
        power: float,
    ) -> None:
        self._rng, self._power = rng, power
        self._capacity = np.array(cluster.capacity, dtype=np.int64)
        self._most = np.array([_most_replicas(view) for view in jobs], dtype=np.int64)
        self.base = np.zeros((len(jobs), len(cluster.capacity)), dtype=np.int64)
        for at, view in enumerate(jobs):
            for host, number in view.held:
                self.base[at, host] = number
        age_s = np.array([view.age_s for view in jobs])
        lost_s = cluster.restart_s * np.array([view.num_restarts for view in jobs])
        self._restart = np.maximum(age_s - lost_s, 0.0) / (age_s + cluster.restart_s)
        self._speedup = self._speedups(jobs, cluster)

    def _speedups(self, jobs: Sequence[JobView], cluster: ClusterView) -> _Floats:
        """``(J, H + 1, R + 1)`` speedups by hosts and replicas; 0 where there are none."""
        num_hosts, most = len(cluster.capacity), int(self._most.max())
        table = np.zeros((len(jobs), num_hosts + 1, most + 1))
        fair = max(1, -(-cluster.num_accelerators // len(jobs)))
        hosts, replicas = (axis.ravel() for axis in np.indices((num_hosts + 1, most + 1)))
        can = (hosts >= 1) & (hosts <= replicas) & (replicas <= hosts * cluster.per_host)
        hosts, replicas = hosts[can], replicas[can]
        table[:, hosts, replicas] = replicas / fair
        known = [at for at, view in enumerate(jobs) if view.coefficients is not None]
        if known:
            columns = job_columns([jobs[at] for at in known])
            share = np.array([-(-fair // max(1, cluster.per_host))])
            base = best_goodput(columns, share, np.array([fair])).per_s
            # A job that cannot use its share is measured by the most that it can.
            whole = best_goodput(columns, hosts, replicas).per_s
            base = np.where(base > 0, base, whole.max(axis=1, keepdims=True))
            table[np.array(known)[:, None], hosts, replicas] = whole / np.maximum(base, 1e-30)
        return table

    def fitness(self, states: _Ints) -> _Floats:
        """``(P,)`` power means of the jobs' speedups."""
        hosts, replicas = np.count_nonzero(states, axis=2), states.sum(axis=2)
        speedup = self._speedup[np.arange(states.shape[1]), hosts, replicas]
        moved = (states != self.base).any(axis=2)
        speedup = speedup * np.where(moved, self._restart, 1.0) + _LEAST_SPEEDUP
        mean: _Floats = (speedup**self._power).mean(axis=1) ** (1 / self._power)
        return mean

    def cross(self, parents: _Ints) -> _Ints:
        """Children that have the first jobs of one parent, and the rest of the other."""
        point = self._rng.integers(parents.shape[2] + 1, size=(parents.shape[1], 1, 1))
        first = np.arange(parents.shape[2])[None, :, None] < point
        children: _Ints = np.where(first, parents[0], parents[1])
        return children

    def mutate(self, states: _Ints) -> _Ints:
        """Put some jobs back where they run, take some accelerators away, and give some."""
        draw = self._rng.random
        back = draw(states.shape[:2])[..., None] < 0.1
        states = np.where(back, self.base, states)
        fewer = np.where(draw(states.shape[:2]) < 0.1, 0.1, 0.0)[..., None]
        states = np.where(draw(states.shape) < fewer, 0, states)
        free = (states.sum(axis=1, keepdims=True) < self._capacity) & np.ones_like(states, bool)
        there = free & (states > 0)
        one = free / np.maximum(free.sum(axis=1, keepdims=True), 1)
        two = there / np.maximum(there.sum(axis=1, keepdims=True), 1)
        more = draw(states.shape) < one + two - one * two
        room = np.broadcast_to(self._capacity, states.shape)
        high = np.maximum(room + 1, states + 1)
        mutated: _Ints = np.where(more, self._rng.integers(states, high), states)
        return mutated

    def repair(self, states: _Ints) -> _Ints:
        """Make states possible: one spread job a host, jobs' and hosts' limits."""
        spread = np.count_nonzero(states, axis=2) > 1
        theirs = (states > 0) & spread[..., None]
        states = np.where(theirs & (theirs.cumsum(axis=1) > 1), 0, states)
        order = np.argsort(self._rng.random(states.shape), axis=2)
        states = np.take_along_axis(states, order, axis=2)
        within = np.minimum(states.cumsum(axis=2), self._most[:, None])
        states = np.diff(within, axis=2, prepend=0)
        states = np.take_along_axis(states, np.argsort(order, axis=2), axis=2)
        within = np.minimum(states.cumsum(axis=1), self._capacity)
        repaired: _Ints = np.diff(within, axis=1, prepend=0)
        return repaired


def _most_replicas(view: JobView) -> int:
    return max(1, min(2 * view.most_replicas, view.job.max_replicas))
