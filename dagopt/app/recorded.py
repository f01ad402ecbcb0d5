"""A recorded application as one to simulate: what each task reads and computes on its own.

* A task's reading is its fetch wait. The waiting tasks of a host shared its link, so the time that one
  would have taken alone is the integral of one over their number. Of a wait, Spark records the length
  and not when it was; it is taken to be at the task's start.
* What Spark counts neither as unpacking nor as running is the task's launch and the way back of its
  result, and needs neither link nor core.
* All other time is computing: what Spark does not measure is not called I/O. Where the run had several
  slots for each real core, the computing tasks of an executor shared its cores likewise; a log does
  not say so, its reader must.
* A stage follows the last stage that ended before it was submitted, and those whose map output it
  reads; the time between is the driver's and stays as it was.
* Failed and speculative attempts held slots, so they count as tasks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from dagopt.app.recorded_executors import RecordedExecutor, recorded_executors
from dagopt.app.source_links import SourceReading, map_output, source_reading
from dagopt.cost.alone_time import alone_s
from dagopt.errors import InputError
from dagopt.events.trace import ApplicationTrace, StageTrace
from dagopt.sim.app_values import AppExecutor, AppStage, AppTask
from dagopt.spark.conf import MIN_INPUT_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Column = NDArray[np.float64]

_MIN_WAIT_S: Final = 0.01
"""Shorter waits, of whole ms, say little about a link."""

_MIN_LINK_BYTES: Final = 16 << 20
"""What fewer bytes took is the delay of single requests, not what a link carries."""

_MAX_SKEW_S: Final = 1.0
"""A task that was launched longer before its stage, or after it, has a wrong stamp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """An application to simulate, and what is known of its cluster."""

    stages: tuple[AppStage, ...]
    """Those with a submission and an end, in the order of submission."""

    traces: tuple[StageTrace, ...]
    """``(S,)`` what each of them was made from."""

    executors: tuple[AppExecutor, ...]
    """With their real cores."""

    slots_per_core: int
    """Slots that the run had for each of these."""

    start_s: float
    """Epoch seconds of the simulation's time 0."""

    link_bytes_per_s: float | None
    """What a link carried while tasks waited for it; None where none did."""

    source_readings: dict[int, SourceReading]
    """By place in ``stages``, the other way to read their waits; ``stages`` hold that of own links."""


def not_replayable(trace: ApplicationTrace) -> str:
    """What the log lacks, in words, where no stage can be replayed; empty where one can."""
    stages = trace.stages
    if not stages:
        return "nothing can be replayed, the log holds no stage"
    timed = [stage for stage in stages if _has_times(stage)]
    if any(_attempts(stage).size for stage in timed):
        return ""
    counts = [
        (sum(not math.isfinite(stage.submitted_s) for stage in stages), "without a submission"),
        (sum(not math.isfinite(stage.completed_s) for stage in stages), "without an end"),
        (sum(stage.tasks.num_ends == 0 for stage in stages), "without ends of tasks"),
        (
            sum(stage.tasks.num_ends > 0 and not _attempts(stage).size for stage in timed),
            "whose tasks have no times within it",
        ),
    ]
    lacks = ", ".join(f"{count} {what}" for count, what in counts if count)
    number = f"{len(stages)} stages" if len(stages) > 1 else "one stage"
    return f"nothing can be replayed, the log holds {number}: {lacks}"


