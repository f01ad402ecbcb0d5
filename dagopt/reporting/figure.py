"""Timelines of tasks per executor and slot, with utilisation under them, as plotly's JSON.

A browser draws some thousand bars well and 100,000 badly. Above :data:`MAX_BARS` a panel, bars of one
stage that follow each other in a slot are drawn as one; it says how many tasks it stands for, and the
panel says that it was done. No task is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

MAX_BARS: Final = 4000
"""Bars of one panel, as long as it has fewer slots times stages."""

_BINS: Final = 400
_SAME_S: Final = 0.02
"""A slot's next task is launched when its last one has ended, but the stamps cross by some ms."""

_COLOURS: Final = (
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#997700", "#777777",
)  # fmt: skip
"""Told apart with any colour vision: P. Tol, "Colour Schemes", 2021, scheme "bright"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A task, or several that follow each other in a slot; seconds from the application's start."""

    stage: int
    """Place in the panel's ``stage_names``."""
    executor: str
    start_s: float
    read_s: float
    """Until when it waited for its input, as far as it is known."""
    end_s: float
    num_tasks: int = 1
    gpus: float = 0.0
    """GPUs that each of the tasks holds."""
    group: str = ""
    """The task group that it was launched in, if there was one; neighbours of other groups stay apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A task group under a delay, in a row of its executor's own; seconds likewise."""

    executor: str
    start_s: float
    end_s: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One run: its bars, and the names of its stages."""

    heading: str
    bars: tuple[Bar, ...]
    stage_names: tuple[str, ...]
    num_cores: float
    """Cores of all executors: what CPU utilisation is a share of."""
    num_gpus: float = 0.0
    """GPUs of all executors, likewise."""
    unit: str = "task"
    """What a bar stands for, and where it is: words of the figure."""
    place: str = "executor"
    busy: str = "CPU and other"
    holds: tuple[Hold, ...] = ()


def slots_of(bars: Sequence[Bar]) -> list[tuple[str, Bar]]:
    """Each bar with its row, ``executor/slot``: the first slot that is free when it starts."""
    free: dict[str, list[float]] = {}
    placed = []
    for bar in sorted(bars, key=lambda each: (each.start_s, each.end_s)):
        ends = free.setdefault(bar.executor, [])
        slot = next(
            (at for at, end_s in enumerate(ends) if end_s <= bar.start_s + _SAME_S), len(ends)
        )
        if slot == len(ends):
            ends.append(0.0)
        ends[slot] = bar.end_s
        placed.append((f"{bar.executor}/{slot + 1}", bar))
    return placed


def merged(placed: Sequence[tuple[str, Bar]], max_bars: int) -> list[tuple[str, Bar]]:
    """At most about ``max_bars``: neighbours of one stage in one slot become one where gaps are short.

    The gap that is bridged doubles until they are few enough, or nothing more can be merged.
    """
    found = list(placed)
    span_s = max((bar.end_s for _, bar in found), default=0.0)
    gap_s = span_s / max(1, max_bars)
    while len(found) > max_bars and gap_s <= 2 * span_s:
        found = _merged_within(found, gap_s)
        gap_s *= 2
    return found


def utilisation(panel: Panel) -> tuple[list[float], list[float], list[float]]:
    """Times in seconds, and the shares of cores whose tasks wait, and whose tasks do the rest."""
    end_s = max((bar.end_s for bar in panel.bars), default=0.0)
    if end_s <= 0 or panel.num_cores <= 0:
        return [], [], []
    edges = np.linspace(0.0, end_s, _BINS + 1)
    width_s = float(edges[1])
    waiting = _busy_s(((bar.start_s, bar.read_s) for bar in panel.bars), edges)
    rest = _busy_s(((bar.read_s, bar.end_s) for bar in panel.bars), edges)
    scale = 1 / (width_s * panel.num_cores)
    middle = (edges[:-1] + edges[1:]) / 2
    return middle.round(3).tolist(), (waiting * scale).tolist(), (rest * scale).tolist()


def gpu_utilisation(panel: Panel) -> tuple[list[float], list[float]]:
    """Times in seconds, and the shares of GPUs that tasks hold."""
    holding = [bar for bar in panel.bars if bar.gpus > 0]
    if not holding or panel.num_gpus <= 0:
        return [], []
    edges = np.linspace(0.0, max(bar.end_s for bar in panel.bars), _BINS + 1)
    held = np.zeros(_BINS)
    for gpus in sorted({bar.gpus for bar in holding}):
        spans = ((bar.start_s, bar.end_s) for bar in holding if bar.gpus == gpus)
        held += gpus * _busy_s(spans, edges)
    middle = (edges[:-1] + edges[1:]) / 2
    return middle.round(3).tolist(), (held / (float(edges[1]) * panel.num_gpus)).tolist()


def figure_json(panels: Sequence[Panel]) -> dict[str, Any]:
    """Data and layout: of each panel a timeline, and the utilisation under it."""
    data: list[dict[str, Any]] = []
    height = 1 / max(1, 2 * len(panels))
    layout: dict[str, Any] = {
        "barmode": "overlay",
        "showlegend": False,
        "margin": {"l": 90, "r": 20, "t": 30, "b": 40},
        "height": 460 * max(1, len(panels)),
        "annotations": [],
    }
    for at, panel in enumerate(panels):
        top = 1 - 2 * at * height
        rows, cpu = f"y{2 * at + 1}", f"y{2 * at + 2}"
        placed = merged(slots_of(panel.bars), MAX_BARS)
        data += _timeline(panel, placed, rows.replace("y1", "y") if at == 0 else rows)
        data += _shares(panel, cpu)
        layout[_axis(2 * at + 1)] = {
            "domain": [top - 1.1 * height, top - 0.12 * height],
            "type": "category",
            "categoryorder": "category descending",
            "anchor": "x",
            "tickfont": {"size": 9},
        }
        layout[_axis(2 * at + 2)] = {
            "domain": [top - 1.85 * height, top - 1.2 * height],
            "anchor": "x",
            "tickformat": ".0%",
            "rangemode": "tozero",
        }
        drawn = len(placed)
        heading = panel.heading
        if drawn < len(panel.bars):
            heading += (
                f" ({len(panel.bars)} {panel.unit}s drawn as {drawn} bars: neighbours are merged)"
            )
        layout["annotations"].append(
            {"text": _plain(heading), "x": 0, "y": top - 0.1 * height, "xref": "paper",
             "yref": "paper", "yanchor": "bottom", "showarrow": False}
        )  # fmt: skip
    bars = [bar for panel in panels for bar in panel.bars]
    layout["xaxis"] = {
        "title": {"text": "seconds since the start"},
        "anchor": "free",
        "position": 0,
        "range": [
            min((bar.start_s for bar in bars), default=0.0),
            max((bar.end_s for bar in bars), default=1.0),
        ],
    }
    return {"data": data, "layout": layout}


# Private functions


def _axis(number: int) -> str:
    return "yaxis" if number == 1 else f"yaxis{number}"


def _plain(text: str) -> str:
    """For plotly, which takes a few tags in its texts."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _merged_within(placed: list[tuple[str, Bar]], gap_s: float) -> list[tuple[str, Bar]]:
    last: dict[str, int] = {}
    out: list[tuple[str, Bar]] = []
    for row, bar in placed:
        at = last.get(row)
        before = out[at][1] if at is not None else None
        if (
            at is not None
            and before is not None
            and (before.stage, before.group) == (bar.stage, bar.group)
            and bar.start_s - before.end_s <= gap_s
        ):
            # Waits are added up at the front, so that their sum stays what it was.
            waited_s = before.read_s - before.start_s + bar.read_s - bar.start_s
            out[at] = (
                row,
                Bar(
                    stage=bar.stage,
                    executor=bar.executor,
                    start_s=before.start_s,
                    read_s=before.start_s + waited_s,
                    end_s=max(before.end_s, bar.end_s),
                    num_tasks=before.num_tasks + bar.num_tasks,
                    gpus=bar.gpus,
                    group=bar.group,
                ),
            )
        else:
            last[row] = len(out)
            out.append((row, bar))
    return out


