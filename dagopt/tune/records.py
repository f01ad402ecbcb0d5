"""What a sweep knows of its trials: folded from what boundaries say, and from nothing else.

The same fold runs while the sweep goes on and when it is resumed, so a resumed sweep knows what the
killed one knew at its last boundary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from dagopt.cost.footprint import corrected
from dagopt.model.trial import Candidate, Footprint, IterationMetrics, Mode, TrialGroup
from dagopt.policy.merging.candidates import CandidateRules, not_yet
from dagopt.tune.frame_data import FrameData
from dagopt.tune.phase import GroupOutcome, GroupWork, TrialOutcome, TrialWork

Status: TypeAlias = Literal["running", "complete", "pruned", "failed"]

PEAKS = 64
"""Measured peaks that are kept of a trial."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What one phase measured of one trial; iterations in it are made values only when asked for."""

    first: int
    """Its first iteration, from 1."""
    losses: list[float]
    outcome: TrialOutcome
    busy_fraction: float

    def metrics(self, dataset: str, index: int) -> IterationMetrics:
        """Of one of its iterations, counted from 0."""
        each = self.outcome
        peaks = each.peaks_bytes or [each.model_bytes + each.batch_bytes]
        return IterationMetrics(
            trial=each.trial,
            iteration=self.first + index,
            dataset=dataset,
            model_type=each.model_type,
            model_bytes=each.model_bytes,
            batch_size=each.batch_size,
            time_s=each.times_s[index],
            peak_bytes=peaks[min(index, len(peaks) - 1)],
            utilisation_fraction=self.busy_fraction,
            loss=self.losses[index],
        )


@dataclass(slots=True, kw_only=True)
class TrialRecord:
    """One trial."""

    number: int
    params: dict[str, Any]
    dataset: str
    status: Status = "running"
    losses: list[float] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    """What was measured, a phase each."""
    peaks_bytes: list[int] = field(default_factory=list)
    """Measured while it was alone, the last ones."""
    footprint: Footprint | None = None
    step_s: float = 0.0
    stacked_step_s: float | None = None
    model_type: str = ""
    has_arrays: bool = False
    verified: bool = False
    file: str = ""
    """Where its state is."""
    error: str = ""
    num_merged: int = 0
    """Iterations that it ran in a group of several."""

    @property
    def position(self) -> int:
        """Iterations done."""
        return len(self.losses)

    def metrics(self, num_last: int | None = None) -> list[IterationMetrics]:
        """Of all iterations, or of the last ones, the oldest first."""
        wanted = self.position if num_last is None else num_last
        found: list[IterationMetrics] = []
        for span in reversed(self.spans):
            for index in reversed(range(len(span.losses))):
                if len(found) == wanted:
                    return found[::-1]
                found.append(span.metrics(self.dataset, index))
        return found[::-1]

    @property
    def loss(self) -> float | None:
        """Of its last iteration; None before the first."""
        return self.losses[-1] if self.losses else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """One trial."""

    number: int
    params: dict[str, Any]
    status: str
    """``complete``, ``pruned`` or ``failed``."""
    losses: tuple[float, ...]
    """One an iteration; of a failed trial the last one may be not a number."""
    error: str
    """Traceback of what its code raised, or what was wrong with its loss."""
    num_merged: int
    """Iterations that it ran in a group of several."""

    @property
    def loss(self) -> float | None:
        """Of its last iteration; None where it has none."""
        return self.losses[-1] if self.losses else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRecord:
    """One group in one phase, for the timeline."""

    phase: int
    trials: tuple[int, ...]
    mode: Mode | Literal["watch"]
    reason: str
    predicted_s: float
    predicted_bytes: int
    peak_bytes: int
    start_s: float
    elapsed_s: float
    place: str
    num_passes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """What one boundary's file says."""

    settings: Mapping[str, Any]
    """Those that a resumed sweep must share."""
    asked: tuple[tuple[int, dict[str, Any], str], ...] = ()
    """Number, parameters and data set of new trials."""
    frame: FrameData | None = None
    """The DataFrame that was written for the sweep, said once."""
    statuses: dict[int, Status] = field(default_factory=dict)
    """What was decided of the trials of the phase before; ``running`` for those that go on."""
    works: tuple[GroupWork, ...] = ()
    groups: tuple[TrialGroup, ...] = ()
    """What they were made from; empty for a phase that only watches."""
    outcomes: tuple[tuple[GroupOutcome, str], ...] = ()
    """Of each work what was measured, and the file that has its states."""
    elapsed_s: float = 0.0


