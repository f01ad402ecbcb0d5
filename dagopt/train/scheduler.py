"""The driver's side: a thread that launches phases, watches them, and tells the board how they ended."""

from __future__ import annotations

import logging
import pickle
import shutil
import tempfile
import threading
import time
import uuid
from types import TracebackType
from typing import Any

from dagopt.cost.accelerator_metrics import AcceleratorMetrics
from dagopt.errors import InfeasibleError, InputError
from dagopt.model.topology import ExecutorResources, Link, Topology
from dagopt.policy.training import Scheduler as TrainingPolicy
from dagopt.spark.barrier import executors_of, num_expected, start_thread
from dagopt.spark.concurrency import allocates_by_demand
from dagopt.spark.phases import context_of, is_on_this_host
from dagopt.spark.profiles import gpu_profile
from dagopt.train.arguments import check_arguments, check_jobs
from dagopt.train.board import Board
from dagopt.train.cluster import Links
from dagopt.train.collective import check_installed
from dagopt.train.job import TrainJob
from dagopt.train.kept import Kept
from dagopt.train.phases import ENDED, Phases
from dagopt.train.records import JobStatus, Move, PhaseRun, Status, Stay
from dagopt.train.runners import Runners
from dagopt.train.spool import Spool
from dagopt.train.sweep import SweepJob
from dagopt.train.targets import Policy
from dagopt.tune import SweepResult

logger = logging.getLogger(__name__)

_POLL_S = 0.1
_WATCH_S = 0.5
"""Seconds between looks at executors and stages."""

_MOST_FAILURES = 20
"""Looks in a row that may fail before the scheduler gives up."""

_START_S = 60.0
"""Seconds that executors have to come."""

_STOPPED = "the scheduler was stopped"
_LEFT = "the scheduler was stopped, and the job left to be resumed"

LOCAL = Link(bandwidth_bytes_per_s=10e9, latency_s=10e-6, name="local")
NETWORK = Link(bandwidth_bytes_per_s=1e9, latency_s=50e-6, name="network")


