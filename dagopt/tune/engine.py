"""Runs one group for one phase, in one process.

Parts of the group, stacks and single trials, are stepped in turn on each batch. The first stacked
step of trials is compared with their unstacked ones, and so are trials whose stacked step raises: the
phase then begins again from its boundary without that stack. A trial that raises alone fails alone, and
where the data function raises, the trials that read what it was to give.
"""

from __future__ import annotations

import copy
import statistics
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from dagopt.tune.data import Feed, batch_bytes, batch_rows
from dagopt.tune.frame_data import FrameData
from dagopt.tune.peak import PeakMeter
from dagopt.tune.phase import GroupOutcome, GroupWork, TrialOutcome, TrialWork
from dagopt.tune.stacks import Stack, metric_of, same_results
from dagopt.tune.trainable import State, leaves, model_type, state_bytes
from dagopt.tune.width import WidthSearch

Load = Callable[[], Mapping[int, State]]
"""Reads the states that the group's trials had at the boundary; a new copy each time."""


class BrokenStackError(Exception):
    """A stacked step raised, or gave other results than the unstacked ones."""

    def __init__(self, stack_type: str, problem: str) -> None:
        super().__init__(problem)
        self.stack_type = stack_type


class DataError(Exception):
    """The user's data function raised; the message is the traceback."""


def run_group(
    work: GroupWork, trainable: Any, data: Any, load: Load, xp: Any, metric: str
) -> tuple[GroupOutcome, dict[int, State]]:
    """Run a group's phase.

    Args:
        work: the group.
        trainable: the user's.
        data: the data set.
        load: gives the states of trials that have one.
        xp: numpy or cupy.
        metric: which of the step's metrics is the loss.

    Returns:
        What was measured, and the states of the trials that did not fail.
    """
    broken: dict[str, str] = {}
    while True:  # ends: each round takes away one stack
        try:
            return _Run(work, trainable, data, load(), xp, metric, broken).run()
        except BrokenStackError as error:  # noqa: PERF203  rare, and a round is a phase
            broken[error.stack_type] = str(error)


