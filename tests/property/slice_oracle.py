"""The slow, obvious way to the end of a sliced pipeline: one task and one event after another.

Exact, in fractions. Tasks are values of their own, and at every event all of them are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dagopt.model.pipeline import Slots


@dataclass(slots=True)
class Task:
    """One partition's part."""

    slice_index: int
    kind: Literal["cpu", "gpu"]
    start: Fraction | None = None
    end: Fraction | None = None

    def runs_at(self, now: Fraction) -> bool:
        return self.start is not None and self.end is not None and self.start <= now < self.end


def simulated_tasks(
    sizes: Sequence[int],
    cpu_task_s: float,
    gpu_task_s: float,
    handover_s: float,
    slots: Slots,
    max_cpu_tasks: int = 0,
) -> list[Task]:
    """Every task with its start and end: GPU tasks first, then CPU tasks, each kind by slice."""
    seconds = {"cpu": Fraction(cpu_task_s), "gpu": Fraction(gpu_task_s)}
    cpus = {"cpu": Fraction(1), "gpu": Fraction(slots.cpus_per_gpu_task)}
    kinds: tuple[Literal["gpu", "cpu"], ...] = ("gpu", "cpu")
    tasks = [
        Task(slice_index, kind)
        for kind in kinds
        for slice_index, size in enumerate(sizes)
        for _ in range(size)
    ]
    cpu_parts = [
        [task for task in tasks if (task.slice_index, task.kind) == (slice_index, "cpu")]
        for slice_index in range(len(sizes))
    ]

    def ready(task: Task) -> Fraction | None:
        """When the task may start; None while that is not known."""
        if task.kind == "cpu":
            return Fraction(0)
        ends = [part.end for part in cpu_parts[task.slice_index] if part.end is not None]
        if len(ends) < sizes[task.slice_index]:
            return None
        return max(ends) + Fraction(handover_s)

    now = Fraction(0)
    while True:
        for task in tasks:
            at = ready(task)
            if task.start is not None or at is None or at > now:
                continue
            running = [other for other in tasks if other.runs_at(now)]
            free_cpus = slots.cores - sum(cpus[other.kind] for other in running)
            free_gpus = slots.gpus - sum(other.kind == "gpu" for other in running)
            if task.kind == "cpu" and task.slice_index > 0 and max_cpu_tasks:
                limited = sum(other.kind == "cpu" for other in running) >= max_cpu_tasks
            else:
                limited = task.kind == "gpu" and free_gpus < 1
            if cpus[task.kind] <= free_cpus and not limited:
                task.start, task.end = now, now + seconds[task.kind]
        moments = [task.end for task in tasks if task.end is not None]
        moments += [at for task in tasks if task.start is None and (at := ready(task)) is not None]
        later = [moment for moment in moments if moment > now]
        if not later:
            return tasks
        now = min(later)
