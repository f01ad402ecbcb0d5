"""The driver's side: a thread that launches phases, watches them, and tells the board how they ended."""

from __future__ import annotations

import contextlib
import logging
import pickle
import queue
import re
import shutil
import tempfile
import threading
import time
import uuid
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any

from dagopt.errors import InfeasibleError, InputError
from dagopt.model.topology import ExecutorResources, Link, Topology
from dagopt.policy.training import Scheduler as TrainingPolicy
from dagopt.spark.barrier import (
    cancel,
    executors_of,
    num_expected,
    run_barrier,
    start_thread,
    tasks_of,
)
from dagopt.spark.phases import context_of, dumps, is_on_this_host
from dagopt.spark.profiles import gpu_profile
from dagopt.train.board import Board, Launch, Policy
from dagopt.train.collective import check_torch
from dagopt.train.job import TrainJob
from dagopt.train.records import JobStatus, Move, PhaseRun
from dagopt.train.spool import Spool
from dagopt.train.worker import PhaseOutcome, PhaseWork, Worker, stop_name
from dagopt.tune.checkpoint import STATES, Store

logger = logging.getLogger(__name__)

_POLL_S = 0.1
_WATCH_S = 0.5
"""Seconds between looks at executors and stages."""

_LOOK_S = 0.2
"""Seconds between looks of a phase whether its boundary is asked for."""

_START_S = 60.0
"""Seconds that executors have to come."""

_RAISED = re.compile(r"[A-Za-z_][\w.]*(Error|Exception): ")
"""A line by which a Python traceback ends, or Java's begins."""

LOCAL = Link(bandwidth_bytes_per_s=10e9, latency_s=10e-6, name="local")
NETWORK = Link(bandwidth_bytes_per_s=1e9, latency_s=50e-6, name="network")


@dataclass(slots=True)
class _Phase:
    """A phase that runs."""

    launch: Launch
    group: str
    why: str = ""
    """Why it was stopped."""
    outcomes: list[PhaseOutcome] = field(default_factory=list)