def recorded(trace: ApplicationTrace, slots_per_core: int = 1) -> Recorded:
    """The recorded application.

    Args:
        trace: what its log says.
        slots_per_core: task slots that its executors had for each real core.

    Raises:
        InputError: no stage of it can be replayed.
    """
    missing = not_replayable(trace)
    if missing:
        raise InputError(missing)
    used = [(stage, _attempts(stage)) for stage in trace.stages if _has_times(stage)]
    used = [(stage, rows) for stage, rows in used if rows.size]
    used.sort(key=lambda pair: (pair[0].submitted_s, pair[0].stage_id, pair[0].attempt))
    start_s = trace.start_s if math.isfinite(trace.start_s) else used[0][0].submitted_s
    start_s = min(start_s, used[0][0].submitted_s)
    waits = [_waits(stage, rows) for stage, rows in used]
    io_s = _io_s(used, waits, len(trace.host_names))
    readings = {
        place: reading
        for place, (stage, rows) in enumerate(used)
        if (reading := source_reading(trace, stage, rows, waits[place], io_s[place]))
    }
    link_io_s = [
        np.array(readings[place].io_s) if place in readings and readings[place].is_likely else own_s
        for place, own_s in enumerate(io_s)
    ]
    cpu_s = _cpu_s(trace, used, slots_per_core)
    executors = recorded_executors(trace, used, start_s)
    stages = []
    for place, (stage, rows) in enumerate(used):
        after, delay_s = _follows(place, [each for each, _ in used], start_s)
        lead_s = _lead_s(stage, rows, executors, start_s)
        work = (io_s[place], cpu_s[place])
        stages.append(_app_stage(trace, stage, rows, work, after, delay_s, lead_s))
    return Recorded(
        stages=tuple(stages),
        traces=tuple(stage for stage, _ in used),
        executors=tuple(
            replace(each.executor, cores=each.executor.cores / slots_per_core) for each in executors
        ),
        slots_per_core=slots_per_core,
        start_s=start_s,
        link_bytes_per_s=_link_bytes_per_s(used, link_io_s),
        source_readings=readings,
    )


# Private functions


def _has_times(stage: StageTrace) -> bool:
    return math.isfinite(stage.submitted_s) and math.isfinite(stage.completed_s)


def _attempts(stage: StageTrace) -> NDArray[np.int64]:
    """Places of the attempts that can be replayed, in the order of launch."""
    tasks = stage.tasks
    in_stage = (tasks.launch_s >= stage.submitted_s - _MAX_SKEW_S) & (
        tasks.launch_s <= stage.completed_s + _MAX_SKEW_S
    )
    known = np.flatnonzero(np.isfinite(tasks.elapsed_s) & in_stage)
    return known[np.argsort(tasks.launch_s[known], kind="stable")]


def _wait_s(stage: StageTrace, rows: NDArray[np.int64]) -> Column:
    return np.minimum(np.nan_to_num(stage.tasks.fetch_wait_s[rows]), stage.tasks.elapsed_s[rows])


def _launch_s(stage: StageTrace, rows: NDArray[np.int64]) -> Column:
    """Seconds in the slot and not in the task; 0 where Spark does not say how long it ran."""
    tasks = stage.tasks
    ran_s = tasks.run_s[rows] + np.nan_to_num(tasks.deserialize_s[rows])
    left_s = tasks.elapsed_s[rows] - np.maximum(ran_s, _wait_s(stage, rows))
    return np.maximum(0.0, np.nan_to_num(left_s))


def _waits(stage: StageTrace, rows: NDArray[np.int64]) -> tuple[Column, Column]:
    """When each attempt began to wait for shuffle blocks, and how long it did."""
    return stage.tasks.launch_s[rows] + _launch_s(stage, rows), _wait_s(stage, rows)


def _io_s(
    used: list[tuple[StageTrace, NDArray[np.int64]]],
    waits: list[tuple[Column, Column]],
    num_hosts: int,
) -> list[Column]:
    """Of each stage's attempts, the seconds that its reading takes alone on the link of its host."""
    return alone_s(
        [begin for begin, _ in waits],
        [wait for _, wait in waits],
        [stage.tasks.host[rows] for stage, rows in used],
        [1.0] * num_hosts,
    )


def _cpu_s(
    trace: ApplicationTrace, used: list[tuple[StageTrace, NDArray[np.int64]]], slots_per_core: int
) -> list[Column]:
    """Of each stage's attempts, the seconds that its computing takes with a core of its own."""
    other = [_launch_s(stage, rows) + _wait_s(stage, rows) for stage, rows in used]
    computing = [
        np.maximum(0.0, stage.tasks.elapsed_s[rows] - other_s)
        for (stage, rows), other_s in zip(used, other, strict=True)
    ]
    if slots_per_core == 1:
        return computing
    slots = {each.executor: each.cores for each in trace.executors}
    return alone_s(
        [
            stage.tasks.launch_s[rows] + other_s
            for (stage, rows), other_s in zip(used, other, strict=True)
        ],
        computing,
        [stage.tasks.executor[rows] for stage, rows in used],
        [max(1, slots.get(name, 0)) / slots_per_core for name in trace.executor_names],
    )