class Records:
    """Everything known at a boundary; changed by :meth:`fold` alone."""

    def __init__(self, trainable: Any, rules: CandidateRules) -> None:
        self._stackable = bool(getattr(trainable, "stackable", False))
        self._own_footprint = getattr(trainable, "footprint", None)
        self._rules = rules
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.trials: dict[int, TrialRecord] = {}
        self.phases: list[PhaseRecord] = []
        self.frame: FrameData | None = None
        self.num_phases = 0
        self.undecided: list[int] = []
        """Trials of the last phase, as long as it is not written whether they go on."""
        self.read_s: dict[str, float] = {}
        self.pass_length: dict[str, int] = {}
        self.width: dict[str, int] = {}
        self.not_stackable: dict[str, str] = {}
        self.overhead_s = 0.0
        """Seconds of the last phase in which no group ran."""

    def fold(self, boundary: Boundary) -> list[str]:
        """Take in what happened up to a boundary; returns warnings that are new."""
        self.frame = boundary.frame or self.frame
        for number, params, dataset in boundary.asked:
            self.trials[number] = TrialRecord(number=number, params=params, dataset=dataset)
        for number, status in boundary.statuses.items():
            self.trials[number].status = status
        if boundary.statuses:
            self.undecided = []
        warnings: list[str] = []
        if not boundary.works:
            return warnings
        self.num_phases += 1
        self.undecided = sorted(one.trial for work in boundary.works for one in work.trials)
        groups = dict(enumerate(boundary.groups))
        for work, (outcome, file) in zip(boundary.works, boundary.outcomes, strict=True):
            group = groups.get(work.number)
            for each in outcome.trials:
                self._take(self.trials[each.trial], each, outcome, work, file)
            self.read_s.update(outcome.read_s)
            self.pass_length.update(outcome.pass_length)
            self.width.update(outcome.width)
            for kind, problem in outcome.not_stackable.items():
                if not self.not_stackable:
                    warnings.append(f"trials run unstacked from now on: {problem}")
                self.not_stackable.setdefault(kind, problem)
            self.phases.append(
                PhaseRecord(
                    phase=self.num_phases,
                    trials=tuple(one.trial for one in work.trials),
                    mode="watch" if work.watch else work.mode,
                    reason="alone, to be measured" if group is None else group.reason,
                    predicted_s=0.0 if group is None else group.predicted_s,
                    predicted_bytes=0 if group is None else group.request.memory_bytes,
                    peak_bytes=outcome.peak_bytes,
                    start_s=outcome.start_s,
                    elapsed_s=outcome.elapsed_s,
                    place=outcome.place,
                    num_passes=outcome.num_passes,
                )
            )
        longest_s = max(outcome.elapsed_s for outcome, _ in boundary.outcomes)
        self.overhead_s = max(0.0, boundary.elapsed_s - longest_s)
        return warnings

    def running(self) -> list[TrialRecord]:
        """Trials that go on, by number."""
        return [one for _, one in sorted(self.trials.items()) if one.status == "running"]

    def best(self, *, minimizes: bool) -> TrialRecord | None:
        """The completed trial with the best last loss; None where none completed."""
        sign = 1 if minimizes else -1
        complete = [one for one in self.trials.values() if one.status == "complete"]
        return min(complete, key=lambda one: (sign * one.losses[-1], one.number), default=None)

    def candidate(self, record: TrialRecord, num_iterations: int) -> Candidate:
        """A trial as grouping sees it."""
        assert record.footprint is not None  # it was watched  # noqa: S101
        why_not = not_yet(
            record.metrics(self._rules.min_iterations), record.peaks_bytes, self._rules
        )
        return Candidate(
            trial=record.number,
            dataset=record.dataset,
            model_type=record.model_type,
            position=record.position,
            footprint=corrected(record.footprint, record.peaks_bytes),
            step_s=record.step_s,
            read_s=self.read_s.get(record.dataset, 0.0),
            num_iterations=num_iterations,
            stackable=(self._stackable and record.has_arrays and not self.not_stackable),
            stacked_step_s=record.stacked_step_s,
            mergeable=not why_not,
            reason=why_not,
        )

    def work_of(self, record: TrialRecord) -> TrialWork:
        """A trial as its task gets it."""
        return TrialWork(
            trial=record.number,
            params=record.params,
            position=record.position,
            dataset=record.dataset,
            model_type=record.model_type,
            verified=record.verified,
        )

    def _take(
        self,
        record: TrialRecord,
        outcome: TrialOutcome,
        group: GroupOutcome,
        work: GroupWork,
        file: str,
    ) -> None:
        merged = len(work.trials) > 1 and not work.watch
        first = record.position + 1
        finite = np.isfinite(outcome.losses)
        losses = outcome.losses
        if not finite.all():
            bad = int(np.argmin(finite))
            losses = losses[: bad + 1]
            record.error = f"loss is {losses[bad]} in iteration {first + bad}"
        record.losses += losses
        record.spans.append(
            Span(first=first, losses=losses, outcome=outcome, busy_fraction=group.busy_fraction)
        )
        record.num_merged += len(outcome.losses) if merged else 0
        record.error = outcome.error or record.error
        record.file = file
        record.model_type, record.has_arrays = outcome.model_type, outcome.has_arrays
        if not outcome.times_s:
            return
        if outcome.stacked:
            record.verified = True
            record.stacked_step_s = float(np.median(outcome.times_s))
            return
        # Measuring memory takes time, and a phase that watches ends with iterations that do not.
        record.step_s = min(outcome.times_s) if work.watch else float(np.median(outcome.times_s))
        record.peaks_bytes = (record.peaks_bytes + outcome.peaks_bytes)[-PEAKS:]
        self._measured_footprint(record, outcome)

    def _measured_footprint(self, record: TrialRecord, outcome: TrialOutcome) -> None:
        peak = max(record.peaks_bytes, default=0)
        own = 0
        if self._own_footprint is not None:
            own = int(self._own_footprint(record.params, None))
        used = outcome.model_bytes + outcome.batch_bytes
        before = record.footprint or Footprint(model_bytes=0, activation_bytes=0, input_bytes=0)
        record.footprint = replace(
            before,
            model_bytes=outcome.model_bytes,
            activation_bytes=max(0, peak - used, own - used),
            input_bytes=outcome.batch_bytes,
        )