class _Run:
    """One attempt at a phase."""

    def __init__(
        self,
        work: GroupWork,
        trainable: Any,
        data: Any,
        states: Mapping[int, State],
        xp: Any,
        metric: str,
        broken: dict[str, str],
    ) -> None:
        self._work = work
        self._trainable = trainable
        self._data = data
        self._xp = xp
        self._metric = metric
        self._broken = broken
        self._singles = {one.trial: _Single(one, trainable, xp, metric) for one in work.trials}
        for trial, single in self._singles.items():
            single.start(states.get(trial))
        self._reads_s: dict[str, list[float]] = {}
        self._peak_bytes = 0
        self._pass_length = dict(work.pass_length)
        self._num_passes = 0
        self._width: dict[str, int] = {}

    def run(self) -> tuple[GroupOutcome, dict[int, State]]:
        start_s, began_s, cpu_s = time.time(), time.perf_counter(), time.process_time()
        if self._work.watch:
            self._watch()
        elif self._work.mode == "co-located":
            for single in self._singles.values():
                self._shared([single])
        else:
            self._shared(self._parts())
        elapsed_s = time.perf_counter() - began_s
        outcome = GroupOutcome(
            number=self._work.number,
            trials=[single.outcome for single in self._singles.values()],
            start_s=start_s,
            elapsed_s=elapsed_s,
            read_s={name: statistics.median(found) for name, found in self._reads_s.items()},
            busy_fraction=min(1.0, (time.process_time() - cpu_s) / max(elapsed_s, 1e-9)),
            peak_bytes=self._peak_bytes,
            width=self._width,
            pass_length=self._pass_length,
            num_passes=self._num_passes,
            not_stackable=self._broken,
        )
        states = {
            trial: single.state
            for trial, single in self._singles.items()
            if not single.outcome.error
        }
        return outcome, states

    def _feed(self, trial: TrialWork) -> Feed:
        known = self._pass_length.get(trial.dataset, 0)
        with self._data_errors():
            return Feed(self._data, trial.params, trial.position, known)

    def _close(self, feed: Feed, dataset: str) -> None:
        self._num_passes += feed.num_passes
        if feed.pass_length:
            self._pass_length[dataset] = feed.pass_length

    def _watch(self) -> None:
        """Each trial by itself, on the first batches of its data set; these are read once."""
        kept: dict[str, list[Any]] = {}
        for single in self._singles.values():
            dataset = single.work.dataset
            if dataset not in kept:
                try:
                    feed = self._feed(single.work)
                    count = self._work.num_iterations
                    kept[dataset] = [self._read(feed, dataset) for _ in range(count)]
                except DataError as error:
                    single.fail(str(error))
                    continue
                self._close(feed, dataset)
            # The last iterations are timed, and measuring memory takes time.
            num_measured = self._work.num_iterations - 2
            for iteration, batch in enumerate(kept[dataset]):
                peak = single.run(batch, measure=iteration < max(1, num_measured))
                self._peak_bytes = max(self._peak_bytes, peak + single.outcome.model_bytes)

    def _parts(self) -> list[_Single | _StackPart]:
        parts: list[_Single | _StackPart] = []
        for stack in self._work.stacks:
            alive = [self._singles[trial] for trial in stack]
            alive = [single for single in alive if not single.outcome.error]
            kind = alive[0].outcome.model_type if alive else ""
            if len(alive) < 2 or kind in self._broken:
                parts += alive
            else:
                search = WidthSearch(
                    len(alive), self._work.width.get(kind, 0), self._work.num_iterations
                )
                parts.append(
                    _StackPart(alive, kind, search, self._trainable, self._xp, self._metric)
                )
        return parts

    def _shared(self, parts: Sequence[_Single | _StackPart]) -> None:
        """All parts on each batch of one pass."""
        try:
            if parts:
                self._pass(parts)
        except DataError as error:
            for part in parts:
                part.fail(str(error))

    def _pass(self, parts: Sequence[_Single | _StackPart]) -> None:
        feed = self._feed(parts[0].work)
        models_bytes = sum(part.model_bytes for part in parts)
        for iteration in range(self._work.num_iterations):
            batch = self._read(feed, parts[0].work.dataset)
            # In the first, the check of a stack would be measured too.
            measure = iteration == min(1, self._work.num_iterations - 1)
            peaks = [part.run(batch, measure=measure) for part in parts]
            if measure:
                self._peak_bytes = max(self._peak_bytes, models_bytes + max(peaks))
        self._close(feed, parts[0].work.dataset)
        for part in parts:
            part.finish(self._width)

    def _read(self, feed: Feed, dataset: str) -> Any:
        began_s = time.perf_counter()
        with self._data_errors():
            batch = feed.read()
        self._reads_s.setdefault(dataset, []).append(time.perf_counter() - began_s)
        return batch

    @contextmanager
    def _data_errors(self) -> Iterator[None]:
        """What the data function raises is a :class:`DataError`.

        A file of a DataFrame that cannot be read is the task's failure, which Spark runs again.
        """
        try:
            yield
        except Exception as error:
            if isinstance(error, OSError) and isinstance(self._data, FrameData):
                raise
            raise DataError(traceback.format_exc()) from error


class _Single:
    """One trial that is stepped by itself."""

    def __init__(self, work: TrialWork, trainable: Any, xp: Any, metric: str) -> None:
        self.work = work
        self.state: State = None
        self._trainable = trainable
        self._xp = xp
        self._metric = metric
        self.outcome = TrialOutcome(trial=work.trial, losses=[], times_s=[], peaks_bytes=[])

    @property
    def model_bytes(self) -> int:
        return self.outcome.model_bytes

    def start(self, state: State | None) -> None:
        """Take over a state, or make the first."""
        try:
            if state is None and self.work.position == 0:
                state = self._trainable.init(self.work.params, self._xp)
        except Exception:  # noqa: BLE001  the user's code may raise anything
            self.outcome.error = traceback.format_exc()
        self.state = state
        self.outcome.has_arrays = bool(leaves(state))
        self.outcome.model_bytes = state_bytes(state)
        self.outcome.model_type = model_type(self._trainable, state, self.work.params)

    def run(self, batch: Any, *, measure: bool) -> int:
        """One iteration; returns its temporaries and the batch in bytes, 0 where not measured."""
        if self.outcome.error:
            return 0
        try:
            if not measure:
                self._step(batch)
                return 0
            with PeakMeter(self._xp) as meter:
                self._step(batch)
        except Exception:  # noqa: BLE001  the user's code may raise anything
            self.outcome.error = traceback.format_exc()
            return 0
        note_batch(self.outcome, batch)
        self.outcome.peaks_bytes.append(
            self.outcome.model_bytes + self.outcome.batch_bytes + meter.peak_bytes
        )
        return meter.peak_bytes + self.outcome.batch_bytes

    def _step(self, batch: Any) -> None:
        began_s = time.perf_counter()
        metrics = self._trainable.step(self.state, batch, self.work.params, self._xp)
        loss = metric_of(metrics, self._metric)
        self.outcome.times_s.append(time.perf_counter() - began_s)
        self.outcome.losses.append(loss)

    def fail(self, error: str) -> None:
        """It ends here, for a reason that is not its own."""
        self.outcome.error = self.outcome.error or error

    def finish(self, width: dict[str, int]) -> None:
        """Nothing to add: what was measured is there."""


