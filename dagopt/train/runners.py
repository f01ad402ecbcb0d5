"""What runs each job of a scheduler: a worker for tasks of a training, a thread for a sweep."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dagopt.errors import InputError
from dagopt.spark.phases import context_of, dumps
from dagopt.train.board import Board, Launch
from dagopt.train.job import TrainJob
from dagopt.train.kept import Found, Kept, pickled_sweep
from dagopt.train.phases import Phase, Phases, training_works
from dagopt.train.sweep import SweepJob
from dagopt.train.sweeps import Sweep
from dagopt.train.worker import Worker, packed, stop_name

logger = logging.getLogger(__name__)


class Begin(NamedTuple):
    """A job that is about to be the scheduler's."""

    job: TrainJob | SweepJob
    pickled: bytes
    go: Callable[[], None]


class Runners:
    """Of all jobs; methods are called one at a time, but :meth:`prepare`.

    Args:
        spark: the session.
        name: of the scheduler.
        profile: of tasks.
        kept: the scheduler's files.
        board: its state.
        phases: what runs now.
        lock: of all three.
    """

    def __init__(
        self,
        spark: Any,
        name: str,
        profile: Any,
        kept: Kept,
        board: Board,
        phases: Phases,
        lock: threading.Condition,
    ) -> None:
        self.sweeps: dict[str, Sweep] = {}
        self._workers: dict[str, Worker] = {}
        self._spark, self._name, self._profile = spark, name, profile
        self._kept, self._board, self._phases, self._lock = kept, board, phases, lock

    def prepare(self, job: TrainJob | SweepJob, pickled: bytes = b"") -> Begin:
        """Find out whatever may be wrong with a job.

        Raises:
            InputError: something is.
        """
        path = self._kept.path_of(job.name)
        if isinstance(job, SweepJob):
            tuner = job.tuner(self._spark, path, self._profile)
            sweep = Sweep(job, tuner, self._kept, self._board, self._phases, self._lock)
            if not pickled and self._kept.is_lasting:
                pickled = pickled_sweep(job)
            return Begin(job, pickled, lambda: self.sweeps.update({job.name: sweep}))
        try:
            pickled = pickled or dumps(job)
        except Exception as error:
            raise InputError(f"job {job.name} cannot be pickled: {error}") from error

        def go() -> None:
            content = packed(job, path, pickled)
            self._workers[job.name] = Worker(broadcast=context_of(self._spark).broadcast(content))

        return Begin(job, pickled, go)

    def submit(self, begins: Sequence[Begin]) -> None:
        """Begin jobs, all or none."""
        self._board.check([one.job for one in begins])
        try:
            for one in begins:
                self._kept.begin(one.job, one.pickled)
                one.go()
        except BaseException:
            for one in begins:
                self._kept.undo(one.job.name)
                self.sweeps.pop(one.job.name, None)
                self._workers.pop(one.job.name, None)
            raise
        for one in begins:
            self._board.submit(one.job, time.monotonic())
        for one in begins:
            if one.job.name in self.sweeps:
                self.sweeps[one.job.name].start()

    def resume(self) -> None:
        """Go on with what schedulers left that are dead."""
        for found in self._kept.resumed():
            self._go_on(found)

    def launch(self, launch: Launch) -> None:
        """Begin a phase."""
        name = launch.job.name
        if name in self.sweeps:
            self.sweeps[name].give(launch)
        else:
            works, told = training_works(launch, self._name)
            self._phases.launch(launch, self._workers[name], works, told)

    def ask(self, name: str) -> None:
        """Ask a training for its boundary; if that fails, it comes by itself, only later."""
        number = self._phases.running[name].launch.number
        with contextlib.suppress(OSError):
            self._kept.store(name).write(stop_name(number, self._name), b"")

    def take(self, phase: Phase) -> None:
        """A phase has ended."""
        name, now_s = phase.launch.job.name, time.monotonic()
        if name in self.sweeps:
            self.sweeps[name].ended(phase)
            return
        if phase.outcomes:
            self._board.reached(name, phase.outcomes, now_s)
        else:
            self._board.lost(name, phase.why, now_s, is_taken=phase.is_taken)
        why = self._kept.boundary(name, self._board.record(name))
        if why:
            self._board.end(name, "failed", why, now_s)
        self.settle(name)

    def settle(self, name: str) -> None:
        """Delete the files of a training that failed or was cancelled; a sweep does it itself."""
        record = self._board.record(name)
        is_lost = record.is_over and record.status != "done"
        if is_lost and not record.slots and name not in self.sweeps:
            self._kept.end(name, [record.state])

    def finish(self) -> None:
        """The scheduler ends: of jobs that are done their states stay."""
        for name in self._board.records:
            self.settle(name)
        self._kept.finish(
            {
                name: None if name in self.sweeps else [record.state]
                for name, record in self._board.records.items()
                if record.status == "done"
            }
        )

    # Private methods

    def _go_on(self, found: Found) -> None:
        job = found.job
        if found.past.is_done(job):
            self._board.submit(job, time.monotonic(), found.past)
            return
        try:
            self.prepare(job, found.pickled).go()
        except InputError as error:
            logger.warning("dagopt: job %s is not resumed: %s", job.name, error)
            self._kept.forget(job.name)
            return
        self._board.submit(job, time.monotonic(), found.past)
        logger.info("dagopt: job %s resumed from iteration %d", job.name, found.past.done)
        if job.name in self.sweeps:
            self.sweeps[job.name].start()
