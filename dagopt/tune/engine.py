"""Runs one group for one phase, in one process.

Parts of the group, stacks and single trials, are stepped in turn on each batch. The first stacked
step of trials is compared with their unstacked ones, and so are trials whose stacked step raises: the
phase then begins again from its boundary without that stack. A trial that raises alone fails alone, and
where the data function raises, the trials that read what it was to give.
"""

from __future__ import annotations

import statistics
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from dagopt.tune.data import Feed
from dagopt.tune.frame_data import FrameData
from dagopt.tune.parts import BrokenStackError, Single, StackPart
from dagopt.tune.phase import GroupOutcome, GroupWork, TrialWork
from dagopt.tune.trainable import State
from dagopt.tune.width import WidthSearch

Load = Callable[[], Mapping[int, State]]
"""Reads the states that the group's trials had at the boundary; a new copy each time."""


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
        self._singles = {one.trial: Single(one, trainable, xp, metric) for one in work.trials}
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

    def _parts(self) -> list[Single | StackPart]:
        parts: list[Single | StackPart] = []
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
                    StackPart(alive, kind, search, self._trainable, self._xp, self._metric)
                )
        return parts

    def _shared(self, parts: Sequence[Single | StackPart]) -> None:
        """All parts on each batch of one pass."""
        try:
            if parts:
                self._pass(parts)
        except DataError as error:
            for part in parts:
                part.fail(str(error))

    def _pass(self, parts: Sequence[Single | StackPart]) -> None:
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