def _busy_s(
    spans: Iterable[tuple[float, float]], edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Seconds of the spans in each of the equal bins."""
    pairs = np.array(list(spans), dtype=np.float64).reshape(-1, 2)
    return np.diff(_ramp(pairs[:, 0], edges) - _ramp(pairs[:, 1], edges))


def _ramp(times: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum over times of ``max(0, edge - time)``, at each edge."""
    ordered = np.sort(times)
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    before = np.searchsorted(ordered, edges)
    ramp: NDArray[np.float64] = edges * before - sums[before]
    return ramp


def _timeline(panel: Panel, placed: Sequence[tuple[str, Bar]], axis: str) -> list[dict[str, Any]]:
    computing, waiting = [], []
    for row, bar in placed:
        name = _plain(" ".join(panel.stage_names[bar.stage].split())[:120])
        unit = _plain(panel.unit)
        tasks = f"1 {unit}" if bar.num_tasks == 1 else f"{bar.num_tasks} {unit}s"
        group = f" of {_plain(bar.group)}" if bar.group else ""
        where = f"{group} on {_plain(panel.place)} {_plain(row)}"
        text = (
            f"{name}<br>{tasks}{where}<br>{bar.start_s:.2f} to {bar.end_s:.2f} s, "
            f"of it waiting {bar.read_s - bar.start_s:.2f} s"
        )
        computing.append((row, bar.start_s, bar.end_s, _COLOURS[bar.stage % len(_COLOURS)], text))
        if bar.read_s > bar.start_s:
            waiting.append((row, bar.start_s, bar.read_s, "rgba(255,255,255,0.55)", text))
    delayed = [
        (
            f"{hold.executor}/held",
            hold.start_s,
            hold.end_s,
            "rgba(120,120,120,0.45)",
            _plain(hold.text),
        )
        for hold in panel.holds
    ]
    return [_bars(rows, axis) for rows in (computing, waiting, delayed) if rows]


def _bars(rows: Sequence[tuple[str, float, float, str, str]], axis: str) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "y": [row for row, *_ in rows],
        "base": [round(start, 3) for _, start, *_ in rows],
        "x": [round(end - start, 3) for _, start, end, *_ in rows],
        "marker": {"color": [colour for *_, colour, _ in rows], "line": {"width": 0}},
        "hovertext": [text for *_, text in rows],
        "hoverinfo": "text",
        "yaxis": axis,
    }


def _shares(panel: Panel, axis: str) -> list[dict[str, Any]]:
    times, waiting, rest = utilisation(panel)
    gpu_times, gpus = gpu_utilisation(panel)
    lines: list[dict[str, Any]] = [
        {"type": "scatter", "mode": "lines", "x": gpu_times, "y": gpus, "yaxis": axis,
         "name": "GPUs held", "line": {"width": 2, "color": "#aa3377"}}
    ] if gpus else []  # fmt: skip
    return [
        {"type": "scatter", "mode": "lines", "x": times, "y": share, "yaxis": axis,
         "stackgroup": axis, "name": name, "line": {"width": 0}, "fillcolor": colour}
        for share, name, colour in ((rest, panel.busy, "#4477aa"), (waiting, "waiting for I/O", "#ccbb44"))
    ] + lines  # fmt: skip
