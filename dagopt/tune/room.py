"""What a slot has: how many there are, and the memory of each, as the executors have it now.

Executors come and go, and those of a profile come only with its first tasks, so the slots are counted
anew at each boundary. Memory is measured once, in a task, where it is not that of this machine.
"""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dagopt.policy.merging.packing import Capacity
from dagopt.spark.concurrency import is_local_mode
from dagopt.spark.devices import array_module
from dagopt.spark.phases import gpus_held, is_on_this_host, slots_now
from dagopt.tune.places import Places

_LEAST_FRACTION = 0.1
"""Share of an executor's memory that its JVM leaves at least: Spark's own smallest overhead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What a process of a task sees, in bytes; None for what has no limit, or is not there."""

    accelerator_bytes: int | None
    machine_bytes: int
    """Of its machine or container, shared by its slots and JVMs."""
    process_bytes: int | None
    """Of the process alone: ``spark.executor.pyspark.memory``."""


class Room:
    """The capacity that groups have.

    Args:
        context: the SparkContext.
        profile: of the tasks, or None.
        memory_bytes: of a slot, where the user said it.
        headroom_fraction: share that stays free.
    """

    def __init__(
        self, context: Any, profile: Any, memory_bytes: int | None, headroom_fraction: float
    ) -> None:
        self._context = context
        self._profile = profile
        self._memory_bytes = memory_bytes
        self._headroom_fraction = headroom_fraction
        self._memory: Memory | None = None

    def measure(self, places: Places) -> None:
        """Look at a task's memory; executors, those of a profile too, are there after that task."""
        if self._profile is None and self._is_seen_here():
            self._memory = seen_memory(None)
        else:
            self._memory = places.call(task_memory, "dagopt tune: memory of a slot")

    def now(self, num_slots: int | None = None) -> Capacity:
        """The capacity as executors are now, or that of so many slots."""
        slots = slots_now(self._context, self._profile)
        return Capacity(
            memory_bytes=self._memory_bytes or self._slot_bytes(slots.on_a_host, slots.heap_bytes),
            headroom_fraction=self._headroom_fraction,
            num_slots=num_slots or slots.total,
        )

    def _is_seen_here(self) -> bool:
        """Whether a task has this machine's memory, and no limit of its own."""
        if is_local_mode(str(self._context.master)):
            return True
        limit = self._context.getConf().get("spark.executor.pyspark.memory")
        return limit is None and is_on_this_host(self._context)

    def _slot_bytes(self, on_a_host: int, heap_bytes: int) -> int:
        assert self._memory is not None  # it was measured  # noqa: S101
        seen = self._memory
        if seen.accelerator_bytes is not None:
            return int(seen.accelerator_bytes * min(1.0, gpus_held(self._profile)))
        left = max(seen.machine_bytes - heap_bytes, int(seen.machine_bytes * _LEAST_FRACTION))
        return min(left // on_a_host, seen.process_bytes or left)


def task_memory(_: object) -> Memory:
    """What this task sees, its accelerator too."""
    xp = array_module()
    return seen_memory(xp.cuda.Device() if hasattr(xp, "cuda") else None)


def seen_memory(device: Any) -> Memory:
    """What this process sees, with a device of cupy or without."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return Memory(
        accelerator_bytes=None if device is None else int(device.mem_info[1]),
        machine_bytes=min(physical, cgroup_bytes() or physical),
        process_bytes=None if limit == resource.RLIM_INFINITY else limit,
    )


def cgroup_bytes(
    root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> int | None:
    """The lowest memory limit of this process's control group and those above; None for none.

    Args:
        root: where the groups are mounted.
        own: the file that names this process's groups.
    """
    found: list[int] = []
    lines = own.read_text().splitlines() if own.exists() else []
    for _, kinds, path in (line.split(":", 2) for line in lines):
        if kinds and "memory" not in kinds.split(","):
            continue
        mount, name = (root / "memory", "memory.limit_in_bytes") if kinds else (root, "memory.max")
        group = mount / path.lstrip("/")
        for folder in (group, *group.parents):
            file = folder / name
            text = file.read_text().strip() if file.is_file() else ""
            found += [int(text)] if text.isdecimal() else []
            if folder == mount:
                break
    return min(found, default=None)