class Scheduler:
    """Training jobs that share the accelerators of an application.

    While it is there, the application's accelerators are its own. It is a context manager; leaving it
    stops what runs.

    Args:
        spark: the session.
        checkpoint: a folder that pyarrow.fs opens, the same for driver and executors. Default: one that
            lives as long as the scheduler, in local modes.
        spool: a folder by which ``dagopt train`` talks to it; made, for its owner only.
        interval_s: seconds between plans. A job that stays where it is writes its state every four.
        policy: what decides; default: :class:`dagopt.policy.training.Scheduler`.
        local: link between accelerators of a host, until sums were measured there.
        network: link between hosts, likewise.

    Raises:
        InputError: an argument is wrong, or torch is not installed.
        InfeasibleError: no executor has an accelerator.
    """

    def __init__(
        self,
        spark: Any,
        *,
        checkpoint: str | None = None,
        spool: str | None = None,
        interval_s: float = 30.0,
        policy: Policy | None = None,
        local: Link = LOCAL,
        network: Link = NETWORK,
    ) -> None:
        check_torch()
        if not 0 < interval_s < float("inf"):
            raise InputError(f"interval_s is {interval_s}, must be > 0")
        self._context = context_of(spark)
        if checkpoint is None and not is_on_this_host(self._context):
            raise InputError(
                "checkpoint is missing: expected a folder that driver and executors share, such as"
                " s3://bucket/training"
            )
        self._profile = gpu_profile()
        if self._profile is None:
            raise InfeasibleError(
                f"{self._context.master} has no stage-level scheduling; local-cluster[1,4,2048] has"
            )
        self._board = Board(policy or TrainingPolicy(), interval_s, local=local, network=network)
        self._board.set_executors(self._await_executors())
        self._spool = None if spool is None else Spool(spool)
        self._own = tempfile.mkdtemp(prefix="dagopt-train-") if checkpoint is None else None
        # Names in it repeat from one scheduler to the next.
        folder = f"{self._context.applicationId}-{uuid.uuid4().hex[:8]}"
        self._path = self._own or f"{str(checkpoint).rstrip('/')}/{folder}"
        self._stores: dict[str, Store] = {}
        self._workers: dict[str, Worker] = {}
        self._phases: dict[str, _Phase] = {}
        self._ended: queue.Queue[str] = queue.Queue()
        self._lock = threading.Condition()
        self._stops = False
        self._broken: BaseException | None = None
        self._watched_s = 0.0
        self._thread = start_thread(self._run, "dagopt-train")
        if self._spool is not None:
            self._spool.start(self)

    # For users

    def submit(self, *jobs: TrainJob) -> None:
        """Hand in jobs, all or none; each begins as soon as it gets accelerators.

        Raises:
            InputError: there is one of that name, or it cannot be pickled.
            InfeasibleError: it asks for more accelerators than there are.
        """
        stores = [Store(f"{self._path}/{job.name}") for job in jobs]
        contents = [_pickled(job, store) for job, store in zip(jobs, stores, strict=True)]
        with self._lock:
            self._board.check(jobs)
            workers = [Worker(broadcast=self._context.broadcast(one)) for one in contents]
            for job, store, worker in zip(jobs, stores, workers, strict=True):
                self._board.submit(job, time.monotonic())
                self._stores[job.name], self._workers[job.name] = store, worker

    def jobs(self) -> list[JobStatus]:
        """All jobs, in the order in which they came."""
        with self._lock:
            return self._board.jobs()

    def status(self, name: str) -> JobStatus:
        """One job.

        Raises:
            InputError: there is none of that name.
        """
        with self._lock:
            return self._board.record(name).shown()

    def logs(self, name: str) -> list[str]:
        """What a job printed, in the task of rank 0 up to its last boundary, and where it ran.

        Raises:
            InputError: there is none of that name.
        """
        with self._lock:
            return list(self._board.record(name).log)

    def cancel(self, name: str) -> None:
        """End a job now.

        Raises:
            InputError: there is none of that name.
        """
        with self._lock:
            self._board.cancel(name)
            self._stop_phase(name, "cancelled")
            self._lock.notify_all()

    def state(self, name: str) -> Any:
        """The training's state at a job's last boundary; None before the first.

        Raises:
            InputError: there is no job of that name.
        """
        with self._lock:
            file = self._board.record(name).state
        return pickle.loads(self._stores[name].read(file)) if file else None  # noqa: S301  ours

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until all jobs have ended; whether they have."""
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        with self._lock:
            while self._broken is None and any(
                not record.is_over or record.slots for record in self._board.records.values()
            ):
                left_s = _WATCH_S if until_s is None else min(_WATCH_S, until_s - time.monotonic())
                if left_s <= 0:
                    return False
                self._lock.wait(left_s)
        if self._broken is not None:
            raise RuntimeError("the scheduler has stopped") from self._broken
        return True

    @property
    def runs(self) -> list[PhaseRun]:
        """All phases that came to their boundary."""
        with self._lock:
            return list(self._board.runs)

    @property
    def moves(self) -> list[Move]:
        """All moves, with the time that each took."""
        with self._lock:
            return list(self._board.moves)

    @property
    def topology(self) -> Topology | None:
        """The accelerators that are there now, as executors show them; None without any."""
        with self._lock:
            return self._board.topology

    def serve(self) -> None:
        """Wait for jobs from the spool, until Ctrl-C."""
        while self._broken is None:
            self._thread.join(_WATCH_S)

    def stop(self) -> None:
        """Stop what runs."""
        self._close_spool()
        with self._lock:
            self._stops = True
            for name in list(self._phases):
                self._stop_phase(name, "the scheduler was stopped")
        self._thread.join()
        if self._own is not None:
            shutil.rmtree(self._own, ignore_errors=True)

    def __enter__(self) -> Scheduler:  # noqa: PYI034  Self is in Python 3.11 only
        """This scheduler, which runs already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # Private methods

    def _await_executors(self) -> list[ExecutorResources]:
        expected, until_s = num_expected(self._context), time.monotonic() + _START_S
        while True:
            found = executors_of(self._context)
            if len(found) >= expected or (time.monotonic() > until_s and found):
                return found
            if time.monotonic() > until_s:
                raise InfeasibleError(f"no executor with an accelerator within {_START_S:g} s")
            time.sleep(_POLL_S)

    def _run(self) -> None:
        try:
            while not (self._stops and not self._phases):
                try:
                    name = self._ended.get(timeout=_POLL_S)
                except queue.Empty:
                    name = ""
                with self._lock:
                    if name:
                        self._take(name)
                    self._watch()
                    if not self._stops:
                        self._launch()
                    self._lock.notify_all()
        except BaseException as error:
            logger.exception("dagopt: the scheduler of training jobs has stopped")
            self._broken = error
            self._close_spool()
            raise

    def _close_spool(self) -> None:
        if self._spool is not None:
            self._spool.close()

    def _launch(self) -> None:
        launches = self._board.launches(time.monotonic())
        for name in self._board.stops(time.monotonic()):
            # If that fails, the phase comes to its boundary by itself, only later.
            with contextlib.suppress(OSError):
                self._stores[name].write(stop_name(self._phases[name].launch.number), b"")
        for launch in launches:
            name = launch.job.name
            phase = _Phase(launch, f"dagopt-train-{name}-{launch.number}-{id(self):x}")
            self._phases[name] = phase
            start_thread(partial(self._phase, phase), phase.group)

    def _phase(self, phase: _Phase) -> None:
        """Runs in a thread of its own."""
        launch = phase.launch
        name = launch.job.name
        payloads = [
            (
                slot.executor,
                PhaseWork(
                    rank=rank,
                    size=len(launch.slots),
                    number=launch.number,
                    first=launch.first,
                    phase_s=launch.phase_s,
                    look_s=min(_LOOK_S, launch.phase_s),
                    state=launch.state,
                ),
            )
            for rank, slot in enumerate(launch.slots)
        ]
        told = f"training {name}, from iteration {launch.first} on {len(payloads)} accelerators"
        try:
            phase.outcomes = run_barrier(
                self._context,
                self._workers[name],
                payloads,
                self._profile,
                group=phase.group,
                told=told,
            )
        except Exception as error:  # noqa: BLE001  Spark raises what py4j, or a task, did
            phase.why = phase.why or _cause(error)
        finally:
            self._ended.put(name)

    def _take(self, name: str) -> None:
        phase, now_s = self._phases.pop(name), time.monotonic()
        if phase.outcomes:
            self._board.reached(name, phase.outcomes, now_s)
            record = self._board.record(name)
            # What cannot be deleted now is at the next boundary.
            with contextlib.suppress(OSError):
                self._stores[name].keep(STATES, [record.state] if record.state else [])
        else:
            self._board.lost(name, phase.why, now_s)

    def _stop_phase(self, name: str, why: str) -> None:
        phase = self._phases.get(name)
        if phase is not None:
            phase.why = phase.why or why
            cancel(self._context, phase.group)

    def _watch(self) -> None:
        """Stop phases that cannot, or do not, come to their boundary."""
        now_s = time.monotonic()
        if now_s - self._watched_s < _WATCH_S:
            return
        self._watched_s = now_s
        executors = executors_of(self._context)
        self._board.set_executors(executors)
        alive = {one.executor for one in executors}
        for name in self._board.overdue(now_s):
            self._stop_phase(name, "no boundary within its deadline")
        for name, phase in self._phases.items():
            if phase.why:
                # Its stage may not have been there when it was stopped.
                self._stop_phase(name, phase.why)
                continue
            wanted = sorted(slot.executor for slot in phase.launch.slots)
            gone = sorted(set(wanted) - alive)
            if gone:
                self._stop_phase(name, f"executor {gone[0]} was lost")
                continue
            tasks = tasks_of(self._context, phase.group)
            if tasks is None:
                continue
            if tasks.attempt > 0:
                self._stop_phase(name, "a task was lost")
            elif len(tasks.executors) == len(wanted) and list(tasks.executors) != wanted:
                self._stop_phase(name, "its accelerators were taken")


def _pickled(job: TrainJob, store: Store) -> bytes:
    try:
        return dumps((job, store.path))
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise InputError(f"job {job.name} cannot be pickled: {error}") from error


def _cause(error: Exception) -> str:
    """The line of Spark's error that says most: what Python raised in the task, or the first one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if _RAISED.match(line) and not line.endswith("call last):")]
    told = [line for line in told if not line.startswith(("org.", "java."))] or told
    # py4j's own first line only says which method was called.
    return (told or lines[1:] or lines or [type(error).__name__])[0].lstrip(": ")