def _follows(place: int, stages: list[StageTrace], start_s: float) -> tuple[tuple[int, ...], float]:
    """The stages that one waits for, and the driver's seconds after them."""
    own = stages[place]
    before = [n for n in range(place) if stages[n].completed_s <= own.submitted_s]
    if not before:
        return (), own.submitted_s - start_s
    last = max(before, key=lambda n: (stages[n].completed_s, n))
    parents = {n for n in before if stages[n].stage_id in own.parent_stage_ids}
    return tuple(sorted({last} | parents)), own.submitted_s - stages[last].completed_s


def _lead_s(
    stage: StageTrace,
    rows: NDArray[np.int64],
    executors: Sequence[RecordedExecutor],
    start_s: float,
) -> float:
    """Seconds before its first launch in which a core was free for it: the scheduler's own.

    Waiting for a core, or for an executor to come, is what the simulation does by itself.
    """
    first_s = float(stage.tasks.launch_s[rows].min()) - start_s
    since_s = first_s
    for executor in executors:
        since_s = min(since_s, executor.free_since_s(first_s, stage.task_cpus, stage.task_gpus))
        if since_s <= stage.submitted_s - start_s:
            break
    return max(0.0, first_s - max(since_s, stage.submitted_s - start_s))


def _app_stage(
    trace: ApplicationTrace,
    stage: StageTrace,
    rows: NDArray[np.int64],
    work: tuple[Column, Column],
    after: tuple[int, ...],
    delay_s: float,
    lead_s: float,
) -> AppStage:
    tasks = stage.tasks
    io_s, cpu_s = work
    launch_s = _launch_s(stage, rows)
    sizes = np.nan_to_num(tasks.read_bytes[rows]).astype(np.int64)
    sources = _source_bytes(trace, stage)
    return AppStage(
        stage=stage.stage_id,
        attempt=stage.attempt,
        tasks=[
            AppTask(io_s=io, cpu_s=cpu, launch_s=launch, read_bytes=size)
            for io, cpu, launch, size in zip(
                io_s.tolist(), cpu_s.tolist(), launch_s.tolist(), sizes.tolist(), strict=True
            )
        ],
        after=after,
        delay_s=delay_s,
        # The lead counts where it makes no difference to the order of tasks.
        tail_s=max(0.0, stage.completed_s - float(tasks.finish_s[rows].max())) + lead_s,
        task_cpus=stage.task_cpus,
        task_gpus=stage.task_gpus,
        name=stage.name,
        scopes=stage.scopes,
        plan=stage.plan,
        source_bytes=sources,
        is_told=(
            stage.attempt == 0
            and not stage.is_barrier
            and stage.resource_profile_id == 0
            and int(sizes.sum()) >= MIN_INPUT_BYTES
        ),
        can_raise="driver" not in trace.executor_names,  # local[n] cannot
    )


def _source_bytes(trace: ApplicationTrace, stage: StageTrace) -> tuple[tuple[str, int], ...]:
    """Where the map output that it read was written; on all hosts alike where the log does not say.

    Empty where most of its bytes come from files and cached blocks.
    """
    tasks = stage.tasks
    fetched = np.nansum(tasks.remote_read_bytes) + np.nansum(tasks.local_read_bytes)
    if fetched <= np.nansum(tasks.input_bytes):
        return ()
    written_on = tuple((each.host, each.written_bytes) for each in map_output(trace, stage))
    return written_on or tuple((host, 1) for host in sorted(trace.host_names))


def _link_bytes_per_s(
    used: list[tuple[StageTrace, NDArray[np.int64]]], io_s: list[Column]
) -> float | None:
    total_bytes = total_s = 0.0
    for (stage, rows), reading_s in zip(used, io_s, strict=True):
        waited = _wait_s(stage, rows) >= _MIN_WAIT_S
        total_bytes += float(np.nan_to_num(stage.tasks.remote_read_bytes[rows][waited]).sum())
        total_s += float(reading_s[waited].sum())
    return total_bytes / total_s if total_bytes >= _MIN_LINK_BYTES and total_s > 0 else None
