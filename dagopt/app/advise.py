"""What a recorded run would have gained: the use case of ``dagopt advise``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dagopt.app.gpu_stages import GpuStageAdvice
from dagopt.app.recorded import Recorded, not_replayable, recorded
from dagopt.app.what_if import Cluster, WhatIf, what_if
from dagopt.cost.time_split import Bound, TimeSplit, bound_of, split_time
from dagopt.errors import InputError
from dagopt.events.read import LogHealth, find_event_logs, read_trace
from dagopt.events.trace import ApplicationTrace, spark_line
from dagopt.units import format_count, format_s

if TYPE_CHECKING:
    from dagopt.events.log_paths import LogPath
    from dagopt.events.read import EventLog

_OLDEST: Final = (3, 5)

_MANY: Final = 4
"""Executors above which one host for all of them looks like a name that was hidden."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageAdvice:
    """One stage attempt: what bound it, and what it would have gained. None is unknown."""

    stage: int
    attempt: int
    name: str
    num_tasks: int
    bound: Bound
    why: str
    """Why it is said to be bound by that."""
    split: TimeSplit | None
    recorded_s: float | None
    baseline_s: float | None
    """As Spark runs it on the cluster asked for."""
    predicted_s: float | None
    """With dagopt, on the cluster asked for."""
    saved_s: float | None
    """``baseline_s`` less ``predicted_s``; negative where it takes longer."""
    bound_s: float | None
    """How far ``saved_s`` may be off."""
    action: str
    """``pass``, ``order`` or ``group``; empty where dagopt leaves the stage alone unasked."""
    reason: str
    gpu: GpuStageAdvice | None = None
    """What it did with GPUs; None where its tasks held none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What the replay of an application says."""

    found: Recorded
    outcome: WhatIf

    @property
    def saved_s(self) -> float:
        """Predicted seconds of the application that dagopt saves."""
        return self.outcome.baseline.elapsed_s - self.outcome.grouped.elapsed_s

    @property
    def bound_s(self) -> float:
        """How far ``saved_s`` may be off."""
        return self.outcome.grouped.elapsed_bound_s

    @property
    def is_loss(self) -> bool:
        """Whether the application would surely take longer with dagopt."""
        return self.saved_s < -self.bound_s

    @property
    def verdict(self) -> str:
        """The answer in a sentence, its number first."""
        base_s, with_s = self.outcome.baseline.elapsed_s, self.outcome.grouped.elapsed_s
        bound = format_s(self.bound_s)
        if self.is_loss:
            return (
                f"0 s: leave it as it is. dagopt would take {format_s(-self.saved_s)} ± {bound} longer, "
                f"{format_s(with_s)} instead of {format_s(base_s)}."
            )
        if self.saved_s <= self.bound_s:
            return (
                f"0 s: nothing to gain that is sure. {format_s(base_s)} as Spark runs it, "
                f"{format_s(with_s)} ± {bound} with dagopt."
            )
        percent = self.saved_s / base_s
        return (
            f"{format_s(self.saved_s)} ± {bound} less ({percent:.0%}): {format_s(with_s)} with "
            f"dagopt instead of {format_s(base_s)}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """All that is to be said of one application."""

    path: str
    trace: ApplicationTrace
    health: LogHealth
    gain: Gain | None
    """None where nothing of the run can be replayed."""
    missing: str
    """What the log lacks then; empty otherwise."""
    stages: tuple[StageAdvice, ...]
    """Of every stage attempt in the log, by id and attempt."""
    notes: tuple[str, ...]
    """What the numbers do not hold, a sentence each."""
    properties: tuple[tuple[str, str], ...]
    """Settings for a run with dagopt."""

    @property
    def verdict(self) -> str:
        """The answer in a sentence, its number first."""
        return self.gain.verdict if self.gain is not None else f"Unknown: {self.missing}."

    def to_dict(self) -> dict[str, Any]:
        """All of it but single tasks, for JSON; what is unknown is None."""
        gain = self.gain
        out = gain.outcome if gain is not None else None
        ways = out.ways if out is not None else ()
        return {
            "path": self.path,
            "app_id": self.trace.app_id,
            "name": self.trace.name,
            "spark_version": self.trace.spark_version,
            "is_complete": self.trace.is_complete,
            "verdict": self.verdict,
            "saved_s": gain.saved_s if gain is not None else None,
            "bound_s": gain.bound_s if gain is not None else None,
            "recorded_s": out.recorded_elapsed_s if out is not None else None,
            "replay_stage_error_fraction": out.stage_error_fraction if out is not None else None,
            "replay_elapsed_error_fraction": out.elapsed_error_fraction
            if out is not None
            else None,
            "link_bytes_per_s": gain.found.link_bytes_per_s if gain is not None else None,
            "ways": [
                {"name": way.name, "elapsed_s": way.elapsed_s, "bound_s": way.elapsed_bound_s}
                for way in ways
            ],
            "stages": [stage_row(stage) for stage in self.stages],
            "notes": list(self.notes),
            "properties": dict(self.properties),
            "log": {
                "num_lines": self.health.num_lines,
                "num_events": self.health.num_events,
                "num_broken": self.health.num_broken,
                "num_impossible": self.trace.num_impossible,
                "problems": list(self.health.problems),
            },
        }


_PARTS: Final = (
    "elapsed_s", "fetch_wait_s", "cpu_s", "gc_s", "serialization_s", "shuffle_write_s",
    "unexplained_s", "lost_s",
)  # fmt: skip

STAGE_COLUMNS: Final = (
    *(name for name in StageAdvice.__slots__ if name not in {"split", "gpu"}),
    *(f"task_{part}" for part in _PARTS),
    *(f"gpu_{part}" for part in GpuStageAdvice.__slots__),
)
"""Keys of :func:`stage_row`, in their order."""


def stage_row(stage: StageAdvice) -> dict[str, Any]:
    """One stage as a flat row; its split and its GPUs in columns of their own."""
    values = [
        *(getattr(stage, name) for name in StageAdvice.__slots__ if name not in {"split", "gpu"}),
        *(getattr(stage.split, part, None) for part in _PARTS),
        *(getattr(stage.gpu, part, None) for part in GpuStageAdvice.__slots__),
    ]
    return dict(zip(STAGE_COLUMNS, values, strict=True))


def advise(source: LogPath, cluster: Cluster | None = None) -> Advice:
    """Read one event log and say what its application would have gained.

    Args:
        source: an event log, or the folder of a rolling one, or a zip file of one.
        cluster: what is to be different from the recorded cluster.

    Raises:
        InputError: it is no event log, or several, or does not say what another cluster would do.
    """
    logs = find_event_logs(source)
    if len(logs) > 1:
        raise InputError(
            f"{source}: holds {len(logs)} event logs; name one, such as {logs[0].path}"
        )
    return advise_log(logs[0], cluster or Cluster())


def advise_log(log: EventLog, cluster: Cluster) -> Advice:
    """As :func:`advise`, of a log that was found."""
    trace, health = read_trace(log)
    missing = not_replayable(trace)
    gain = None
    if not missing:
        found = recorded(trace, cluster.recorded_slots_per_core)
        try:
            gain = Gain(found=found, outcome=what_if(found, cluster))
        except InputError as error:
            raise InputError(f"{log.path}: {error}") from error
    stages = _stages(trace, gain)
    return Advice(
        path=str(log.path),
        trace=trace,
        health=health,
        gain=gain,
        missing=missing,
        stages=stages,
        notes=_notes(trace, health, gain, stages),
        properties=_properties(gain, cluster),
    )


# Private functions


def _properties(gain: Gain | None, cluster: Cluster) -> tuple[tuple[str, str], ...]:
    if gain is None:
        return ()
    if gain.is_loss:
        return (("spark.dagopt.mode", "off"),)
    properties = [("spark.dagopt.slotsPerCore", str(cluster.slots_per_core))]
    link = gain.found.link_bytes_per_s
    if link is not None:
        link = link if cluster.link_mbit is None else cluster.link_mbit * 125_000
        properties.append(("spark.dagopt.network.bandwidth", f"{max(1, round(link))}b"))
    return tuple(properties)


def _stages(trace: ApplicationTrace, gain: Gain | None) -> tuple[StageAdvice, ...]:
    replayed = gain.found.traces if gain is not None else ()
    place = {(stage.stage_id, stage.attempt): at for at, stage in enumerate(replayed)}
    decisions = gain.outcome.grouped.decisions if gain is not None else ()
    decided = {(each.stage, each.attempt): each for each in decisions}
    advice = []
    for stage in trace.stages:
        key = (stage.stage_id, stage.attempt)
        split = split_time(stage.tasks)
        bound, why = bound_of(stage, split)
        span_s = stage.completed_s - stage.submitted_s
        decision = decided.get(key)
        base_s = with_s = bound_s = gpu = None
        if gain is not None and key in place:
            at, out = place[key], gain.outcome
            base_s, with_s = out.baseline.stage_s[at], out.grouped.stage_s[at]
            bound_s, gpu = out.grouped.bound_s[at], out.gpu_stages.get(at)
        advice.append(
            StageAdvice(
                stage=stage.stage_id,
                attempt=stage.attempt,
                name=stage.name,
                num_tasks=stage.num_tasks,
                bound=bound,
                why=why,
                split=split,
                recorded_s=span_s if math.isfinite(span_s) and span_s >= 0 else None,
                baseline_s=base_s,
                predicted_s=with_s,
                saved_s=base_s - with_s if base_s is not None and with_s is not None else None,
                bound_s=bound_s,
                action=decision.action if decision is not None else "",
                reason=decision.reason if decision is not None else "",
                gpu=gpu,
            )
        )
    return tuple(advice)


def _notes(
    trace: ApplicationTrace,
    health: LogHealth,
    gain: Gain | None,
    stages: tuple[StageAdvice, ...],
) -> tuple[str, ...]:
    notes = [*health.problems]
    if health.num_broken:
        notes.append(f"{health.num_broken} of {health.num_lines} lines are no events")
    if trace.num_impossible:
        notes.append(
            f"{format_count(trace.num_impossible, 'task or stage attempt')} with times that cannot be, left out"
        )
    if health.is_compacted:
        notes.append("Spark compacted this log: the tasks of finished jobs are missing")
    if not health.has_first_part:
        notes.append("the first parts of this rolling log are missing")
    if not trace.is_complete:
        notes.append(
            "the end of the application is not in the log; its last event counts as the end"
        )
    missing = len(trace.stages) - len(gain.found.traces) if gain is not None else 0
    if missing:
        notes.append(
            f"{missing} of {len(trace.stages)} stages have too little data and are left out of the "
            "replay: unknown"
        )
    lost_s = sum(stage.split.lost_s for stage in stages if stage.split is not None)
    if lost_s > 0:
        notes.append(
            f"attempts that failed or were killed took {format_s(lost_s)} of slot time, which is in no "
            "other sum of task times"
        )
    if trace.has_own_shuffle:
        notes.append(
            f"the shuffle was that of {trace.shuffle_manager}, which decides what counts as fetch wait"
        )
    executors = gain.found.executors if gain is not None else ()
    if len(executors) > _MANY and len({each.host for each in executors}) == 1:
        notes.append(
            f"all {len(executors)} executors have one host name, so they count as sharing one link: "
            "a log does not say whether a name stands for several hosts"
        )
    has_fetched = any(np.nansum(stage.tasks.remote_read_bytes) > 0 for stage in trace.stages)
    if has_fetched and not trace.fetch_wait_includes_connecting:
        notes.append("this Spark's fetch wait leaves out connecting (Spark 4.1 counts it)")
    if spark_line(trace.spark_version) < _OLDEST:
        version = trace.spark_version or "of unknown version"
        notes.append(f"the run was on Spark {version}; dagopt needs Spark 3.5 to 4.3")
    if gain is not None and has_fetched:
        notes.append(
            "an event log does not say which task read from which host: links of sources are left out"
            + (", but where waits say so" if gain.found.source_readings else "")
        )
    return tuple(notes)
