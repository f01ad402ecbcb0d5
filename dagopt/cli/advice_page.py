"""Advice as the page that ``dagopt advise --html`` writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dagopt import __version__
from dagopt.reporting.figure import Bar, Panel
from dagopt.reporting.page import Page, PageTable
from dagopt.units import format_s

if TYPE_CHECKING:
    from dagopt.app.advise import Advice, StageAdvice
    from dagopt.app.what_if import Outcome

_COLUMNS = (
    "stage", "name", "tasks", "bound by", "why", "recorded", "wait", "CPU", "GC",
    "unexplained", "with dagopt", "saves", "decision",
)  # fmt: skip


def advice_page(advice: Advice) -> Page:
    """The page of one application."""
    out = advice.outcome
    name = advice.trace.name or advice.path
    ways = {way.name: way for way in (out.replay, out.baseline, out.grouped, *out.other_slots)}
    broken = f"{advice.health.num_broken} of {advice.health.num_lines} lines broken"
    return Page(
        title=f"{name}: what dagopt would gain",
        verdict=advice.verdict,
        lines=(
            (
                f"Recorded {format_s(out.recorded_elapsed_s)} on {len(advice.found.executors)} executors; "
                f"replayed with an error of {out.elapsed_error_fraction:.1%} of the application's time "
                f"(stages: median {out.stage_error_fraction:.1%})."
            ),
        ),
        panels=(
            _recorded_panel(advice),
            _panel(advice, "As Spark runs it, simulated", out.baseline),
            _panel(advice, "With dagopt, simulated", out.grouped),
        ),
        tables=(
            PageTable(
                heading="Ways to run it",
                columns=("way", "predicted", "may be off by"),
                rows=tuple(
                    (way.name, format_s(way.elapsed_s), format_s(way.elapsed_bound_s))
                    for way in ways.values()
                ),
            ),
            PageTable(
                heading="Stages",
                columns=_COLUMNS,
                rows=tuple(_row(stage) for stage in advice.stages),
                note="Wait, CPU, GC and unexplained are slot seconds summed over tasks. Python time "
                "is unexplained, never I/O.",
            ),
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


# Private functions


def _names(advice: Advice) -> tuple[str, ...]:
    return tuple(f"{trace.stage_id}: {trace.name}" for trace in advice.found.traces)


def _cores(outcome_executors: set[str], advice: Advice) -> float:
    """Cores of the executors that ran tasks; those that were asked for are like the recorded."""
    cores = [executor.cores for executor in advice.found.executors]
    return float(np.mean(cores)) * len(outcome_executors)


def _panel(advice: Advice, heading: str, outcome: Outcome) -> Panel:
    executors = advice.found.executors
    is_recorded_cluster = advice.outcome.baseline is advice.outcome.replay
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
    cores = _cores(used, advice)
    return Panel(heading=heading, bars=bars, stage_names=_names(advice), num_cores=cores)


def _recorded_panel(advice: Advice) -> Panel:
    bars: list[Bar] = []
    start_s = advice.found.start_s
    for place, trace in enumerate(advice.found.traces):
        tasks = trace.tasks
        wait_s = np.minimum(np.nan_to_num(tasks.fetch_wait_s), tasks.elapsed_s)
        for task in np.flatnonzero(np.isfinite(tasks.elapsed_s)).tolist():
            launch_s = float(tasks.launch_s[task]) - start_s
            bars.append(
                Bar(
                    stage=place,
                    executor=advice.trace.executor_names[int(tasks.executor[task])],
                    start_s=launch_s,
                    read_s=launch_s + float(wait_s[task]),
                    end_s=float(tasks.finish_s[task]) - start_s,
                )
            )
    cores = _cores({bar.executor for bar in bars}, advice)
    return Panel(
        heading="As recorded", bars=tuple(bars), stage_names=_names(advice), num_cores=cores
    )


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
