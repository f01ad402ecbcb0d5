"""A live session's report as the page that a notebook shows.

Its timeline is of all tasks that Spark's own status store still has, those of stages that dagopt
left alone included; groups and their delays are the planner's. Both are snapshots of one moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dagopt import __version__
from dagopt.reporting.figure import Bar, Hold, Panel
from dagopt.reporting.live import Entry, entries, live_lines, live_tables, number
from dagopt.reporting.page import Page
from dagopt.units import format_s


def live_page(body: Entry, timeline: Entry) -> Page:
    """The page.

    Args:
        body: of the report.
        timeline: what Timeline.scala gave; empty where Spark's status store was not to be read.
    """
    lines = live_lines(body)
    left_out = number(timeline.get("tasks_left_out")) or 0
    notes = ["Predictions are dagopt's own model of the stage, and are not what was measured."]
    if left_out:
        notes.append(f"{left_out:.0f} older tasks are not drawn.")
    if not timeline:
        notes.append("Spark did not say when tasks ran, so there is no timeline.")
    conf = body.get("conf")
    settings = conf if isinstance(conf, dict) else {}
    return Page(
        title=f"{timeline.get('app_name') or 'This application'}: what dagopt does in it",
        verdict=_verdict(body) or lines.pop(0),
        lines=tuple(lines),
        panels=_panels(body, timeline),
        tables=tuple(live_tables(body)),
        notes=tuple(notes),
        properties="".join(f"{key} {value}\n" for key, value in sorted(settings.items())),
        provenance=(
            ("application", str(timeline.get("app_id") or "unknown")),
            ("Spark", str(timeline.get("spark") or "unknown")),
            ("dagopt", __version__),
        ),
    )


# Private functions


def _verdict(body: Entry) -> str:
    """The sum of what was predicted to be saved; empty where nothing was."""
    latest = {(entry.get("stage"), entry.get("attempt")): entry for entry in _decided(body)}
    saved = [_saved_s(entry) for entry in (*latest.values(), *entries(body, "gpu_stages"))]
    gains = [saved_s for saved_s in saved if saved_s > 0]
    if not gains:
        return ""
    would = "would save" if body.get("mode") == "explain" else "save"
    return (
        f"{len(gains)} of {len(saved)} decisions {would} {format_s(sum(gains))} together against Spark"
        " alone, as predicted."
    )


def _decided(body: Entry) -> list[Entry]:
    """Decisions that predict; one that gives a stage back says nothing of its time."""
    return [entry for entry in entries(body, "decisions") if entry.get("action") != "release"]


def _saved_s(entry: Entry) -> float:
    stock_s, predicted_s = number(entry.get("stock_s")), number(entry.get("predicted_s"))
    return 0.0 if stock_s is None or predicted_s is None else stock_s - predicted_s


def _panels(body: Entry, timeline: Entry) -> tuple[Panel, ...]:
    """One, where any task has run."""
    stages = entries(timeline, "stages")
    starts = [task[2] for stage in stages for task in stage["tasks"]]
    if not starts:
        return ()
    origin_s = min(starts) / 1000
    end_s = max(_end_s(task, origin_s, body) for stage in stages for task in stage["tasks"])
    groups = {
        (entry.get("stage"), entry.get("attempt"), task): entry
        for entry in entries(body, "groups")
        for task in entry.get("tasks") or ()
    }
    bars = []
    for place, stage in enumerate(stages):
        for task in stage["tasks"]:
            index, executor, launch_ms, _, wait_ms = task
            start_s = launch_ms / 1000 - origin_s
            group = groups.get((stage["stage"], stage["attempt"], index))
            finish_s = max(start_s, _end_s(task, origin_s, body))
            bars.append(
                Bar(
                    stage=place,
                    executor=str(executor),
                    start_s=start_s,
                    read_s=min(start_s + wait_ms / 1000, finish_s),
                    end_s=finish_s,
                    gpus=float(stage["gpus"]),
                    group="" if group is None else f"group {group.get('group')}",
                )
            )
    cores, gpus = _cores(body, timeline)
    return (
        Panel(
            heading="Until now",
            bars=tuple(bars),
            stage_names=tuple(f"{stage['stage']}: {stage['name']}" for stage in stages),
            num_cores=cores,
            num_gpus=gpus,
            holds=tuple(_holds(body, origin_s, end_s)),
        ),
    )


def _end_s(task: Any, origin_s: float, body: Entry) -> float:
    """When the task ended, or that it runs now; seconds from the origin."""
    _, _, launch_ms, finish_ms, _ = task
    now_s = number(body.get("time_s"))
    end_s = (now_s or launch_ms / 1000) if finish_ms is None else finish_ms / 1000
    return float(end_s - origin_s)


def _cores(body: Entry, timeline: Entry) -> tuple[float, float]:
    """Physical cores and GPUs of the executors that there are now."""
    known = {
        entry.get("executor"): number(entry.get("cores")) for entry in entries(body, "executors")
    }
    told = entries(timeline, "executors")
    cores = [known.get(entry["executor"]) or float(entry["cores"]) for entry in told]
    return sum(cores), float(sum(entry["gpus"] for entry in told))


def _holds(body: Entry, origin_s: float, end_s: float) -> list[Hold]:
    """The delays of the groups, as far as they lie in the timeline."""
    holds = []
    for entry in entries(body, "groups"):
        formed_s, launch_s = number(entry.get("formed_s")), number(entry.get("launch_s"))
        if formed_s is None or launch_s is None or launch_s <= formed_s:
            continue
        start_s, until_s = max(0.0, formed_s - origin_s), launch_s - origin_s
        if start_s < min(until_s, end_s):
            text = _hold_text(entry, launch_s - formed_s)
            holds.append(
                Hold(executor=str(entry.get("executor")), start_s=start_s, end_s=until_s, text=text)
            )
    return holds


def _hold_text(entry: Mapping[str, Any], delay_s: float) -> str:
    tasks = entry.get("tasks")
    count = len(tasks) if isinstance(tasks, list) else 0
    return (
        f"stage {entry.get('stage')}, group {entry.get('group')}: {count} tasks delayed by"
        f" {format_s(delay_s)}, reading from {entry.get('input_host_set')}"
    )
