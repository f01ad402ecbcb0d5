"""What GPU stages did with their GPUs, for reports and for the decision log."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from dagopt.model.wire_gpu import SliceDone


@dataclass(slots=True, kw_only=True)
class GpuUse:
    """What one GPU stage, or a slice of it, did with the GPUs."""

    time_s: float
    """Epoch seconds on the driver's clock, when it had ended."""

    id: int
    """Of the question that it was asked by."""

    slice: int
    name: str
    """Spark's name of the GPU operator; empty where the question is no longer known."""

    num_tasks: int
    gpu_allocated_s: float
    """Seconds that its tasks held their GPUs, summed over the tasks."""

    gpu_busy_s: float | None
    """... of which the GPU operator ran; None where CPU operators ran in the same tasks."""

    gpu_idle_s: float | None
    """... of which it did not: launches, reading and writing shuffles; None likewise."""

    cpu_s: float | None
    """Seconds that the tasks in front of it ran, on CPU slots; None without a shuffle there."""

    bytes_across: int
    """Bytes that the inserted shuffles wrote."""

    def to_dict(self) -> dict[str, Any]:
        """The fields, as JSON takes them."""
        return asdict(self)


@dataclass(slots=True, kw_only=True)
class GpuTotals:
    """Seconds of all GPU stages of an application so far, summed over tasks."""

    allocated_s: float = 0.0
    busy_s: float = 0.0
    """Of those whose CPU operators ran apart; of the others it is not known."""
    idle_s: float = 0.0
    """Likewise."""

    def add(self, use: GpuUse) -> None:
        """One stage, or a slice of it, has ended."""
        self.allocated_s += use.gpu_allocated_s
        self.busy_s += use.gpu_busy_s or 0.0
        self.idle_s += use.gpu_idle_s or 0.0


def use_of(event: SliceDone, time_s: float, name: str) -> GpuUse:
    """What one slice did.

    Args:
        event: that its GPU stage has completed.
        time_s: epoch seconds on the driver's clock.
        name: of the GPU operator.
    """
    cpu, gpu = event.cpu, event.gpu
    busy_s = max(0, gpu.run_ms - gpu.start_ms - gpu.read_ms - gpu.write_ms) / 1000
    allocated_s = gpu.held_ms / 1000
    is_apart = event.boundary_before
    return GpuUse(
        time_s=time_s,
        id=event.id,
        slice=event.slice,
        name=name,
        num_tasks=gpu.num_tasks,
        gpu_allocated_s=allocated_s,
        gpu_busy_s=busy_s if is_apart else None,
        gpu_idle_s=max(0.0, allocated_s - busy_s) if is_apart else None,
        cpu_s=cpu.run_ms / 1000 if is_apart else None,
        bytes_across=cpu.bytes_written + (gpu.bytes_written if event.boundary_after else 0),
    )
