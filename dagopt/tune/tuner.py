"""The sweep: phases on Spark, and between them what boundaries are for.

At a boundary trials are told to Optuna, which prunes; new ones are asked for; groups are formed anew
from the metrics so far; and what happened is written down. In a phase the groups run as tasks of one
Spark job. A task that is lost with its executor runs again from the boundary's states.
"""

from __future__ import annotations

import contextlib
import logging
import math
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from dagopt.errors import InfeasibleError, InputError, last_line
from dagopt.policy.merging.candidates import CandidateRules
from dagopt.spark.phases import context_of, dumps, is_frame, is_on_this_host
from dagopt.tune.checkpoint import STATES, Store
from dagopt.tune.data import dataset_name
from dagopt.tune.frame_data import FrameData
from dagopt.tune.places import AllSlots, Places, Progress
from dagopt.tune.plan import Pace, plan_phase
from dagopt.tune.progress import Display
from dagopt.tune.records import Boundary, Records, Status
from dagopt.tune.result import SweepResult
from dagopt.tune.room import Room
from dagopt.tune.search import Search, Space
from dagopt.tune.settings import check_same, settings_of
from dagopt.tune.start import check_kinds, prepare_data, try_one
from dagopt.tune.trainable import check_trainable
from dagopt.tune.worker import Sweep, Worker
from dagopt.units import format_bytes, parse_bytes

logger = logging.getLogger(__name__)

_WAITS_S = (1.0, 5.0, 15.0)
"""Seconds before a boundary is tried again that storage did not take."""

Callback = Callable[[Mapping[str, Any]], None]
"""Told of each trial at each boundary, for loggers such as MLflow's: ``trial``, ``params``,
``iteration``, ``losses`` (of all its iterations), ``status``. Told once; what a driver that is killed
could not tell is in the losses of the next time."""


