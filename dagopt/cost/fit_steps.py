"""Coefficients of a step time from measured steps.

Errors are taken of logarithms, so that a step of 5 ms counts as much as one of 5 s. What was not seen is
kept optimistic, or at its prior: a job that never ran on two hosts is taken to lose there what it loses
within one, until it tried. Measurements of many steps on a placement should come in as their mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dagopt.cost import step_time
from dagopt.cost.step_time import StepTime
from dagopt.errors import InputError

_TINY_S = 1e-8
_MOST_OVERLAP = 10.0
_PASSES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSample:
    """Mean times of steps on one placement at one local batch, without accumulation."""

    num_hosts: int
    num_replicas: int
    local_batch: int
    step_s: float
    """Seconds of a step, > 0."""
    sync_s: float
    """Seconds of it that were not computing, >= 0 and below ``step_s``."""

    def __post_init__(self) -> None:
        if not 1 <= self.num_hosts <= self.num_replicas or self.local_batch < 1:
            raise InputError(
                f"sample of {self.num_replicas} replicas on {self.num_hosts} hosts, local batch "
                f"{self.local_batch}: expected replicas >= hosts >= 1 and a batch >= 1"
            )
        if not 0 <= self.sync_s < self.step_s < float("inf"):
            raise InputError(
                f"sample: sync_s is {self.sync_s} of step_s {self.step_s}, expected 0 <= sync < step"
            )


def fit_steps(samples: Sequence[StepSample], *, known: StepTime | None = None) -> StepTime:
    """The coefficients that fit best.

    Args:
        samples: at least one.
        known: what to keep for what no sample shows; without it, no cost that was not seen.

    Raises:
        InputError: there is no sample.
    """
    if not samples:
        raise InputError("no sample of a step")
    # Slow to import; only who fits pays for it.
    from scipy.optimize import minimize  # noqa: PLC0415

    columns = np.array(
        [(s.num_hosts, s.num_replicas, s.local_batch, s.step_s, s.sync_s) for s in samples]
    )
    hosts, replicas, local, measured_s, sync_s = columns.T
    first, low, high = _start(hosts, replicas, local, measured_s - sync_s, known)
    free = np.flatnonzero(high > low)
    log_step, log_compute = np.log(measured_s), np.log(measured_s - sync_s)

    def loss(values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Value and slope, from all small steps in one evaluation."""
        small = 1e-6 * np.maximum(np.abs(values), 1e-4)
        rows = np.tile(first, (len(free) + 1, 1))
        rows[:, free] = values
        rows[np.arange(1, len(free) + 1), free] += small
        found = _errors(rows, hosts, replicas, local, log_step, log_compute)
        return float(found[0]), (found[1:] - found[0]) / small

    bounds = list(zip(low[free], high[free], strict=True))
    options = {"maxiter": _PASSES}
    result = minimize(
        loss, first[free], jac=True, bounds=bounds, method="L-BFGS-B", options=options
    )
    best = first.copy()
    best[free] = np.clip(result.x, low[free], high[free])
    if known is None and not (hosts > 1).any():
        best[4:6] = best[2:4]
    return StepTime(**dict(zip(step_time.COLUMNS, map(float, best), strict=True)))


# Private functions


def _start(
    hosts: NDArray[np.float64],
    replicas: NDArray[np.float64],
    local: NDArray[np.float64],
    computed_s: NDArray[np.float64],
    known: StepTime | None,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Where the search starts, and between which bounds: equal ones where nothing was seen."""
    mean_s = float(computed_s.mean())
    slope_s = mean_s / (2 * float(local.mean()))
    first = np.array([mean_s / 2, slope_s, *([mean_s / 4, mean_s / 40] * 2), mean_s / 40, 1.5])
    low = np.array([_TINY_S] * 7 + [1.0])
    high = np.array([np.inf] * 7 + [_MOST_OVERLAP])
    base = np.full(8, _TINY_S) if known is None else np.maximum(known.row(), _TINY_S)
    base[7] = 1.0 if known is None else known.overlap

    def fix(columns: Sequence[int]) -> None:
        for column in columns:
            first[column] = low[column] = high[column] = base[column]

    remote, alone = hosts > 1, (hosts == 1) & (replicas > 1)
    if len(np.unique(local)) == 1:
        # One batch size tells nothing of the slope: half of the time is taken to grow with it.
        low[0] = high[0] = first[0]
    if not alone.any():
        fix((2, 3))
    if not remote.any():
        fix((4, 5, 6))
    if not (replicas[alone] > 2).any():
        fix((3,))
    if not (replicas[remote] > 2).any():
        fix((5,))
    if len(np.unique(hosts[remote])) < 2:
        fix((6,))
    if not (remote.any() or alone.any()):
        fix((7,))
    return first, low, high


def _errors(
    rows: NDArray[np.float64],
    hosts: NDArray[np.float64],
    replicas: NDArray[np.float64],
    local: NDArray[np.float64],
    log_step: NDArray[np.float64],
    log_compute: NDArray[np.float64],
) -> NDArray[np.float64]:
    """``(P,)`` losses of ``(P, 8)`` rows of coefficients."""
    wide = rows[:, None, :]
    step = np.log(step_time.step_s(wide, hosts, replicas, local)) - log_step
    compute = np.log(step_time.compute_s(wide, local)) - log_compute
    both = np.sqrt((step**2).mean(axis=1)) + np.sqrt((compute**2).mean(axis=1))
    # Of coefficients that fit alike, those with less overlap and less growth.
    growth = (rows[:, 3] / rows[:, 2]) ** 2 + (rows[:, 5:7].sum(axis=1) / rows[:, 4]) ** 2
    found: NDArray[np.float64] = (
        both + 1e-3 * (rows[:, 7] - 1) ** 2 + 1e-2 * np.minimum(growth, 1e3)
    )
    return found
