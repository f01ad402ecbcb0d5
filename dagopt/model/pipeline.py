"""A GPU operator in its pipeline, and the slots that it runs on.

A pipeline is what Spark fuses into one stage: CPU operators (scan, decode), one GPU operator, and
perhaps CPU operators behind it. Costs are means over its partitions. Not modelled: partitions of
unlike size, several GPU operators in one stage (each is a pipeline of its own), and how slots are
spread over executors, so a GPU task never finds its CPU slots on another host than its GPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from dagopt.errors import InputError

_ROUNDING = 1e-9

Phase: TypeAlias = Literal[
    "waiting", "cpu_running", "cpu_done", "gpu_running", "shifted", "cpu_only_running", "done"
]
"""Where a slice stands. A part counts as running from its submission on, except a CPU-only form, which
is ``shifted`` until its first task starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCosts:
    """What one partition costs in each part of the pipeline, a mean."""

    cpu_s: float
    """Seconds on a core in the operators in front of the GPU operator, >= 0."""

    gpu_s: float
    """Seconds in the GPU operator, >= 0."""

    input_bytes: float
    """Bytes that cross into the GPU operator, >= 0."""

    output_bytes: float
    """Bytes that come out of it, >= 0."""

    rest_s: float = 0.0
    """Seconds on a core in the operators behind it in the same stage; 0 where there are none."""

    cpu_only_s: float | None = None
    """Seconds on a core of the GPU operator's CPU form; None where the user gave none, or where it
    was never measured."""

    def __post_init__(self) -> None:
        for name in ("cpu_s", "gpu_s", "input_bytes", "output_bytes", "rest_s", "cpu_only_s"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise InputError(f"{name} is {value}, must be >= 0 and finite")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPipeline:
    """A stage with a GPU operator in it."""

    num_partitions: int
    """N, >= 0."""

    costs: PartitionCosts | None
    """None where any part of it has not been measured yet."""

    sliceable: bool = True
    """Whether it can be cut into slices, and a shuffle be put behind the GPU operator. False where
    what follows is not known yet, as with RDDs."""

    has_cpu_form: bool = False
    """Whether the GPU operator has a CPU form, of which the costs may not be known."""

    def __post_init__(self) -> None:
        if self.num_partitions < 0:
            raise InputError(f"num_partitions is {self.num_partitions}, must be >= 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """Room for tasks on all executors together."""

    cores: int
    """C, tasks of a CPU stage that run at once, at least 1."""

    gpus: int
    """G, tasks that can each have a GPU at once, at least 1."""

    cpus_per_gpu_task: float = 1.0
    """CPU slots that a GPU task occupies beside its GPU, 0 to ``cores``."""

    num_hosts: int = 1
    """Hosts that the executors run on, at least 1."""

    def __post_init__(self) -> None:
        for name in ("cores", "gpus", "num_hosts"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}, must be >= 1")
        if not 0 <= self.cpus_per_gpu_task <= self.cores:
            raise InputError(
                f"cpus_per_gpu_task is {self.cpus_per_gpu_task}, must be 0 to {self.cores} (cores)"
            )

    @property
    def gpu_tasks(self) -> int:
        """GPU tasks that run at once, at least 1: GPUs, or fewer where CPU slots run out."""
        return self.gpu_tasks_in(self.cores, self.gpus)

    @property
    def cores_beside_gpus(self) -> int:
        """CPU slots that are free while all GPUs have tasks, at least 1."""
        return max(1, math.floor(self.free_cores(0, self.gpu_tasks)))

    def lendable(self, cpu_task_s: float, gpu_task_s: float) -> int:
        """CPU slots that neither running GPU tasks nor CPU tasks that feed them need, >= 0.

        Args:
            cpu_task_s: seconds of a task in front of the GPU operator.
            gpu_task_s: seconds of a GPU task.
        """
        beside = math.floor(self.free_cores(0, self.gpu_tasks))
        needed = self.gpu_tasks * cpu_task_s / gpu_task_s if gpu_task_s > 0 else math.inf
        # Somewhat faster than the GPUs use them up.
        feeding = math.floor(needed) + 1 if needed < self.cores else self.cores
        return max(0, beside - feeding)

    def gpu_tasks_in(self, cpu_slots: float, gpus: int) -> int:
        """GPU tasks that fit in so many free CPU slots and free GPUs."""
        if self.cpus_per_gpu_task == 0:
            return gpus
        # Fractions of a core add up with rounding errors.
        return min(gpus, math.floor(cpu_slots / self.cpus_per_gpu_task + _ROUNDING))

    def free_cores(self, cpu_tasks: int, gpu_tasks: int) -> float:
        """CPU slots that so many running tasks leave free, >= 0."""
        free = self.cores - cpu_tasks - gpu_tasks * self.cpus_per_gpu_task
        return max(0.0, round(free, 9))
