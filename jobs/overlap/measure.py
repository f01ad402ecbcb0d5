"""From the stages of one run to the numbers of the benchmark.

The lower bound is what no schedule can beat on this cluster, from what was really moved and
really computed: for each stage the longer of its bytes over the links and its work over the
cores, and the stages one after another.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobs.overlap.event_log import StageRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One run of one case in one mode."""

    case: str
    mode: str
    stage_s: float
    """Seconds of the measured stages, from submission to completion."""

    lower_bound_s: float
    task_run_s_mean: float
    """Mean seconds from launch to finish of a task."""

    idle_hold_s: float
    """Slot seconds that stayed idle because of dagopt's holds; 0 for stock Spark."""

    one_fetch_s: float
    """Seconds that the mean task's remote bytes take on a link alone."""

    spilled_bytes: int

    def row(self) -> dict[str, object]:
        """The fields of ``overlap.json``."""
        return {
            "case": self.case,
            "mode": self.mode,
            "stage_s": round(self.stage_s, 3),
            "lower_bound_s": round(self.lower_bound_s, 3),
            "task_run_s_mean": round(self.task_run_s_mean, 3),
            "idle_hold_s": round(self.idle_hold_s, 3),
        }


def measure(
    case: str,
    mode: str,
    stages: Sequence[StageRun],
    *,
    num_hosts: int,
    num_sources: int,
    link_bytes_per_s: float,
    core_s: float,
    is_real_cpu: bool,
    idle_hold_s: float,
    span: bool,
) -> Measurement:
    """Numbers of one run.

    Args:
        case: name of the case.
        mode: name of the mode.
        stages: the stages that ran, in order.
        num_hosts: hosts that run tasks, one core each.
        num_sources: hosts that hold the map outputs.
        link_bytes_per_s: rate of every link, each direction.
        core_s: core seconds that the tasks of the last stage counted themselves.
        is_real_cpu: they used real cores, which then do the JVM's part of the work too.
        idle_hold_s: slot seconds that idled because of holds.
        span: take the time from the first submission to the last completion, as for many small
            stages, where what lies between them counts; else the sum of the stages' times.
    """
    if not stages:
        raise ValueError(f"{case} {mode}: no stage was measured")
    num_links = min(num_hosts, num_sources)
    bounds_s = [
        max(_io_bound_s(stage, num_links, link_bytes_per_s), _core_s(stage) / num_hosts)
        for stage in stages[:-1]
    ]
    last = stages[-1]
    last_core_s = core_s if core_s and not is_real_cpu else core_s + _core_s(last)
    bounds_s.append(max(_io_bound_s(last, num_links, link_bytes_per_s), last_core_s / num_hosts))
    tasks = [task for stage in stages for task in stage.tasks]
    reading = [task.remote_bytes for task in tasks if task.remote_bytes > 0] or [0]
    return Measurement(
        case=case,
        mode=mode,
        stage_s=last.completed_s - stages[0].submitted_s
        if span
        else sum(stage.elapsed_s for stage in stages),
        lower_bound_s=sum(bounds_s),
        task_run_s_mean=statistics.fmean(task.finish_s - task.launch_s for task in tasks),
        idle_hold_s=idle_hold_s,
        one_fetch_s=statistics.fmean(reading) / link_bytes_per_s,
        spilled_bytes=sum(task.spilled_bytes for task in tasks),
    )


def _io_bound_s(stage: StageRun, num_links: int, link_bytes_per_s: float) -> float:
    remote_bytes = sum(task.remote_bytes for task in stage.tasks)
    return remote_bytes / num_links / link_bytes_per_s


def _core_s(stage: StageRun) -> float:
    """CPU time of the tasks' threads, and of the garbage collection beside them."""
    busy_s = sum(task.finish_s - task.launch_s for task in stage.tasks)
    num_hosts = len({task.host for task in stage.tasks}) or 1
    # Tasks that run at the same time on a host all count the same collection.
    at_once = max(1.0, busy_s / num_hosts / stage.elapsed_s) if stage.elapsed_s > 0 else 1.0
    gc_s = sum(task.gc_s for task in stage.tasks) / at_once
    return sum(task.jvm_cpu_s for task in stage.tasks) + gc_s
