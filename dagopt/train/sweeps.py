"""A sweep that runs under a scheduler: its tuner has a thread, and asks for accelerators for each phase."""

from __future__ import annotations

import contextlib
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from dagopt.errors import DagoptError
from dagopt.spark.barrier import start_thread
from dagopt.train.board import Board, Launch
from dagopt.train.kept import Kept
from dagopt.train.phases import ENDED, Phase, Phases
from dagopt.train.records import Report, Status
from dagopt.train.sweep import SlotOutcome, SlotWorker, SweepJob, spread, sweep_report
from dagopt.tune import SweepResult, Tuner
from dagopt.tune.checkpoint import Store
from dagopt.tune.frame_data import FOLDER
from dagopt.tune.phase import GroupWork
from dagopt.tune.places import Given, Outcomes, Progress


class SweepOver(Exception):  # noqa: N818  no error: it ends the tuner of a job that is over
    """The job was cancelled, has failed, or its scheduler has stopped."""


class Sweep:
    """The places of one sweep, and its thread.

    What the tuner's thread calls waits for the scheduler's; what the scheduler calls holds its lock.

    Args:
        job: the sweep.
        tuner: what runs it.
        kept: the scheduler's files.
        board: the scheduler's.
        phases: likewise.
        lock: of both; told of whatever happens.
        clock: seconds that never fall.
    """

    def __init__(
        self,
        job: SweepJob,
        tuner: Tuner,
        kept: Kept,
        board: Board,
        phases: Phases,
        lock: threading.Condition,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.result: SweepResult | None = None
        self._job, self._tuner, self._kept = job, tuner, kept
        self._board, self._phases, self._lock, self._clock = board, phases, lock, clock
        self._launch: Launch | None = None
        self._ended: Phase | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._is_left = False

    # For the scheduler

    def start(self) -> None:
        """Begin."""
        self._thread = start_thread(self._run, f"dagopt-sweep-{self._job.name}")

    def give(self, launch: Launch) -> None:
        """The accelerators of a phase, which the tuner plans now."""
        self._launch = launch

    def ended(self, phase: Phase) -> None:
        """A phase of the sweep is over, and its tasks are dead."""
        self._ended = phase

    def close(self, *, is_left: bool) -> None:
        """No phase will end any more; somebody else may go on with the sweep if it is left."""
        self._is_closed, self._is_left = True, is_left

    def join(self, timeout_s: float) -> None:
        """Wait for the thread of a job that is over; the lock must be free."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    # For the tuner: see :class:`dagopt.tune.places.Places`

    def take(self) -> Given:
        """Wait for accelerators."""
        with self._lock:
            self._check()
            self._board.ask(self._job.name)
            while self._launch is None:
                self._lock.wait()
                self._check()
            return Given(num_slots=len(self._launch.slots), longest_s=self._launch.phase_s)

    def call(self, function: Callable[[Any], Any], told: str) -> Any:
        """A task on the first accelerator of a phase that is for this alone."""
        while True:
            num_slots = self.take().num_slots or 1
            shares: list[list[int]] = [[0], *([] for _ in range(num_slots - 1))]
            found = self._phase(function, [None], shares, told, 0.0, _nothing)
            if found is not None:
                return found[0]

    def run(
        self, worker: Any, works: Sequence[GroupWork], costs_s: Sequence[float], told: str
    ) -> Outcomes | None:
        """The groups in one task an accelerator."""
        assert self._launch is not None  # it was taken  # noqa: S101
        slots = self._launch.slots
        shares = spread(costs_s, len(slots))
        # Of groups to be watched nothing is known; their costs are no seconds.
        is_known = not any(work.watch for work in works)
        expected_s = max(sum(costs_s[at] for at in share) for share in shares) if is_known else 0.0

        def report(found: Outcomes, addresses: tuple[str, ...]) -> Report:
            return sweep_report(works, found, shares, slots, addresses)

        return self._phase(worker, works, shares, told, expected_s, report)

    def boundary(self, progress: Progress) -> None:
        """What is left of the sweep."""
        with self._lock:
            self._check()
            name = self._job.name
            self._board.progress(name, self._job.load_at(progress), progress.loss)
            why = self._kept.boundary(name, self._board.record(name))
            if why:
                self._board.end(name, "failed", why, self._clock())

    def may_resume(self) -> bool:
        """Whether that is because the scheduler has failed, or Spark's JVM is gone."""
        return self._kept.is_lasting and (
            self._is_left or self._phases.has_application_ended() is not False
        )

    # Private methods

    def _phase(
        self,
        function: Callable[[Any], Any],
        works: Sequence[Any],
        shares: Sequence[Sequence[int]],
        told: str,
        expected_s: float,
        report: Callable[[list[Any], tuple[str, ...]], Report],
    ) -> list[Any] | None:
        """Run works on what was taken, and give that back; None where the phase was lost."""
        name = self._job.name
        with self._lock:
            launch, self._launch, self._ended = self._launch, None, None
            assert launch is not None  # it was taken  # noqa: S101
            self._check()
            self._board.expect(name, expected_s)
            payloads = [[works[at] for at in share] for share in shares]
            self._phases.launch(launch, SlotWorker(function=function), payloads, f"{told}, {name}")
            phase = self._await()
            if not phase.outcomes:
                self._board.lost(name, phase.why, self._clock(), is_taken=phase.is_taken)
                self._check()
                return None
            slots: list[SlotOutcome] = phase.outcomes
            found: dict[int, Any] = {}
            for share, slot in zip(shares, slots, strict=True):
                found.update(zip(share, slot.found, strict=True))
            ordered = [found[at] for at in range(len(works))]
            addresses = tuple(slot.address for slot in slots)
            self._board.came(name, report(ordered, addresses), self._clock())
            self._check()
            return ordered

    def _await(self) -> Phase:
        while self._ended is None:
            if self._is_closed:
                raise SweepOver
            self._lock.wait()
        return self._ended

    def _check(self) -> None:
        if self._board.record(self._job.name).is_over:
            raise SweepOver

    def _run(self) -> None:
        status: Status = "done"
        error, is_left = "", False
        path = self._kept.path_of(self._job.name)
        try:
            result = self._tuner.run_on(self, path)
            with self._lock:
                self.result = result
        except SweepOver:
            status, is_left = "cancelled", self._is_left
        except DagoptError as failure:
            status, error, is_left = "failed", str(failure), self._is_left
        except BaseException:  # noqa: BLE001  the user's code may raise anything
            status, is_left = "failed", self.may_resume()
            has_ended = self._phases.has_application_ended()
            error = ENDED if has_ended else traceback.format_exc()
        if status == "done":
            # What is left then are the boundaries, and the state of the best trial.
            with contextlib.suppress(OSError, DagoptError):
                Store(path).keep(FOLDER, [])
        with self._lock:
            name = self._job.name
            self._board.end(name, status, error, self._clock())
            if not is_left and status != "done":
                self._kept.end(name, (), clears=True)
            self._lock.notify_all()


def _nothing(_: list[Any], addresses: tuple[str, ...]) -> Report:
    """Of a phase without iterations."""
    now_s = time.time()
    return Report(addresses=addresses, num_iterations=0, start_s=now_s, end_s=now_s, work_s=0.0)
