"""What jobs gain from accelerators: their speed on every number of them, relative to an equal share.

Numbers are all up to one host's, then whole hosts and the halves between, since steps of one matter
less where there are many. A job may have at most twice the accelerators that it was ever measured on:
beyond, its step time would be a guess, and a wrong one costs a restart. A job that was never measured
starts on one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dagopt.cost.goodput import best_goodput, job_columns
from dagopt.model.training import ClusterView, JobView, num_held

_NUM_BATCHES = 16
"""Batch sizes tried for each number: goodput is flat around its best one."""

_GROWTH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """Of ``J`` jobs on ``N`` candidate numbers of accelerators."""

    numbers: NDArray[np.int64]
    """``(N,)`` ascending from 1."""
    per_s: NDArray[np.float64]
    """``(J, N)`` progress per second on as few hosts as possible; 0 where a job may not have so many."""
    held_per_s: NDArray[np.float64]
    """``(J,)`` progress per second where each runs now; 0 where it does not."""
    share_per_s: NDArray[np.float64]
    """``(J,)`` progress per second on an equal share, > 0."""
    power: float
    """How speed grows with accelerators around an equal share: by this power, over all jobs."""


def speeds(jobs: Sequence[JobView], cluster: ClusterView) -> Speeds:
    """Speeds of all jobs; those that were never measured have 1 on one accelerator."""
    total, per_host = cluster.num_accelerators, max(1, cluster.per_host)
    numbers = candidate_numbers(per_host, total)
    hosts = -(-numbers // per_host)
    per_s = np.zeros((len(jobs), len(numbers)))
    per_s[:, 0] = 1.0
    held_per_s = np.zeros(len(jobs))
    share_per_s = np.ones(len(jobs))
    power = 1.0
    known = [at for at, view in enumerate(jobs) if view.coefficients is not None]
    if known:
        views = [jobs[at] for at in known]
        columns = job_columns(views)
        whole = best_goodput(columns, hosts, numbers, num_batches=_NUM_BATCHES).per_s
        held = np.array([[num_held(view.held)] for view in views])
        on = np.array([[len(view.held)] for view in views])
        here = best_goodput(
            columns, np.maximum(on, 1), np.maximum(held, 1), num_batches=_NUM_BATCHES
        ).per_s
        held_per_s[known] = np.where(held > 0, here, 0.0)[:, 0]
        most = np.array([[most_replicas(view)] for view in views])
        # A fragmented job must not look faster where it is than packed: the model cannot know better.
        per_s[known] = np.where(numbers <= most, whole, 0.0)
        fair = max(1.0, total / len(jobs))
        rising = np.maximum.accumulate(whole, 1)
        share = np.array([np.interp(fair, numbers, row) for row in rising])
        share_per_s[known] = np.maximum(share, 1e-30)
        twice = np.array([np.interp(2 * fair, numbers, row) for row in rising])
        power = float(np.log2(np.maximum(twice, share_per_s[known]) / share_per_s[known]).mean())
    waits = [at for at, view in enumerate(jobs) if view.coefficients is None]
    held_per_s[waits] = [1.0 if jobs[at].held else 0.0 for at in waits]
    return Speeds(
        numbers=numbers,
        per_s=per_s,
        held_per_s=held_per_s,
        share_per_s=share_per_s,
        power=power,
    )


def candidate_numbers(per_host: int, total: int) -> NDArray[np.int64]:
    """Numbers of accelerators that are tried, ascending."""
    found = set(range(1, min(per_host, total) + 1))
    step = max(1, per_host // 2)
    number = per_host
    while number < total:
        number += step
        if number >= 8 * step:
            step *= 2
        found.add(min(number, total))
    return np.array(sorted(found), dtype=np.int64)


def most_replicas(view: JobView) -> int:
    """Most accelerators that a job may have now."""
    return max(1, min(_GROWTH * view.most_replicas, view.job.max_replicas))
