"""Progress per second: steps per second times what a step is worth, at the best batch size.

For every job and every candidate (hosts, replicas) a geometric range of batch sizes is tried at once. A
job with a fixed batch has one candidate. Where the local batch is more than memory holds, it is
accumulated; a single replica above the initial batch accumulates at least once, since gradient
statistics need two batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dagopt.cost.efficiency import step_gain
from dagopt.cost.step_time import step_s
from dagopt.model.training import JobView

_SLACK = 1e-8
"""Rounding errors that must not push a whole number up to the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodput:
    """The best way to run each candidate; all ``(J, N)``."""

    per_s: NDArray[np.float64]
    """Steps of the initial batch per second; 0 where no batch size fits."""
    local_batch: NDArray[np.int64]
    """Examples that a replica computes at a time."""
    num_accumulated: NDArray[np.int64]
    """Batches that it computes before the one that is synchronised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobColumns:
    """What goodput depends on, a row a job."""

    coefficients: NDArray[np.float64]
    """``(J, 8)``, see ``cost.step_time``."""
    noise: NDArray[np.float64]
    """``(J, 2)``: squared gradient, and its variance."""
    batches: NDArray[np.int64]
    """``(J, 5)``: initial, largest, smallest local, largest local, and the fixed batch or 0."""


def job_columns(jobs: Sequence[JobView]) -> JobColumns:
    """Columns of jobs whose step times are known."""
    batches = [
        (b.initial, b.largest, b.min_local, b.max_local, j.asked_batch if j.is_batch_fixed else 0)
        for j, b in ((view.job, view.job.batches) for view in jobs)
    ]
    return JobColumns(
        coefficients=np.array([view.coefficients for view in jobs], dtype=np.float64).reshape(
            -1, 8
        ),
        noise=np.array([(v.grad_sqr, v.grad_var) for v in jobs], dtype=np.float64).reshape(-1, 2),
        batches=np.array(batches, dtype=np.int64).reshape(-1, 5),
    )


def best_goodput(
    jobs: JobColumns,
    num_hosts: NDArray[np.int64],
    num_replicas: NDArray[np.int64],
    *,
    num_batches: int = 50,
) -> Goodput:
    """The best batch size of each job on each candidate.

    Args:
        jobs: ``J`` rows.
        num_hosts: ``(J, N)`` or ``(N,)`` hosts of the candidates, >= 1.
        num_replicas: same shape, replicas >= hosts.
        num_batches: how many batch sizes are tried, >= 2.
    """
    count = len(jobs.coefficients)
    hosts = np.broadcast_to(num_hosts, (count, num_hosts.shape[-1]))[..., None]
    replicas = np.broadcast_to(num_replicas, (count, num_replicas.shape[-1]))[..., None]
    initial, largest, min_local, max_local, fixed = (
        jobs.batches[:, column, None, None] for column in range(5)
    )
    lowest = np.minimum(np.maximum(initial, min_local * replicas), largest)
    share = np.linspace(0.0, 1.0, num_batches)
    batch = lowest * (largest / lowest) ** share
    batch = np.where(fixed > 0, fixed, batch)
    local = batch / replicas
    accumulated = np.ceil(local / max_local - _SLACK) - 1
    alone = (replicas == 1) & (local > initial)
    accumulated = np.where(alone, np.maximum(accumulated, 1), accumulated)
    atomic = np.ceil(local / (accumulated + 1) - _SLACK)
    atomic = np.minimum(atomic, largest // (replicas * (accumulated + 1)))
    whole = replicas * atomic * (accumulated + 1)
    coefficients = jobs.coefficients[:, None, None, :]
    seconds = step_s(coefficients, hosts, replicas, np.maximum(atomic, 1), accumulated)
    gain = step_gain(
        jobs.noise[:, 0, None, None],
        jobs.noise[:, 1, None, None],
        np.maximum(whole, 1) / initial,
    )
    fits = (atomic >= min_local) & (atomic <= max_local) & (atomic >= 1)
    per_s = np.where(fits & (seconds > 0), gain / np.where(seconds > 0, seconds, 1.0), 0.0)
    best = per_s.argmax(axis=-1)[..., None]
    return Goodput(
        per_s=np.take_along_axis(per_s, best, axis=-1)[..., 0],
        local_batch=np.take_along_axis(atomic, best, axis=-1)[..., 0].astype(np.int64),
        num_accumulated=np.take_along_axis(accumulated, best, axis=-1)[..., 0].astype(np.int64),
    )


def progress_per_s(view: JobView, *, hosts: int, number: int) -> float:
    """Progress per second on so many accelerators of so many hosts."""
    found = best_goodput(job_columns([view]), np.array([hosts]), np.array([number]))
    return float(found.per_s[0, 0])


def relative_speed(view: JobView, *, hosts: int, fewest: int, number: int) -> float:
    """Speed on ``hosts`` over that on ``fewest``; 1 where nothing is known."""
    if view.coefficients is None:
        return 1.0
    best = progress_per_s(view, hosts=fewest, number=number)
    return progress_per_s(view, hosts=hosts, number=number) / best if best > 0 else 1.0
