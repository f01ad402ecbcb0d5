"""Executors of a recorded run, and when their cores were in use."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dagopt.events.trace import ApplicationTrace, StageTrace
from dagopt.sim.app_values import AppExecutor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Column = NDArray[np.float64]

_EPS = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordedExecutor:
    """One executor; times are seconds since the run's start."""

    executor: AppExecutor
    changes_s: Column
    """``(N,)`` when tasks started and ended, sorted."""
    cores_used: Column
    """``(N,)`` cores in use from each of these on."""
    gpus_used: Column
    """``(N,)`` GPUs likewise."""

    def free_since_s(self, time_s: float, cpus: float, gpus: float) -> float:
        """Since when, up to just before ``time_s``, it could have run a task that takes so much.

        ``time_s`` itself where it could not.
        """
        if not self.executor.added_s <= time_s <= self.executor.removed_s:
            return time_s
        before = int(np.searchsorted(self.changes_s, time_s, side="left"))
        is_full = self.cores_used[:before] > self.executor.cores - cpus + _EPS
        is_full |= self.gpus_used[:before] > self.executor.gpus - gpus + _EPS
        last_full = int(np.flatnonzero(is_full)[-1]) if is_full.any() else -1
        if last_full == before - 1 >= 0:
            return time_s
        since_s = float(self.changes_s[last_full + 1]) if last_full >= 0 else 0.0
        return max(since_s, self.executor.added_s)


def recorded_executors(
    trace: ApplicationTrace, used: list[tuple[StageTrace, NDArray[np.int64]]], start_s: float
) -> tuple[RecordedExecutor, ...]:
    """Those that tasks ran on; what the log does not say of one is taken from its tasks.

    Args:
        trace: the application.
        used: stages, and which of their task attempts count.
        start_s: epoch seconds of the run's start.
    """
    told = {each.executor: each for each in trace.executors}
    found = []
    for number, name in enumerate(trace.executor_names):
        spans = []
        host = ""
        for stage, rows in used:
            here = rows[stage.tasks.executor[rows] == number]
            if here.size:
                host = trace.host_names[int(stage.tasks.host[here[0]])]
                tasks = stage.tasks
                takes = (stage.task_cpus, stage.task_gpus)
                spans.append((tasks.launch_s[here], tasks.finish_s[here], takes))
        if not spans:
            continue
        each = told.get(name)
        first_s = min(float(launch.min()) for launch, _, _ in spans)
        last_s = max(float(finish.max()) for _, finish, _ in spans)
        changes_s, used_of = _used(spans)
        cores_used, gpus_used = used_of.T
        cores, gpus = max(1.0, float(cores_used.max())), float(gpus_used.max())
        if each is not None:
            cores, gpus = float(each.cores or cores), float(each.gpus or gpus)
        added_s = each.added_s if each is not None and math.isfinite(each.added_s) else first_s
        removed_s = each.removed_s if each is not None else math.nan
        found.append(
            RecordedExecutor(
                executor=AppExecutor(
                    executor=name,
                    host=host,
                    cores=cores,
                    gpus=gpus,
                    added_s=max(0.0, min(added_s, first_s) - start_s),
                    removed_s=max(removed_s, last_s) - start_s
                    if math.isfinite(removed_s)
                    else math.inf,
                ),
                changes_s=changes_s - start_s,
                cores_used=cores_used,
                gpus_used=gpus_used,
            )
        )
    return tuple(found)


# Private functions


def _used(spans: list[tuple[Column, Column, tuple[float, float]]]) -> tuple[Column, Column]:
    """When what is in use changed, sorted, and how much was from then on; ends count before starts.

    Returns:
        ``(N,)`` times, and ``(N, 2)`` cores and GPUs.
    """
    times = np.concatenate([part for launch, finish, _ in spans for part in (finish, launch)])
    is_start = np.concatenate(
        [np.repeat((False, True), launch.size) for launch, _, _ in spans], dtype=np.bool_
    )
    amounts = np.concatenate(
        [np.tile(takes, (2 * launch.size, 1)) for launch, _, takes in spans], dtype=np.float64
    )
    order = np.lexsort((is_start, times))
    steps = np.where(is_start[:, None], amounts, -amounts)
    return times[order], np.cumsum(steps[order], axis=0)