class _StackPart:
    """Trials that are stepped as one."""

    def __init__(
        self,
        singles: Sequence[_Single],
        kind: str,
        search: WidthSearch,
        trainable: Any,
        xp: Any,
        metric: str,
    ) -> None:
        self.work = singles[0].work
        self._singles = singles
        self._kind = kind
        self._search = search
        self._trainable = trainable
        self._xp = xp
        self._metric = metric
        self._losses: list[Any] = []
        self._times_s: list[float] = []
        self._unchecked = [single for single in singles if not single.work.verified]
        self._stack = self._guarded(
            lambda: Stack(
                [single.work.trial for single in singles],
                [single.state for single in singles],
                [single.work.params for single in singles],
                xp,
            )
        )

    @property
    def model_bytes(self) -> int:
        return sum(single.model_bytes for single in self._singles)

    def run(self, batch: Any, *, measure: bool) -> int:
        """One iteration of all; see :meth:`_Single.run`."""
        if self._unchecked:
            self._checked_step(batch)
            return 0
        if not measure:
            self._stack.take(self._search.width)
            self._search.took(self._step(batch))
            return 0
        self._stack.take(self._search.widest)
        with PeakMeter(self._xp) as meter:
            self._step(batch)
        count = len(self._singles)
        for single in self._singles:
            note_batch(single.outcome, batch)
            own_bytes = single.outcome.model_bytes + meter.peak_bytes // count
            single.outcome.peaks_bytes.append(own_bytes + single.outcome.batch_bytes)
        return meter.peak_bytes + self._singles[0].outcome.batch_bytes

    def finish(self, width: dict[str, int]) -> None:
        """Hand losses, times and states to the trials."""
        losses = to_host(self._xp.stack(self._losses), self._xp)
        count = len(self._singles)
        for index, single in enumerate(self._singles):
            single.outcome.losses = losses[:, index].tolist()
            single.outcome.times_s = [time_s / count for time_s in self._times_s]
            single.outcome.stacked = True
            single.state = self._stack.state(index)
        if self._search.is_known:
            width[self._kind] = self._search.width

    def fail(self, error: str) -> None:
        """As in :meth:`_Single.fail`."""
        if self._losses:
            self.finish({})
        for single in self._singles:
            single.fail(error)

    def _step(self, batch: Any) -> float:
        began_s = time.perf_counter()
        self._losses.append(
            self._guarded(lambda: self._stack.step(self._trainable, batch, self._metric, self._xp))
        )
        self._times_s.append(time.perf_counter() - began_s)
        return self._times_s[-1]

    def _checked_step(self, batch: Any) -> None:
        """A stacked step, compared with those of the trials by themselves."""
        alone = [copy.deepcopy(single.state) for single in self._singles]
        losses = []
        for single, state in zip(self._singles, alone, strict=True):
            step = partial(self._trainable.step, state, batch, single.work.params, self._xp)
            metrics = self._guarded(step)
            losses.append(metric_of(metrics, self._metric))
        self._step(batch)
        stacked = to_host(self._losses[-1], self._xp).tolist()
        states = [(state, self._stack.state(index)) for index, state in enumerate(alone)]
        if not same_results(losses, stacked, states, self._xp):
            raise BrokenStackError(
                self._kind,
                f"its stacked step gave losses {stacked[:3]}, alone they are {losses[:3]}",
            )
        self._unchecked = []

    def _guarded(self, function: Callable[[], Any]) -> Any:
        try:
            return function()
        except Exception as error:
            told = "".join(traceback.format_exception_only(error)).strip()
            raise BrokenStackError(self._kind, f"its stacked step raised {told}") from error


def note_batch(outcome: TrialOutcome, batch: Any) -> None:
    """What a batch was."""
    outcome.batch_bytes = batch_bytes(batch)
    outcome.batch_size = batch_rows(batch)


def to_host(array: Any, xp: Any) -> Any:
    """A numpy array of what ``xp`` computed."""
    return array.get() if hasattr(array, "get") else xp.asarray(array)
