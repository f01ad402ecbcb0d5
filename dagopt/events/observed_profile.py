"""What a recorded stage attempt says about the cost of its tasks.

Compute time is the time a task held its slot less its fetch wait: it counts JVM, Python workers,
garbage collection and file reads alike, since Spark measures no wait but that for shuffle blocks.
"""

from __future__ import annotations

import numpy as np

from dagopt.events.trace import StageTrace
from dagopt.model.stage_profile import StageProfile

#: Below this share of tasks with an end and metrics, a stage is unknown: what is missing is not
#: missing by chance (events are dropped when most tasks end).
MIN_COVERAGE = 0.8

# Spark's fetch wait counts whole ms.
_MIN_WAIT_S_PER_TASK = 1e-3


def observed_profile(stage: StageTrace) -> StageProfile | None:
    """The stage attempt's profile; None where its log holds too little of it.

    Only attempts that succeeded count, speculative copies like others.
    """
    tasks = stage.tasks
    compute_s = tasks.elapsed_s - tasks.fetch_wait_s
    used = tasks.ok & np.isfinite(compute_s) & np.isfinite(tasks.read_bytes)
    num_seen = np.unique(tasks.index[used]).size
    if stage.num_tasks < 1 or num_seen < MIN_COVERAGE * stage.num_tasks:
        return None
    if not stage.name and not stage.scopes:
        return None  # nothing to recognise it by
    wait_s = float(tasks.fetch_wait_s[used].mean())
    remote_bytes = float(tasks.remote_read_bytes[used].mean())
    cpu_s = tasks.cpu_s[used]
    return StageProfile(
        signature=stage.signature,
        num_runs=1,
        num_tasks=stage.num_tasks,
        read_bytes_per_task=float(tasks.read_bytes[used].mean()),
        # A wait of several streams may add up to more than the task took.
        cpu_s_per_task=float(np.maximum(compute_s[used], 0.0).mean()),
        io_wait_s_per_task=wait_s,
        io_bytes_per_s=remote_bytes / wait_s
        if wait_s >= _MIN_WAIT_S_PER_TASK and remote_bytes > 0
        else None,
        spilled_bytes_per_task=_known_mean(tasks.spilled_bytes[used]) or 0.0,
        peak_memory_bytes=int(np.nan_to_num(tasks.peak_memory_bytes[used]).max()),
        executor_cpu_s_per_task=None if stage.works_outside_jvm else _known_mean(cpu_s),
        python=stage.works_outside_jvm,
        coverage=min(1.0, num_seen / stage.num_tasks),
    )


def _known_mean(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else None
