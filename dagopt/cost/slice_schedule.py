"""When the last GPU task of a sliced pipeline ends.

Slices are contiguous ranges of partitions. All CPU tasks take the same time and start in the order
of their partitions; the GPU tasks of a slice become ready together, some time after its last CPU
task has ended. A slot that is free takes a GPU task where one is ready and fits, else the next CPU
task: list scheduling without preemption. A running GPU task occupies CPU slots too, so while GPU
tasks run fewer CPU tasks do.

It is computed exactly, by the tasks that start at one moment instead of one by one: tasks of a kind
take equally long, so they end in the order in which they started, and counts are all the state.

Not modelled: a bound on how far CPU tasks run ahead of the GPUs. It makes no difference to the end
while the GPUs have work.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

from dagopt.errors import InputError
from dagopt.model.pipeline import Slots

_SAME = 1e-9
"""Ends that differ by less than this share of the time are one moment."""

_Batches: TypeAlias = deque[tuple[float, int]]
"""When so many tasks end, in order."""


def slice_sizes(num_partitions: int, num_slices: int) -> tuple[int, ...]:
    """Partitions of each slice, as even as they can be, the larger ones first.

    Raises:
        InputError: there are fewer partitions than slices, or no slices.
    """
    if not 1 <= num_slices <= num_partitions:
        raise InputError(f"num_slices is {num_slices}, must be 1 to {num_partitions} (partitions)")
    size, larger = divmod(num_partitions, num_slices)
    return (size + 1,) * larger + (size,) * (num_slices - larger)


def last_gpu_end_s(
    sizes: Sequence[int],
    *,
    cpu_task_s: float,
    gpu_task_s: float,
    handover_s: float,
    slots: Slots,
    max_cpu_tasks: int = 0,
) -> float:
    """Seconds from the start of the first CPU task to the end of the last GPU task.

    Args:
        sizes: partitions of each slice, each at least 1.
        cpu_task_s: seconds of each CPU task, >= 0.
        gpu_task_s: seconds of each GPU task, >= 0.
        handover_s: seconds from the last CPU end of a slice until its GPU tasks are ready, >= 0.
        slots: what all of them run on.
        max_cpu_tasks: CPU tasks of slices behind the first start only while fewer CPU tasks than
            this run, which leaves slots to GPU tasks; 0 for any number.
    """
    total = sum(sizes)
    slices = deque(sizes)
    cpu_ends: _Batches = deque()
    gpu_ends: _Batches = deque()
    handovers: _Batches = deque()
    cpu_started = cpu_running = ended_of_slice = gpu_ready = gpu_running = 0
    now_s = 0.0
    while True:
        free_cores = slots.free_cores(cpu_running, gpu_running)
        count = min(gpu_ready, slots.gpu_tasks_in(free_cores, slots.gpus - gpu_running))
        if count:
            gpu_ready, gpu_running = gpu_ready - count, gpu_running + count
            gpu_ends.append((now_s + gpu_task_s, count))
            free_cores = slots.free_cores(cpu_running, gpu_running)
        count = math.floor(free_cores)
        if max_cpu_tasks:
            first_left = max(0, sizes[0] - cpu_started)
            count = min(count, max(first_left, max_cpu_tasks - cpu_running))
        count = min(count, total - cpu_started)
        if count:
            cpu_started, cpu_running = cpu_started + count, cpu_running + count
            cpu_ends.append((now_s + cpu_task_s, count))

        heads = [batches[0][0] for batches in (cpu_ends, gpu_ends, handovers) if batches]
        if not heads:
            return now_s
        now_s = max(now_s, min(heads))
        until_s = now_s * (1 + _SAME)
        count = _popped(cpu_ends, until_s)
        cpu_running -= count
        ended_of_slice += count
        while slices and ended_of_slice >= slices[0]:
            ended_of_slice -= slices[0]
            handovers.append((now_s + handover_s, slices.popleft()))
        gpu_running -= _popped(gpu_ends, until_s)
        gpu_ready += _popped(handovers, until_s)


def _popped(batches: _Batches, until_s: float) -> int:
    """Tasks of the batches that end up to ``until_s``, which are taken out."""
    count = 0
    while batches and batches[0][0] <= until_s:
        count += batches.popleft()[1]
    return count