class Tuner:
    """A sweep of hyper-parameters whose trials share accelerators.

    Args:
        spark: the session.
        trainable: see :mod:`dagopt.tune.trainable`.
        data: ``data(params)`` gives one pass of batches (see :mod:`dagopt.tune.data`), or a DataFrame.
        study_or_space: an Optuna study, with ``space`` beside it, or only the space: distributions by
            name, or a function of an Optuna trial.
        num_trials: trials of the sweep, >= 1.
        max_iterations: iterations of a trial that is not pruned, >= 1.
        space: see ``study_or_space``.
        metric: which of the step's metrics is reported to Optuna. Of a space alone the lowest is best; a
            study says its direction.
        batch_size: rows of a batch of a DataFrame, where trials have no such parameter.
        checkpoint: a folder that pyarrow.fs opens, the same for driver and executors. A sweep with
            boundaries there is resumed. Default: one that lives as long as the sweep, in local modes.
        profile: resource profile of the tasks, such as :func:`dagopt.gpu_profile` gives; default: one
            CPU slot each.
        memory: what one slot or accelerator has, as ``4g``; default: the accelerator's, or what the
            executor's machine or container has beside its JVM, by slots.
        headroom_fraction: share of it that stays free, 0 to 1.
        max_running: trials that run at the same time; default: all.
        phase_iterations: iterations between boundaries; default: as many as make them cheap.
        seed: trial ``n`` has the parameter ``seed``, ``seed + n``, unless the space has one.
        callback: told of each trial at each boundary.
        progress: show a display on the terminal; default: if there is one.

    Raises:
        InputError: an argument is wrong.
    """

    def __init__(
        self,
        spark: Any,
        trainable: Any,
        data: Any,
        study_or_space: Any,
        num_trials: int,
        max_iterations: int,
        *,
        space: Space | None = None,
        metric: str = "loss",
        batch_size: int = 32,
        checkpoint: str | None = None,
        profile: Any = None,
        memory: str | None = None,
        headroom_fraction: float = 0.1,
        max_running: int | None = None,
        phase_iterations: int | None = None,
        seed: int = 0,
        callback: Callback | None = None,
        progress: bool | None = None,
        rules: CandidateRules | None = None,
    ) -> None:
        num_trials = _whole("num_trials", num_trials)
        max_iterations = _whole("max_iterations", max_iterations)
        batch_size = _whole("batch_size", batch_size)
        if max_running is not None:
            max_running = _whole("max_running", max_running)
        if phase_iterations is not None:
            phase_iterations = _whole("phase_iterations", phase_iterations)
        check_trainable(trainable, metric)
        if not callable(data) and not is_frame(data):
            raise InputError(
                f"data is a {type(data).__name__}, expected a function of a trial's parameters that"
                " gives batches, or a DataFrame"
            )
        if not (callback is None or callable(callback)):
            raise InputError(f"callback is a {type(callback).__name__}, expected a function")
        self._context = context_of(spark)
        self._search = Search(study_or_space, space)
        self._trainable = trainable
        self._data = data
        self._num_trials = num_trials
        self._max_running = num_trials if max_running is None else max_running
        self._metric = metric
        self._batch_size = batch_size
        self._checkpoint = checkpoint
        self._profile = profile
        check_kinds(memory, headroom_fraction, seed, rules)
        memory_bytes = None if memory is None else _size("memory", memory)
        self._room = Room(self._context, profile, memory_bytes, headroom_fraction)
        self._places: Places = AllSlots(self._context, profile)
        self._pace = Pace(max_iterations, phase_iterations, prunes=self._search.prunes)
        self._seed = seed
        self._callback = callback
        self._records = Records(trainable, rules or CandidateRules())
        self._display = Display(
            self._records,
            num_trials,
            max_iterations,
            minimizes=self._search.minimizes,
            wanted=progress,
        )
        self._settings = settings_of(
            self._search,
            trainable,
            data,
            {
                "num_trials": num_trials,
                "max_iterations": max_iterations,
                "metric": metric,
                "batch_size": batch_size,
                "seed": seed,
            },
        )
        self._num_boundaries = 0
        self._need_bytes = 0
        self._best_loss: float | None = None
        if checkpoint is None and not is_on_this_host(self._context):
            raise InputError(
                "checkpoint is missing: expected a folder that driver and executors share, such as"
                " s3://bucket/sweep"
            )

    def run(self) -> SweepResult:
        """Run the sweep, or what is left of it.

        Raises:
            InputError: before anything starts: the trainable, the data or a state cannot be pickled,
                there is no batch, or the checkpoint is of another sweep.
            InfeasibleError: before anything starts: not even one trial has room.
            KeyboardInterrupt: Ctrl-C; the next ``run`` with this checkpoint goes on from the last
                boundary.
        """
        if self._checkpoint is None:
            own = tempfile.mkdtemp(prefix="dagopt-tune-")
            try:
                return self.run_on(self._places, own)
            finally:
                shutil.rmtree(own, ignore_errors=True)
        try:
            return self._run(Store(self._checkpoint))
        except KeyboardInterrupt:
            logger.warning(
                "dagopt: stopped at boundary %d; run again with checkpoint '%s' to go on",
                self._num_boundaries,
                self._checkpoint,
            )
            raise
        except BaseException:
            self._give_up(self._records.trials)
            raise

    def run_on(self, places: Places, path: str) -> SweepResult:
        """Run the sweep, or what is left of it, where somebody else says, in a folder of his.

        If it is stopped for good, all trials that run fail. Raises what :meth:`run` and ``places`` do.
        """
        self._places = places
        try:
            return self._run(Store(path))
        except BaseException:
            if not places.may_resume():
                self._give_up(())
            raise

    def _repr_html_(self) -> str:
        """What a notebook shows: the display as it stands."""
        return self._display.html()

    def _run(self, store: Store) -> SweepResult:
        began_s = time.time()
        self._best_loss = None
        self._resume(store)
        application = str(self._context.applicationId)
        frame = self._records.frame
        data = (
            prepare_data(self._data, store, self._batch_size, application)
            if frame is None
            else replace(frame, path=store.path)
        )
        self._room.measure(self._places)
        asked = self._ask(data)
        running = self._records.running()
        new = [(one.number, one.params) for one in running if one.position == 0]
        new += [(number, params) for number, params, _ in asked]
        if new:
            self._need_bytes = self._try(data, *new[0])
        if asked:
            self._write(
                store, asked=tuple(asked), frame=data if isinstance(data, FrameData) else None
            )
        sweep = dumps(
            Sweep(
                trainable=self._trainable,
                data=data,
                path=store.path,
                application=application,
                metric=self._metric,
            )
        )
        worker = Worker(broadcast=self._context.broadcast(sweep))
        self._places.boundary(self._progress())
        try:
            with self._display:
                self._phases(store, worker, data)
        finally:
            with contextlib.suppress(Exception):  # a context that is gone is not what went wrong
                worker.broadcast.destroy()
        self._warn_of_failures()
        return SweepResult.of(
            self._records,
            self._search,
            store,
            elapsed_s=time.time() - began_s,
            metric=self._metric,
        )

    def _warn_of_failures(self) -> None:
        trials = list(self._records.trials.values())
        if trials and all(one.status == "failed" for one in trials):
            error = next((one.error for one in trials if one.error), "")
            told = last_line(error) or "a loss that is not finite"
            logger.warning("dagopt: all %d trials failed, the first with: %s", len(trials), told)

    def _try(self, data: Any, number: int, params: dict[str, Any]) -> int:
        """Bytes that a trial needs at least."""
        need_bytes = try_one(self._trainable, data, params)
        usable_bytes = self._room.now().usable_bytes
        if need_bytes > usable_bytes:
            raise InfeasibleError(
                f"trial {number} needs {format_bytes(need_bytes)}, and a slot has"
                f" {format_bytes(usable_bytes)} beside its headroom: raise memory, or"
                " lower headroom_fraction, batch size or model size"
            )
        return need_bytes

    def _phases(self, store: Store, worker: Worker, data: Any) -> None:
        while self._records.running():
            given = self._places.take()
            works, groups = plan_phase(
                self._records,
                self._pace,
                self._room.now(given.num_slots),
                self._num_boundaries,
                self._need_bytes,
                given.longest_s,
            )
            costs_s = [one.predicted_s for one in groups]
            told = f"dagopt tune: phase {self._records.num_phases + 1}, {len(works)} groups"
            began_s = time.perf_counter()
            outcomes = self._places.run(
                worker, works, costs_s or [float(len(work.trials)) for work in works], told
            )
            if outcomes is None:
                continue
            self._write(
                store,
                works=tuple(works),
                groups=tuple(groups),
                outcomes=tuple(outcomes),
                elapsed_s=time.perf_counter() - began_s,
            )
            self._settle(store)
            asked = self._ask(data)
            if asked:
                self._write(store, asked=tuple(asked))
            with contextlib.suppress(OSError):  # what is left is deleted at the next boundary
                store.keep(STATES, self._files())
            self._display.update(groups)
            self._places.boundary(self._progress())

    def _progress(self) -> Progress:
        records, running = self._records.trials.values(), self._records.running()
        self._note_best()
        per_trial = self._pace.max_iterations
        return Progress(
            num_running=len(running),
            num_done=sum(one.position for one in records),
            num_left=sum(per_trial - one.position for one in running)
            + per_trial * (self._num_trials - len(records)),
            loss=self._best_loss,
        )

    def _note_best(self) -> None:
        """Of all boundaries so far."""
        records = self._records.trials.values()
        losses = [one.loss for one in records if one.loss is not None and not one.error]
        losses += [] if self._best_loss is None else [self._best_loss]
        best = min if self._search.minimizes else max
        self._best_loss = best(losses, default=None)

    def _give_up(self, kept: Collection[int]) -> None:
        with contextlib.suppress(Exception):  # is not what went wrong
            self._search.give_up(kept)

    def _ask(self, data: Any) -> list[tuple[int, dict[str, Any], str]]:
        """New trials, as far as there may be more."""
        left = self._num_trials - len(self._records.trials)
        count = min(left, self._max_running - len(self._records.running()))
        asked = []
        for _ in range(count):
            number, params = self._search.ask()
            params.setdefault("seed", self._seed + number)
            asked.append((number, params, dataset_name(data, params)))
        return asked

    def _settle(self, store: Store) -> None:
        """Decide which trials of the last phase go on; then tell Optuna and the callback."""
        statuses = {number: self._decide(number) for number in self._records.undecided}
        self._write(store, statuses=statuses)
        for number in statuses:
            self._end(number)
        if self._callback is None:
            return
        for number, status in statuses.items():
            one = self._records.trials[number]
            self._callback(
                {
                    "trial": number,
                    "params": dict(one.params),
                    "iteration": one.position,
                    "losses": list(one.losses),
                    "status": status,
                }
            )

    def _decide(self, number: int) -> Status:
        one = self._records.trials[number]
        if one.error or one.loss is None or not math.isfinite(one.loss):
            return "failed"
        stop = self._search.report(number, one.position, one.loss)
        if one.position >= self._pace.max_iterations:
            return "complete"
        return "pruned" if stop else "running"

    def _end(self, number: int) -> None:
        """Tell Optuna of a trial that has ended, unless it knows."""
        record = self._records.trials[number]
        if record.status == "running" or not self._search.is_running(number):
            return
        self._search.note(number, "dagopt_iterations", record.position)
        self._search.note(number, "dagopt_merged_iterations", record.num_merged)
        if record.error:
            self._search.note(number, "dagopt_error", record.error)
        self._search.tell(number, record.status, record.loss)

    def _write(self, store: Store, **said: Any) -> None:
        boundary = Boundary(settings=self._settings, **said)
        for wait_s in (*_WAITS_S, None):
            try:
                store.add_boundary(self._num_boundaries, boundary)
                break
            except OSError as error:
                if wait_s is None:
                    raise
                logger.warning("dagopt: a boundary cannot be written, it is tried again: %s", error)
                time.sleep(wait_s)
        self._num_boundaries += 1
        for warning in self._records.fold(boundary):
            logger.warning("dagopt: %s", warning)

    def _resume(self, store: Store) -> None:
        """Take over what boundaries there are, and tell Optuna anew: its study may be gone."""
        boundaries = store.boundaries()
        self._records.clear()
        self._num_boundaries = len(boundaries)
        self._search.begin(store.sweep(), resumes=bool(boundaries))
        for boundary in boundaries:
            check_same(store.path, boundary.settings, self._settings)
            if boundary.statuses:
                for number in self._records.undecided:
                    self._decide(number)
            self._records.fold(boundary)
            for number, params, _ in boundary.asked:
                self._search.attach(number, params)
            for number in boundary.statuses:
                self._end(number)
            self._note_best()
        self._search.take_left_over()
        if self._records.undecided:
            self._settle(store)

    def _files(self) -> list[str]:
        """Files of states that are still needed."""
        records = self._records.trials.values()
        best = self._records.best(minimizes=self._search.minimizes)
        kept = {one.file for one in records if one.status == "running" and one.file}
        return sorted(kept | ({best.file} if best is not None else set()))


def _size(name: str, text: str) -> int:
    try:
        return parse_bytes(text)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error


def _whole(name: str, value: Any) -> int:
    try:
        found = int(value)
        is_whole = found >= 1 and found == value
    except (TypeError, ValueError, OverflowError):
        is_whole = False
    if not is_whole:
        raise InputError(f"{name} is {value!r}, must be a whole number >= 1")
    return found
