"""GPU stages of a recorded run: what held GPUs and did something else, and the forms that end sooner.

Spark runs everything of a stage under the profile of its GPU operator. What it measures of the tasks, JVM
CPU time, waits, garbage collection, packing and writing, is no work of a GPU operator in Python, and
neither is the code of the Python operators below it, which Spark measures from 4.2 on. Those seconds
held a GPU for nothing, and could run on CPU slots in front of a shuffle.

* The topmost Python operator of a stage counts as the one that uses the GPU. Its time is its code's less
  that of the operator below, since it waited for it. With several batches a task the two overlap in
  a way that is not recorded, so then, and on older Sparks, all Python time counts as the GPU's. That
  makes predicted savings the least ones.
* Only stages with Python workers whose profile the program asked for get a form. Elsewhere no shuffle can
  be put in front of what uses the GPU.
* Not known: what the GPU itself did, and whether operators behind it are part of the stage; all that is
  not the GPU's counts as in front.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from dagopt.app.shuffle_rates import rereading
from dagopt.cost.inserted_shuffle import ShuffleRates
from dagopt.cost.time_split import TimeSplit, split_time
from dagopt.model.pipeline import GpuPipeline, PartitionCosts, Slots
from dagopt.policy.boundary.choose_form import BoundarySettings, choose_form

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dagopt.events.trace import StageTrace
    from dagopt.sim.app_values import AppExecutor

_LEAST_CPU_S: Final = 1e-3
"""A front part that takes less is as good as none."""

_FREE: Final = ShuffleRates(
    serialise_bytes_per_s=math.inf,
    disk_bytes_per_s=math.inf,
    network_bytes_per_s=math.inf,
    launch_s=0.0,
    stage_s=0.0,
)

_BATCH_ROWS: Final = 10_000
"""Spark's default of rows in a batch."""

_BRANCHES: Final = frozenset({"Union", "FlatMapCoGroupsInPandas", "FlatMapCoGroupsInArrow"})
"""Operators with several inputs in one stage, so that Python operators are no chain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuStageAdvice:
    """What one stage attempt did with the GPUs that its tasks held."""

    held_s: float
    """GPU seconds that tasks held."""

    other_s: float
    """... in which they measurably did something else, at least."""

    form: str
    """``fused`` as Spark runs it, ``split`` or ``sliced``; empty where it is not dagopt's to choose."""

    time_ratio: float
    """Predicted time of the stage in this form over that as it was recorded, at most 1."""

    reason: str

    ratio_error: float = 0.0
    """How far ``time_ratio`` may be off since shuffles are priced by priors: they may cost nothing."""


def gpu_advice(
    stage: StageTrace, executors: Sequence[AppExecutor], rates: ShuffleRates
) -> GpuStageAdvice | None:
    """Advice on a stage attempt; None where its tasks held no GPU or nothing is known of them.

    Args:
        stage: the recorded attempt.
        executors: what it would run on.
        rates: what shuffles cost there.
    """
    split = split_time(stage.tasks)
    if stage.task_gpus <= 0 or split is None:
        return None
    costs = _costs(stage, split)
    held_s = (split.elapsed_s + split.lost_s) * stage.task_gpus
    other_s = min(held_s, costs.cpu_s * split.num_tasks * stage.task_gpus)
    slots = _slots(stage, executors)
    if (
        slots is None
        or stage.gpu_parts  # dagopt chose its form already
        or not stage.has_python
        or stage.resource_profile_id == 0
        or stage.is_barrier
        or stage.num_tasks < 1
    ):
        return GpuStageAdvice(held_s=held_s, other_s=other_s, form="", time_ratio=1.0, reason="")
    pipeline = GpuPipeline(num_partitions=stage.num_tasks, costs=costs)
    decision = choose_form(
        pipeline,
        slots,
        rereading(rates, stage.num_tasks * costs.input_bytes / slots.num_hosts),
        BoundarySettings(),
    )
    fused_s = decision.considered[0].elapsed_s
    predicted_s = decision.predicted_s if decision.predicted_s is not None else fused_s
    # What the costs leave out, such as starts of workers, stays as it was.
    whole_s = max(fused_s, split.elapsed_s / slots.gpu_tasks)
    error_s = 0.0
    if decision.form != "fused":
        free = choose_form(pipeline, slots, _FREE, BoundarySettings())
        error_s = max(0.0, predicted_s - min(form.elapsed_s for form in free.considered))
    return GpuStageAdvice(
        held_s=held_s,
        other_s=other_s,
        form=decision.form,
        time_ratio=1 - max(0.0, fused_s - predicted_s) / whole_s if whole_s > 0 else 1.0,
        reason=decision.reason,
        ratio_error=error_s / whole_s if whole_s > 0 else 0.0,
    )


# Private functions


def _costs(stage: StageTrace, split: TimeSplit) -> PartitionCosts:
    """Of a task, a mean: in front of the GPU operator what is known, in it the rest."""
    num_tasks = split.num_tasks
    front_s = (split.elapsed_s - split.unexplained_s) / num_tasks
    gpu_s = split.unexplained_s / num_tasks
    input_bytes = float(np.nan_to_num(stage.tasks.read_bytes).mean())
    output_bytes = float(np.nan_to_num(stage.tasks.shuffle_written_bytes).mean())
    if stage.python_operators:
        top = stage.python_operators[-1]
        input_bytes = top.sent_bytes / num_tasks
        if math.isfinite(top.returned_bytes):
            output_bytes = top.returned_bytes / num_tasks
    below_s = _below_s(stage)
    if below_s is not None:
        code_s = stage.python_operators[-1].code_s
        front_s = max(front_s, below_s / num_tasks)
        gpu_s = max(0.0, code_s - below_s) / num_tasks
    return PartitionCosts(
        cpu_s=front_s if front_s >= _LEAST_CPU_S else 0.0,
        gpu_s=gpu_s,
        input_bytes=max(0.0, input_bytes),
        output_bytes=max(0.0, output_bytes),
    )


def _below_s(stage: StageTrace) -> float | None:
    """Seconds of code of the Python operator below the topmost one; None where that is not told."""
    if len(stage.python_operators) < 2 or _BRANCHES & set(stage.scopes):
        return None
    below, top = stage.python_operators[-2:]
    if not below.output_rows <= _BATCH_ROWS * stage.num_tasks or not below.code_s <= top.code_s:
        return None
    return below.code_s


def _slots(stage: StageTrace, executors: Sequence[AppExecutor]) -> Slots | None:
    """Room on all executors; None where no GPU task fits."""
    gpu_tasks = sum(math.floor(each.gpus / stage.task_gpus + 1e-9) for each in executors)
    cores = int(sum(each.cores for each in executors))
    if gpu_tasks < 1 or cores < max(1.0, stage.task_cpus):
        return None
    return Slots(
        cores=cores,
        gpus=gpu_tasks,
        cpus_per_gpu_task=stage.task_cpus,
        num_hosts=len({each.host for each in executors}),
    )