class Scheduler:
    """Training jobs that share the accelerators of an application.

    While it is there, the application's accelerators are its own. It is a context manager; leaving it
    stops what runs.

    Args:
        spark: the session.
        checkpoint: a folder that pyarrow.fs opens, the same for driver and executors; several schedulers
            may have it. Default: one that lives as long as the scheduler, in local modes.
        resume: go on with jobs in ``checkpoint`` whose driver was killed, each from its last boundary. Jobs
            of a scheduler that runs are left to it; to see that takes 15 s, where there are such jobs.
        spool: a folder by which ``dagopt train`` talks to it; made, for its owner only.
        interval_s: seconds between plans. A job that stays where it is writes its state every four.
        policy: what decides; default: :class:`dagopt.policy.training.Scheduler`.
        local: link between accelerators of a host, until sums were measured there.
        network: link between hosts, likewise.
        topology: the links of each accelerator instead, such as :func:`dagopt.app.topology.read_topology`
            gives; hosts and addresses as Spark names them.

    Raises:
        InputError: an argument is wrong, torch or scipy is not installed, or Spark changes the number of
            executors by demand.
        InfeasibleError: no executor has an accelerator.
    """

    def __init__(
        self,
        spark: Any,
        *,
        checkpoint: str | None = None,
        resume: bool = False,
        spool: str | None = None,
        interval_s: float = 30.0,
        policy: Policy | None = None,
        local: Link = LOCAL,
        network: Link = NETWORK,
        topology: Topology | None = None,
    ) -> None:
        check_installed()
        links = {"local": local, "network": network, "topology": topology}
        check_arguments(interval_s, policy, {"checkpoint": checkpoint, "spool": spool, **links})
        self._spark, self._context = spark, context_of(spark)
        if allocates_by_demand(self._context.getConf()):
            raise InputError(
                "spark.dynamicAllocation.enabled is true, must be false: Spark has no barrier stages"
                " with it"
            )
        if checkpoint is None and resume:
            raise InputError("checkpoint is missing: expected the folder of the jobs to resume")
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
        self._board = Board(
            policy or TrainingPolicy(),
            interval_s,
            Links(local=local, network=network, topology=topology),
        )
        executors = self._await_executors()
        self._board.set_executors(executors)
        self._own = tempfile.mkdtemp(prefix="dagopt-train-") if checkpoint is None else None
        # Names of jobs repeat from one scheduler to the next.
        name = f"{self._context.applicationId}-{uuid.uuid4().hex[:8]}"
        path = self._own or str(checkpoint)
        self._kept = Kept(path, name, is_lasting=checkpoint is not None)
        self._phases = Phases(self._context, self._profile)
        self._alive = {one.executor for one in executors}
        self._lock = threading.Condition()
        self._runners = Runners(
            spark, name, self._profile, self._kept, self._board, self._phases, self._lock
        )
        self._stops = self._leaves = False
        self._broken: BaseException | None = None
        self._watched_s = 0.0
        self._num_failures = 0
        self._spool: Spool | None = None
        try:
            self._spool = None if spool is None else Spool(spool)
            if resume:
                with self._lock:
                    self._runners.resume()
        except BaseException as error:
            self._broken = error
            self._kept.leave()
            with self._lock:  # sweeps that go on already
                self._close_board("failed", "the scheduler did not start")
            self._close_spool()
            self._remove_own()
            raise
        self._thread = start_thread(self._run, "dagopt-train")
        if self._spool is not None:
            self._spool.start(self)

    # For users

    def submit(self, *jobs: TrainJob | SweepJob) -> None:
        """Hand in jobs, all or none; each begins as soon as it gets accelerators.

        Raises:
            InputError: it is no job, there is one of that name, it cannot be pickled, or ``checkpoint`` not be written.
            InfeasibleError: it asks for more accelerators than there are.
            RuntimeError: the scheduler has stopped.
        """
        self._check_runs()
        check_jobs(jobs)
        begins = [self._runners.prepare(job) for job in jobs]
        with self._lock:
            self._check_runs()
            self._runners.submit(begins)

    def sweep_result(self, name: str) -> SweepResult | None:
        """What a sweep found, as ``Tuner.run`` gives it; None unless it is done.

        Raises:
            InputError: there is no sweep of that name.
        """
        with self._lock:
            self._board.record(name)
            if name not in self._runners.sweeps:
                raise InputError(f"job {name} is no sweep")
            return self._runners.sweeps[name].result

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

    def cancel(self, name: str) -> bool:
        """End a job now; False if it was over already.

        Raises:
            InputError: there is none of that name.
        """
        with self._lock:
            if self._board.record(name).is_over:
                return False
            self._board.cancel(name)
            self._phases.stop(name, "cancelled")
            self._kept.close(name)
            self._runners.settle(name)
            self._lock.notify_all()
            return True

    def state(self, name: str) -> Any:
        """The training's state at a job's last boundary; None before the first, and of a sweep.

        Raises:
            InputError: there is no job of that name, or its files were deleted.
        """
        content = self._content(name)
        if content is None:  # a boundary has replaced it meanwhile
            content = self._content(name)
        if content is None:
            raise InputError(f"job {name}: its state is not in checkpoint any longer")
        return pickle.loads(content) if content else None  # noqa: S301  ours

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until all jobs have ended; whether they have.

        Raises:
            RuntimeError: the scheduler has stopped by itself.
        """
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        with self._lock:
            while self._broken is None and any(
                not record.is_over or record.slots for record in self._board.records.values()
            ):
                left_s = _WATCH_S if until_s is None else min(_WATCH_S, until_s - time.monotonic())
                if left_s <= 0:
                    return False
                self._lock.wait(left_s)
        self._check_whole()
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
    def stays(self) -> list[Stay]:
        """All phases, with the time for which each had its accelerators; lost ones too."""
        with self._lock:
            return list(self._board.stays)

    @property
    def topology(self) -> Topology | None:
        """The accelerators that are there now, as executors show them; None without any."""
        with self._lock:
            return self._board.cluster.topology

    def metrics(self, name: str) -> AcceleratorMetrics:
        """What each accelerator that a training ran on measured in its last iterations there.

        Raises:
            InputError: there is no job of that name.
        """
        with self._lock:
            return self._board.record(name).metrics

    def serve(self) -> None:
        """Wait for jobs from the spool, until Ctrl-C.

        Raises:
            RuntimeError: the scheduler has stopped by itself.
        """
        while self._thread.is_alive():
            self._thread.join(_WATCH_S)
        self._check_whole()

    def stop(self, *, resumable: bool = False) -> None:
        """Stop what runs; jobs that are not over count as cancelled, unless the application ended first.

        Args:
            resumable: leave them in ``checkpoint`` for a scheduler that resumes them; so does an exception
                that leaves the scheduler's ``with``.
        """
        self._close_spool()
        while self._thread.is_alive():
            with self._lock:
                # Where Spark has ended, or does not answer, the thread finds out itself: jobs are left.
                if self._stops or self._phases.has_application_ended() is False:
                    self._stops = True
                    self._leaves = resumable and self._kept.is_lasting
                    self._stop_phases(_STOPPED)
            self._thread.join(_WATCH_S)
        with self._lock:
            self._close_board("cancelled", _LEFT if self._leaves else _STOPPED)
        for sweep in self._runners.sweeps.values():
            sweep.join(_START_S)
        with self._lock:
            if self._leaves:
                self._kept.leave()
            self._runners.finish()
        self._remove_own()

    def __enter__(self) -> Scheduler:  # noqa: PYI034  Self is in Python 3.11 only
        """This scheduler, which runs already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop(resumable=kind is not None)

    # Private methods

    def _await_executors(self) -> list[ExecutorResources]:
        expected, until_s = num_expected(self._context), time.monotonic() + _START_S
        while True:
            found = executors_of(self._context, self._profile)
            if len(found) >= expected or (time.monotonic() > until_s and found):
                return found
            if time.monotonic() > until_s:
                raise InfeasibleError(f"no executor with an accelerator within {_START_S:g} s")
            time.sleep(_POLL_S)

    def _run(self) -> None:
        try:
            while not (self._stops and not self._phases.running):
                with self._lock:
                    self._step()
                    self._lock.notify_all()
                self._phases.wait(_POLL_S)
        except BaseException as error:
            why = f"the scheduler has stopped: {error!r}"
            if self._phases.has_application_ended():
                error, why = RuntimeError(ENDED), ENDED
                logger.warning("dagopt: %s before the scheduler of its training jobs", ENDED)
            else:
                logger.exception("dagopt: the scheduler of training jobs has stopped")
            with self._lock:
                self._broken = error
                self._stop_phases("the scheduler has stopped")
                self._close_board("failed", why)
                self._kept.leave()
            self._close_spool()

    def _step(self) -> None:
        phases = self._phases.ended(self._alive)
        has_ended = not self._stops and self._phases.has_application_ended()
        for phase in phases:
            if phase.outcomes or not has_ended:
                self._runners.take(phase)
            if not phase.outcomes:  # perhaps its executor went
                self._watched_s = float("-inf")
        if has_ended:
            raise RuntimeError(ENDED)
        try:
            self._watch()
        except Exception:
            self._num_failures += 1
            if self._num_failures >= _MOST_FAILURES and not self._stops:
                raise
            logger.warning("dagopt: executors and phases cannot be looked at", exc_info=True)
            return
        if not self._stops:
            self._launch()

    def _launch(self) -> None:
        launches = self._board.launches(time.monotonic())
        for name in self._board.stops(time.monotonic()):
            self._runners.ask(name)
        for launch in launches:
            self._runners.launch(launch)

    def _watch(self) -> None:
        """Stop phases that cannot, or do not, come to their boundary."""
        now_s = time.monotonic()
        if now_s - self._watched_s < _WATCH_S:
            return
        self._watched_s = now_s
        executors = executors_of(self._context, self._profile)
        self._board.set_executors(executors)
        self._alive = {one.executor for one in executors}
        for name in self._board.overdue(now_s):
            self._phases.stop(name, "no boundary within its deadline")
        self._phases.watch(self._alive)
        self._num_failures = 0

    def _stop_phases(self, why: str) -> None:
        for name in list(self._phases.running):
            self._phases.stop(name, why)

    def _close_board(self, status: Status, why: str) -> None:
        self._board.close(status, why, time.monotonic())
        for sweep in self._runners.sweeps.values():
            sweep.close(is_left=self._leaves or self._broken is not None)
        self._lock.notify_all()

    def _close_spool(self) -> None:
        if self._spool is not None:
            self._spool.close()

    def _remove_own(self) -> None:
        if self._own is not None:
            shutil.rmtree(self._own, ignore_errors=True)

    def _content(self, name: str) -> bytes | None:
        """Of a state's file; empty where there is none yet, None where it is gone."""
        file = self._state_of(name)
        try:
            return self._kept.store(name).read(file) if file else b""
        except FileNotFoundError:
            return None

    def _state_of(self, name: str) -> str:
        with self._lock:
            return self._board.record(name).state

    def _check_whole(self) -> None:
        if self._broken is not None:
            raise RuntimeError("the scheduler has stopped") from self._broken

    def _check_runs(self) -> None:
        self._check_whole()
        if self._stops:
            raise RuntimeError(_STOPPED)
        if self._phases.has_application_ended():
            raise RuntimeError(ENDED)
