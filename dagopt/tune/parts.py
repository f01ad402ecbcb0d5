"""The parts of a group, each stepped by itself on a batch: single trials, and stacks of several."""

from __future__ import annotations

import copy
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from dagopt.tune.data import batch_bytes, batch_rows
from dagopt.tune.peak import PeakMeter
from dagopt.tune.phase import TrialOutcome, TrialWork
from dagopt.tune.stacks import Stack, metric_of, same_results
from dagopt.tune.trainable import State, leaves, model_type, state_bytes
from dagopt.tune.width import WidthSearch


class BrokenStackError(Exception):
    """A stacked step raised, or gave other results than the unstacked ones."""

    def __init__(self, stack_type: str, problem: str) -> None:
        super().__init__(problem)
        self.stack_type = stack_type


class Single:
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
        """Of its state."""
        return self.outcome.model_bytes

    def start(self, state: State | None) -> None:
        """Take over a state, or make the first."""
        try:
            if state is None and self.work.position == 0:
                state = self._trainable.init(self.work.params, self._xp)
        except (Exception, SystemExit):  # noqa: BLE001  the user's code may raise anything
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
        except (Exception, SystemExit):  # noqa: BLE001  the user's code may raise anything
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


class StackPart:
    """Trials that are stepped as one."""

    def __init__(
        self,
        singles: Sequence[Single],
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
        """Of the states of all."""
        return sum(single.model_bytes for single in self._singles)

    def run(self, batch: Any, *, measure: bool) -> int:
        """One iteration of all; see :meth:`Single.run`."""
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
        # One list for all: it is pickled once.
        times_s = [time_s / len(self._singles) for time_s in self._times_s]
        for index, single in enumerate(self._singles):
            single.outcome.losses = losses[:, index].tolist()
            single.outcome.times_s = times_s
            single.outcome.stacked = True
            single.state = self._stack.state(index)
        if self._search.is_known:
            width[self._kind] = self._search.width

    def fail(self, error: str) -> None:
        """As in :meth:`Single.fail`."""
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
        except (Exception, SystemExit) as error:
            told = "".join(traceback.format_exception_only(error)).strip()
            raise BrokenStackError(self._kind, f"its stacked step raised {told}") from error


def note_batch(outcome: TrialOutcome, batch: Any) -> None:
    """What a batch was."""
    outcome.batch_bytes = batch_bytes(batch)
    outcome.batch_size = batch_rows(batch)


def to_host(array: Any, xp: Any) -> Any:
    """A numpy array of what ``xp`` computed."""
    return array.get() if hasattr(array, "get") else xp.asarray(array)
