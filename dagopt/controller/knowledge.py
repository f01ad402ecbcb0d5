"""What is known of stages that ran before: in this application, or in the profile given to it."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from dagopt.controller.tracker import TaskMeasure
from dagopt.model.stage_profile import StageProfiles
from dagopt.model.wire import TaskEnded

MAX_STAGES = 4096
"""Stages remembered of one application; the least recently seen goes first."""

_NEW_WEIGHT = 0.5


@dataclass(slots=True, kw_only=True)
class Measured:
    """Sums over tasks of a stage that ended well."""

    num_tasks: int = 0
    io_s: float = 0.0
    cpu_s: float = 0.0
    lead_s: float = 0.0
    read_bytes: float = 0.0
    spilled_bytes: float = 0.0
    peak_memory_bytes: int = 0

    def add(self, event: TaskEnded, task: TaskMeasure) -> None:
        """One more task, with what its reading and computing took on their own."""
        self.num_tasks += 1
        self.io_s += task.io_s
        self.cpu_s += task.cpu_s
        self.lead_s += task.lead_s
        self.read_bytes += event.read_bytes
        self.spilled_bytes += event.spilled_bytes
        self.peak_memory_bytes = max(self.peak_memory_bytes, event.peak_memory_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCost:
    """Mean cost of a task of one stage."""

    cpu_s: float
    """Seconds that a task computes on a core of its own."""
    read_bytes: float
    """Bytes that a task reads."""
    io_s: float | None
    """Seconds that it reads, where that was measured and bytes do not tell (blocks of files)."""
    lead_s: float
    """Seconds between its launch and its last byte in which it does not wait for the network."""
    memory_bound_from: int | None
    """Tasks per core at which it spilled, the fewest seen."""
    origin: str
    """``this application`` or ``profile``."""

    def cpu_of(self, read_bytes: float) -> float:
        """Seconds that a task computes if it reads ``read_bytes``: proportional to them."""
        if self.read_bytes <= 0 or read_bytes <= 0:
            return self.cpu_s
        return self.cpu_s * read_bytes / self.read_bytes


class Knowledge:
    """Stage costs by signature."""

    def __init__(self, profiles: StageProfiles | None = None) -> None:
        """Start from the profile of earlier applications, if there is one."""
        self._profiles = profiles
        self._seen: OrderedDict[str, StageCost] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def find(self, signature: str) -> StageCost | None:
        """What is known of the stage, this application first."""
        seen = self._seen.get(signature)
        if seen is not None:
            self._seen.move_to_end(signature)
            return seen
        profile = self._profiles.find(signature) if self._profiles is not None else None
        if profile is None:
            return None
        return StageCost(
            cpu_s=profile.cpu_s_per_task,
            read_bytes=profile.read_bytes_per_task,
            io_s=None,
            lead_s=0.0,
            memory_bound_from=1 if profile.spilled_bytes_per_task > 0 else None,
            origin="profile",
        )

    def learn(
        self, signature: str, measured: Measured, *, tasks_per_core: int, reads_blocks: bool
    ) -> None:
        """Take in the tasks of one run that ended well; nothing if there are none."""
        count = measured.num_tasks
        if count == 0:
            return
        old = self._seen.get(signature)
        spilled_from = old.memory_bound_from if old is not None else None
        if measured.spilled_bytes > 0:
            spilled_from = min(spilled_from or tasks_per_core, tasks_per_core)
        new = StageCost(
            cpu_s=measured.cpu_s / count,
            read_bytes=measured.read_bytes / count,
            io_s=measured.io_s / count if reads_blocks else None,
            lead_s=measured.lead_s / count,
            memory_bound_from=spilled_from,
            origin="this application",
        )
        if old is not None:
            new = StageCost(
                cpu_s=_mean(old.cpu_s, new.cpu_s),
                read_bytes=_mean(old.read_bytes, new.read_bytes),
                io_s=new.io_s
                if old.io_s is None or new.io_s is None
                else _mean(old.io_s, new.io_s),
                lead_s=_mean(old.lead_s, new.lead_s),
                memory_bound_from=spilled_from,
                origin=new.origin,
            )
        self._seen[signature] = new
        self._seen.move_to_end(signature)
        while len(self._seen) > MAX_STAGES:
            self._seen.popitem(last=False)


def _mean(old: float, new: float) -> float:
    return (1 - _NEW_WEIGHT) * old + _NEW_WEIGHT * new
