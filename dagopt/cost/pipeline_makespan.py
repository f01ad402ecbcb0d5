"""How long a GPU pipeline takes in each form of its stage.

* ``fused``: one stage, as Spark makes it. Each task holds its GPU through all of its parts.
* ``split``: an inserted shuffle before the GPU part, after it or both, and one stage after the
  other. CPU operators on a side without one run in the GPU tasks.
* ``sliced``: slices of partitions, each with a CPU and a GPU stage of its own, so that the GPU
  stage of one slice runs beside the CPU stage of the next. Each ends in an inserted shuffle, and
  one last stage reads the union of them.
* ``shifting``: as sliced, and CPU slots that feeding the GPUs does not need run slices in their CPU
  form, as :mod:`dagopt.policy.boundary.shifting` says at run time. GPUs are not left idle for that,
  so a stage of CPU forms alone is none of the forms.

For N equal tasks all but the third are closed forms, waves of tasks times their seconds;
:mod:`dagopt.cost.slice_schedule` computes the third. Writing an inserted shuffle lengthens the
tasks in front of it and reading it those behind. Not modelled: tasks of unlike length, cores shared
with other stages, and seconds that the driver takes to plan more stages.

Source: US patent text of the family "cluster GPU sharing by DAG generation", claim 1 (equivalence
stages, created on the basis of the cost of each inserted shuffle stage); the formulas are ours.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import Literal, TypeAlias

from dagopt.cost.inserted_shuffle import ShuffleCost
from dagopt.cost.slice_schedule import last_gpu_end_s, slice_sizes
from dagopt.errors import InputError
from dagopt.model.pipeline import PartitionCosts, Slots
from dagopt.units import format_s

Form: TypeAlias = Literal["fused", "split", "sliced", "shifting"]

_MOST_TASKS = 1000
"""Above so many partitions, and 100 for each core, several are taken for one long task: 100,000 of
them one by one took the planner seconds, and a late answer is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormTime:
    """Predicted time of a pipeline in one form."""

    form: Form

    elapsed_s: float
    """Seconds from the first task's start to the last one's end."""

    gpu_allocated_s: float
    """Seconds that GPUs are held by tasks, summed over the GPUs."""

    gpu_busy_s: float
    """... of which the GPU operator runs."""

    num_slices: int = 1
    """Above 1 in the forms ``sliced`` and ``shifting`` only."""

    max_cpu_tasks: int = 0
    """In these forms, CPU tasks that may run before one of a later slice than the first
    starts; 0 for any number."""

    boundary_before: bool = False
    """Whether an inserted shuffle stands before the GPU part."""

    boundary_after: bool = False
    """Whether one stands after it."""

    @property
    def name(self) -> str:
        """The form in words: ``split before and after``, ``sliced in 4``."""
        if self.form == "sliced":
            limit = f" with {self.max_cpu_tasks} CPU tasks at once" if self.max_cpu_tasks else ""
            return f"sliced in {self.num_slices}{limit}"
        if self.form == "split":
            sides = {"before": self.boundary_before, "after": self.boundary_after}
            return f"split {' and '.join(side for side, is_there in sides.items() if is_there)}"
        if self.form == "shifting":
            return f"shifting {self.num_slices} slices"
        return self.form

    def __str__(self) -> str:
        return f"{self.name} {format_s(self.elapsed_s)}"


def fused_time(num_partitions: int, costs: PartitionCosts, slots: Slots) -> FormTime:
    """One stage of GPU tasks."""
    task_s = costs.cpu_s + costs.gpu_s + costs.rest_s
    return FormTime(
        form="fused",
        elapsed_s=_stage_s(num_partitions, slots.gpu_tasks, task_s),
        gpu_allocated_s=num_partitions * task_s,
        gpu_busy_s=num_partitions * costs.gpu_s,
    )


def split_time(
    num_partitions: int,
    costs: PartitionCosts,
    slots: Slots,
    *,
    before: ShuffleCost | None = None,
    after: ShuffleCost | None = None,
) -> FormTime:
    """A CPU stage if there is a shuffle ``before``, a GPU stage, a CPU stage if one is ``after``.

    Raises:
        InputError: there is neither.
    """
    if before is None and after is None:
        raise InputError("a split form has a shuffle before the GPU part, after it, or both")
    gpu_task_s = _gpu_task_s(costs, before, after)
    elapsed_s = _stage_s(num_partitions, slots.gpu_tasks, gpu_task_s)
    if before is not None:
        cpu_task_s = costs.cpu_s + before.write_s
        elapsed_s += _stage_s(num_partitions, slots.cores, cpu_task_s) + before.stage_s
    if after is not None:
        elapsed_s += _last_stage_s(num_partitions, costs, slots, after)
    return FormTime(
        form="split",
        elapsed_s=elapsed_s,
        gpu_allocated_s=num_partitions * gpu_task_s,
        gpu_busy_s=num_partitions * costs.gpu_s,
        boundary_before=before is not None,
        boundary_after=after is not None,
    )


