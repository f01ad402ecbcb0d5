"""The phases that run: launched as barrier stages, looked at, and stopped until their tasks are dead."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dagopt.spark.barrier import (
    BarrierFunction,
    StageTasks,
    cancel,
    cause,
    has_ended,
    run_barrier,
    start_thread,
    tasks_of,
)
from dagopt.train.board import Launch
from dagopt.train.worker import PhaseWork

logger = logging.getLogger(__name__)

_LOOK_S = 0.2
"""Seconds between looks of a phase whether its boundary is asked for."""

_SETTLE_S = 1.0
"""Seconds in which Spark writes down a stage that it began."""

ENDED = "the application has ended"

_DEAD_S = 30.0
"""Seconds after which an accelerator counts as free, whatever its task does."""


@dataclass(slots=True)
class Phase:
    """A phase that runs, or whose tasks may."""

    launch: Launch
    group: str
    why: str = ""
    """Why it was stopped, or how it failed."""
    is_taken: bool = False
    """Whether that was because its accelerators were not free."""
    outcomes: list[Any] = field(default_factory=list)
    has_ended: bool = False
    """Whether Spark has answered."""
    stopped_s: float | None = None
    """Since when it should be dead."""


def training_works(launch: Launch, scheduler: str) -> tuple[list[PhaseWork], str]:
    """What the ranks of a training get, and what Spark's user interface says of it."""
    works = [
        PhaseWork(
            rank=rank,
            size=len(launch.slots),
            number=launch.number,
            first=launch.first,
            phase_s=launch.phase_s,
            look_s=min(_LOOK_S, launch.phase_s),
            state=launch.state,
            scheduler=scheduler,
        )
        for rank in range(len(launch.slots))
    ]
    name, first = launch.job.name, launch.first
    return works, f"training {name}, from iteration {first} on {len(works)} accelerators"


class Phases:
    """All phases of a scheduler, by the names of their jobs; methods are called one at a time.

    Args:
        context: the SparkContext.
        profile: of their tasks.
        clock: seconds that never fall.
    """

    def __init__(
        self, context: Any, profile: Any, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.running: dict[str, Phase] = {}
        self._context, self._profile, self._clock = context, profile, clock
        self._ended: queue.SimpleQueue[Phase] = queue.SimpleQueue()
        # Names in an application repeat from one scheduler to the next.
        self._name = uuid.uuid4().hex
        self._news = threading.Event()
        self._left: list[Phase] = []
        """Phases that were given up before Spark answered: their stages may come yet."""

    def launch(
        self, launch: Launch, worker: BarrierFunction, works: Sequence[Any], told: str
    ) -> None:
        """Begin a phase, in a thread of its own.

        Args:
            launch: the phase.
            worker: called in the task of each slot.
            works: what it is called with, by slot.
            told: what Spark's user interface says of it.
        """
        name = launch.job.name
        phase = Phase(launch, f"dagopt-train-{name}-{launch.number}-{self._name}")
        self.running[name] = phase
        start_thread(partial(self._run, phase, worker, works, told), phase.group)

    def stop(self, name: str, why: str, *, is_taken: bool = False) -> None:
        """Stop a job's phase, if one runs; the first reason counts."""
        phase = self.running.get(name)
        if phase is None:
            return
        if not phase.why:
            phase.why, phase.is_taken = why, is_taken
        if phase.stopped_s is None:
            phase.stopped_s = self._clock()
        self._cancel(phase)

    def watch(self, alive: Collection[str]) -> None:
        """Stop phases that cannot come to their boundary.

        Args:
            alive: the executors that are there.
        """
        for phase in self._left:
            self._cancel(phase)
        for name, phase in self.running.items():
            if phase.stopped_s is not None:
                # Its stage may not have been there when it was stopped.
                self._cancel(phase)
                continue
            wanted = sorted(slot.executor for slot in phase.launch.slots)
            gone = sorted(set(wanted) - set(alive))
            if gone:
                self.stop(name, f"executor {gone[0]} was lost")
                continue
            tasks = tasks_of(self._context, phase.group)
            if tasks is None:
                continue
            if tasks.attempt > 0:
                self.stop(name, f"a task was lost: {tasks.why}" if tasks.why else "a task was lost")
            elif len(tasks.executors) == len(wanted) and list(tasks.executors) != wanted:
                self.stop(name, "its accelerators were taken", is_taken=True)

    def ended(self, alive: Collection[str]) -> list[Phase]:
        """The phases that are over, and whose tasks are dead; they run no longer."""
        now_s = self._clock()
        with contextlib.suppress(queue.Empty):
            while True:
                phase = self._ended.get_nowait()
                phase.has_ended = True
                if phase.stopped_s is None:
                    phase.stopped_s = now_s
        self._left = [phase for phase in self._left if not phase.has_ended]
        found = [phase for phase in self.running.values() if self._is_dead(phase, alive, now_s)]
        for phase in found:
            del self.running[phase.launch.job.name]
            if not phase.has_ended:
                self._left.append(phase)
        return found

    def has_application_ended(self) -> bool | None:
        """Whether Spark was stopped, and no phase will come to its boundary; None if it does not answer."""
        return has_ended(self._context)

    def wait(self, timeout_s: float) -> None:
        """Wait until a phase ends."""
        self._news.wait(timeout_s)
        self._news.clear()

    # Private methods

    def _run(self, phase: Phase, worker: BarrierFunction, works: Sequence[Any], told: str) -> None:
        """Runs in a thread of its own."""
        slots = phase.launch.slots
        payloads = [(slot.executor, work) for slot, work in zip(slots, works, strict=True)]
        try:
            phase.outcomes = run_barrier(
                self._context, worker, payloads, self._profile, group=phase.group, told=told
            )
        except Exception as error:  # noqa: BLE001  Spark raises what py4j, or a task, did
            phase.why = phase.why or cause(str(error) or type(error).__name__)
        finally:
            self._ended.put(phase)
            self._news.set()

    def _cancel(self, phase: Phase) -> None:
        try:
            cancel(self._context, phase.group)
        except Exception as error:  # noqa: BLE001  py4j's own, and Java's where Spark has ended
            logger.debug("dagopt: %s cannot be cancelled: %s", phase.group, error)

    def _is_dead(self, phase: Phase, alive: Collection[str], now_s: float) -> bool:
        if phase.outcomes and phase.has_ended:
            return True
        if phase.stopped_s is None:
            return False
        waited_s = now_s - phase.stopped_s
        try:
            tasks = tasks_of(self._context, phase.group)
            is_dead = _are_dead(tasks, phase, alive, waited_s)
        except Exception:  # noqa: BLE001  as above
            is_dead = phase.has_ended
        if not is_dead and waited_s > _DEAD_S:
            logger.warning(
                "dagopt: tasks of %s run still, %g s after they were stopped; their accelerators"
                " count as free",
                phase.group,
                waited_s,
            )
            return True
        return is_dead


def _are_dead(
    tasks: StageTasks | None, phase: Phase, alive: Collection[str], waited_s: float
) -> bool:
    if tasks is None:
        # Where Spark looks for slots still, there is no stage: cancelled, it will have no tasks.
        return waited_s > _SETTLE_S
    return phase.has_ended and tasks.is_over and not set(tasks.running) & set(alive)
