"""Advice as the page that ``dagopt advise --html`` writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dagopt import __version__
from dagopt.reporting.figure import Bar, Panel
from dagopt.reporting.page import Page
from dagopt.reporting.table import PageTable
from dagopt.units import format_count, format_s

if TYPE_CHECKING:
    from dagopt.app.advise import Advice, Gain, StageAdvice
    from dagopt.app.what_if import Outcome, WhatIf
    from dagopt.events.trace import ApplicationTrace

_COLUMNS = (
    "stage", "name", "tasks", "bound by", "why", "recorded", "wait", "CPU", "GC",
    "unexplained", "with dagopt", "saves", "decision",
)  # fmt: skip


def advice_page(advice: Advice) -> Page:
    """The page of one application."""
    name = advice.trace.name or advice.path
    gain = advice.gain
    broken = f"{advice.health.num_broken} of {advice.health.num_lines} lines broken"
    return Page(
        title=f"{name}: what dagopt would gain",
        verdict=advice.verdict,
        lines=_lines(gain) if gain is not None else (),
        panels=advice_panels(advice),
        tables=(
            *((_ways(gain.outcome),) if gain is not None else ()),
            PageTable(
                heading="Stages",
                columns=_COLUMNS,
                rows=tuple(_row(stage) for stage in advice.stages),
                note="Wait, CPU, GC and unexplained are slot seconds summed over tasks. Python time "
                "is unexplained, never I/O.",
            ),
            *_gpu_tables(advice.stages),
        ),
        notes=advice.notes,
        properties="".join(f"{key} {value}\n" for key, value in advice.properties),
        provenance=(
            ("event log", advice.path),
            ("application", advice.trace.app_id or "unknown"),
            ("Spark", advice.trace.spark_version or "unknown"),
            ("log", f"{advice.health.num_events} events used, {broken}"),
            ("dagopt", __version__),
        ),
    )


def advice_panels(advice: Advice) -> tuple[Panel, ...]:
    """The run as recorded, as Spark runs it and with dagopt; none where nothing can be replayed."""
    gain = advice.gain
    if gain is None:
        return ()
    return (
        _recorded_panel(advice.trace, gain),
        _panel(gain, "As Spark runs it, simulated", gain.outcome.baseline),
        _panel(gain, "With dagopt, simulated", gain.outcome.grouped),
    )


# Private functions


def _lines(gain: Gain) -> tuple[str, ...]:
    out = gain.outcome
    executors = format_count(len(gain.found.executors), "executor")
    line = (
        f"Recorded {format_s(out.recorded_elapsed_s)} on {executors}; "
        f"replayed with an error of {out.elapsed_error_fraction:.1%} of the application's time "
        f"(stages: median {out.stage_error_fraction:.1%})."
    )
    return (line,)


def _ways(out: WhatIf) -> PageTable:
    return PageTable(
        heading="Ways to run it",
        columns=("way", "predicted", "may be off by"),
        rows=tuple(
            (way.name, format_s(way.elapsed_s), format_s(way.elapsed_bound_s)) for way in out.ways
        ),
    )


def _gpu_tables(stages: tuple[StageAdvice, ...]) -> tuple[PageTable, ...]:
    """One table, where any stage held GPUs."""
    rows = tuple(
        (
            f"{stage.stage}.{stage.attempt}",
            stage.name,
            format_s(stage.gpu.held_s),
            format_s(stage.gpu.other_s),
            f"{stage.gpu.form}: {stage.gpu.reason}" if stage.gpu.form else "not dagopt's to choose",
        )
        for stage in stages
        if stage.gpu is not None
    )
    table = PageTable(
        heading="GPU stages",
        columns=("stage", "name", "held GPUs", "of it for something else", "form"),
        rows=rows,
        note="GPU seconds summed over tasks. What Python did is the GPU's where Spark does not tell.",
    )
    return (table,) if rows else ()


def _names(gain: Gain) -> tuple[str, ...]:
    return tuple(f"{trace.stage_id}: {trace.name}" for trace in gain.found.traces)


def _cores(outcome_executors: set[str], gain: Gain) -> float:
    """Cores of the executors that ran tasks; those that were asked for are like the recorded."""
    cores = [executor.cores for executor in gain.found.executors]
    return float(np.mean(cores)) * len(outcome_executors)


def _panel(gain: Gain, heading: str, outcome: Outcome) -> Panel:
    executors = gain.found.executors
    is_recorded_cluster = gain.outcome.baseline is gain.outcome.replay
    bars = tuple(
        Bar(
            stage=run.stage,
            executor=executors[run.executor].executor
            if is_recorded_cluster
            else str(run.executor + 1),
            start_s=run.start_s,
            read_s=run.read_s,
            end_s=run.end_s,
        )
        for run in outcome.run.tasks
    )
    used = {bar.executor for bar in bars}
    cores = _cores(used, gain)
    return Panel(heading=heading, bars=bars, stage_names=_names(gain), num_cores=cores)


def _recorded_panel(trace: ApplicationTrace, gain: Gain) -> Panel:
    bars: list[Bar] = []
    start_s = gain.found.start_s
    for place, stage in enumerate(gain.found.traces):
        tasks = stage.tasks
        wait_s = np.minimum(np.nan_to_num(tasks.fetch_wait_s), tasks.elapsed_s)
        for task in np.flatnonzero(np.isfinite(tasks.elapsed_s)).tolist():
            launch_s = float(tasks.launch_s[task]) - start_s
            bars.append(
                Bar(
                    stage=place,
                    executor=trace.executor_names[int(tasks.executor[task])],
                    start_s=launch_s,
                    read_s=launch_s + float(wait_s[task]),
                    end_s=float(tasks.finish_s[task]) - start_s,
                )
            )
    cores = _cores({bar.executor for bar in bars}, gain)
    return Panel(heading="As recorded", bars=tuple(bars), stage_names=_names(gain), num_cores=cores)


def _row(stage: StageAdvice) -> tuple[str, ...]:
    split = stage.split

    def known(value_s: float | None) -> str:
        return "unknown" if value_s is None else format_s(value_s)

    saves = known(stage.saved_s)
    if stage.bound_s is not None:
        saves += f" ± {format_s(stage.bound_s)}"
    return (
        f"{stage.stage}.{stage.attempt}",
        stage.name,
        str(stage.num_tasks),
        {"io": "I/O", "cpu": "CPU", "unknown": "unknown"}[stage.bound],
        stage.why,
        known(stage.recorded_s),
        known(split.fetch_wait_s if split else None),
        known(split.cpu_s if split else None),
        known(split.gc_s if split else None),
        known(split.unexplained_s if split else None),
        known(stage.predicted_s),
        saves,
        f"{stage.action}: {stage.reason}" if stage.action else "left to Spark",
    )