def sliced_time(
    num_partitions: int,
    costs: PartitionCosts,
    slots: Slots,
    before: ShuffleCost,
    after: ShuffleCost,
    *,
    num_slices: int,
    max_cpu_tasks: int = 0,
) -> FormTime:
    """CPU and GPU stages of the slices side by side, and a last CPU stage over all partitions.

    Args:
        num_partitions: N, at least ``num_slices``.
        costs: of one partition.
        slots: what all stages run on.
        before: the shuffle before the GPU part, for all partitions together.
        after: the one after it.
        num_slices: at least 1.
        max_cpu_tasks: as :func:`dagopt.cost.slice_schedule.last_gpu_end_s` takes it.

    Raises:
        InputError: there are fewer partitions than slices, or no slices.
    """
    gpu_task_s = _gpu_task_s(costs, before, after)
    as_one = max(1, num_partitions // max(_MOST_TASKS, 100 * slots.cores, num_slices))
    gpus_done_s = last_gpu_end_s(
        slice_sizes(num_partitions // as_one, num_slices),
        cpu_task_s=as_one * (costs.cpu_s + before.write_s),
        gpu_task_s=as_one * gpu_task_s,
        handover_s=before.stage_s,
        slots=slots,
        max_cpu_tasks=max_cpu_tasks,
    )
    return FormTime(
        form="sliced",
        elapsed_s=gpus_done_s + _last_stage_s(num_partitions, costs, slots, after),
        gpu_allocated_s=num_partitions * gpu_task_s,
        gpu_busy_s=num_partitions * costs.gpu_s,
        num_slices=num_slices,
        max_cpu_tasks=max_cpu_tasks,
        boundary_before=True,
        boundary_after=True,
    )


def shifting_time(
    num_partitions: int,
    costs: PartitionCosts,
    slots: Slots,
    before: ShuffleCost,
    after: ShuffleCost,
    *,
    num_slices: int,
) -> FormTime | None:
    """GPUs and lendable CPU slots side by side until all is done; None where no slot can be lent.

    Where the time of the CPU form is not known, as if no partition went there.
    """
    gpu_task_s = _gpu_task_s(costs, before, after)
    cpu_task_s = costs.cpu_s + before.write_s
    lent = slots.lendable(cpu_task_s, gpu_task_s)
    if lent < 1 or gpu_task_s == 0:
        return None
    ready_s = cpu_task_s + before.stage_s
    if costs.cpu_only_s is None:
        elapsed_s, on_gpus = (
            ready_s + _stage_s(num_partitions, slots.gpu_tasks, gpu_task_s),
            num_partitions,
        )
    else:
        both_s = costs.cpu_s + costs.cpu_only_s + after.write_s
        elapsed_s, on_gpus = _side_by_side(
            num_partitions, slots.gpu_tasks, gpu_task_s, ready_s, lent, both_s
        )
    return FormTime(
        form="shifting",
        elapsed_s=elapsed_s + _last_stage_s(num_partitions, costs, slots, after),
        gpu_allocated_s=on_gpus * gpu_task_s,
        gpu_busy_s=on_gpus * costs.gpu_s,
        num_slices=num_slices,
        max_cpu_tasks=slots.cores_beside_gpus,
        boundary_before=True,
        boundary_after=True,
    )


def _side_by_side(
    count: int, gpus: int, gpu_task_s: float, ready_s: float, lent: int, cpu_task_s: float
) -> tuple[float, int]:
    """When ``count`` tasks have ended, and how many of them on GPUs.

    A time is enough if the whole tasks in it are ``count`` or more; it is the end of one of them.
    """
    waves = math.ceil(count / lent)

    def on_gpus(waves: int) -> int:
        return max(0, count - waves * lent)

    def gpus_s(waves: int) -> float:
        left = on_gpus(waves)
        return ready_s + _stage_s(left, gpus, gpu_task_s) if left else 0.0

    # More waves on CPU slots end later and leave less to the GPUs: the best is where the two meet.
    met = bisect_left(range(waves), True, key=lambda waves: waves * cpu_task_s >= gpus_s(waves))
    return min(
        (max(waves * cpu_task_s, gpus_s(waves)), on_gpus(waves)) for waves in (max(0, met - 1), met)
    )


def _stage_s(num_tasks: int, at_once: int, task_s: float) -> float:
    return math.ceil(num_tasks / at_once) * task_s


def _gpu_task_s(
    costs: PartitionCosts, before: ShuffleCost | None, after: ShuffleCost | None
) -> float:
    front_s = costs.cpu_s if before is None else before.reading_task_s
    behind_s = costs.rest_s if after is None else after.write_s
    return front_s + costs.gpu_s + behind_s


def _last_stage_s(
    num_partitions: int, costs: PartitionCosts, slots: Slots, after: ShuffleCost
) -> float:
    task_s = after.reading_task_s + costs.rest_s
    return after.stage_s + _stage_s(num_partitions, slots.cores, task_s)
