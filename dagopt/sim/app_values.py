"""An application to simulate, and what comes out: stages, their tasks, executors, and when each ran."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AppTask:
    """A task attempt to simulate."""

    io_s: float
    """Seconds of reading, alone on the link of its host."""
    cpu_s: float
    """Seconds on a core of its own."""
    launch_s: float = 0.0
    """Seconds in its slot before both, in which it uses neither: launching it, and telling of its end."""
    read_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AppStage:
    """A stage attempt to simulate."""

    stage: int
    attempt: int
    tasks: Sequence[AppTask]
    after: tuple[int, ...] = ()
    """Places of the stages that end before it starts."""
    delay_s: float = 0.0
    """Seconds in the driver between that, or the begin, and its submission."""
    tail_s: float = 0.0
    """Seconds between the end of its last task and its own."""
    task_cpus: float = 1.0
    task_gpus: float = 0.0
    """GPUs that one of its tasks holds, which more slots per core do not make more."""
    name: str = ""
    scopes: tuple[str, ...] = ()
    plan: str = ""
    source_bytes: tuple[tuple[str, int], ...] = ()
    """Hosts that it reads map output from, and how much in all; empty: blocks of a store."""
    is_told: bool = True
    """Whether the gate tells the controller of it."""
    can_raise: bool = True
    """Whether more of its tasks than cores may run at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppExecutor:
    """An executor to simulate; all executors of a host share one link."""

    executor: str
    host: str
    cores: float
    gpus: float = 0.0
    added_s: float = 0.0
    removed_s: float = math.inf
    """When it takes no more tasks; those that run on it end there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppTaskRun:
    """When and where one task ran, in seconds."""

    stage: int
    """Place of its stage."""
    task: int
    executor: int
    """Place of its executor."""
    start_s: float
    read_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AppRun:
    """A simulated run."""

    tasks: tuple[AppTaskRun, ...]
    """In the order of their ends."""
    start_s: tuple[float, ...]
    """``(S,)`` submission of each stage."""
    end_s: tuple[float, ...]
    """``(S,)`` completion of each stage."""

    @property
    def elapsed_s(self) -> float:
        """From time 0 to the end of the last stage."""
        return max(self.end_s, default=0.0)
