"""The benchmark's table: medians, ratios, and whether what is required was reached."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

from jobs.overlap.modes import DAGOPT, MODES, STOCK_SLOTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobs.overlap.measure import Measurement

BEST_STOCK = "best stock"

STAGE_RATIOS: dict[str, tuple[tuple[str, float], ...]] = {
    "balanced-many-waves": (("stock-1x", 1.7), (BEST_STOCK, 1.0)),
    "balanced-one-wave": (("stock-4x", 1.15),),
    "two-sources": ((BEST_STOCK, 1.5),),
    "mixed": ((BEST_STOCK, 1.15),),
    "compute-only": (("stock-1x", 0.97),),
    "tiny-stages": (("stock-1x", 0.97),),
}
"""For each case: stage time of this stock mode over that of dagopt, at least."""

TASK_RATIO = ("balanced-one-wave", "stock-4x", 0.6)
"""In this case, mean task run time of dagopt over that of the mode, at most."""

BOUND_FACTOR = 1.25
"""dagopt's stage time over the lower bound, once one fetch is taken off, at most."""

UNBOUNDED = ("tiny-stages",)
"""Cases whose time is Spark's own scheduling, for which the bound has no term."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One requirement and what was measured."""

    case: str
    text: str
    required: float
    at_least: bool
    measured: float | None
    """None: dagopt was not measured."""

    target_s: float
    """The stage time (or task run time) of dagopt that would just do."""

    @property
    def is_met(self) -> bool | None:
        """Whether it was reached; None if dagopt was not measured."""
        if self.measured is None:
            return None
        return self.measured >= self.required if self.at_least else self.measured <= self.required


def median(rows: Sequence[Measurement], value: Callable[[Measurement], float]) -> float:
    """Median of a number over repetitions; NaN without any."""
    return statistics.median(map(value, rows)) if rows else float("nan")


def verdicts(measurements: Sequence[Measurement]) -> list[Verdict]:
    """Every requirement that concerns the measured cases."""
    found = []
    for case in dict.fromkeys(row.case for row in measurements):
        rows = {
            mode: [r for r in measurements if (r.case, r.mode) == (case, mode)] for mode in MODES
        }
        rows = {mode: runs for mode, runs in rows.items() if runs}
        stage_s = {mode: median(runs, lambda row: row.stage_s) for mode, runs in rows.items()}
        stock = {mode: stage_s[mode] for mode in stage_s if mode in STOCK_SLOTS}
        ours_s = stage_s.get(DAGOPT)
        for mode, required in STAGE_RATIOS.get(case, ()):
            base_s = min(stock.values(), default=None) if mode == BEST_STOCK else stock.get(mode)
            if base_s is not None:
                found.append(
                    Verdict(
                        case=case,
                        text=f"{mode} / dagopt",
                        required=required,
                        at_least=True,
                        measured=base_s / ours_s if ours_s else None,
                        target_s=base_s / required,
                    )
                )
        if case == TASK_RATIO[0] and TASK_RATIO[1] in rows:
            base_s = median(rows[TASK_RATIO[1]], lambda row: row.task_run_s_mean)
            mine = median(rows.get(DAGOPT, []), lambda row: row.task_run_s_mean)
            found.append(
                Verdict(
                    case=case,
                    text=f"task: dagopt / {TASK_RATIO[1]}",
                    required=TASK_RATIO[2],
                    at_least=False,
                    measured=mine / base_s if DAGOPT in rows else None,
                    target_s=base_s * TASK_RATIO[2],
                )
            )
        if case not in UNBOUNDED:
            found.append(_bound_verdict(case, rows.get(DAGOPT, []), rows))
    return found


def _bound_verdict(
    case: str, ours: Sequence[Measurement], rows: dict[str, list[Measurement]]
) -> Verdict:
    anybody = ours or next(iter(rows.values()))
    bound_s = median(anybody, lambda row: row.lower_bound_s)
    fetch_s = median(anybody, lambda row: row.one_fetch_s)
    ratio = (median(ours, lambda row: row.stage_s) - fetch_s) / bound_s if ours else None
    return Verdict(
        case=case,
        text="(dagopt-fetch) / bound",
        required=BOUND_FACTOR,
        at_least=False,
        measured=ratio,
        target_s=BOUND_FACTOR * bound_s + fetch_s,
    )


def measurement_table(measurements: Sequence[Measurement]) -> Table:
    """Medians of every case and mode."""
    table = _table("Medians over repetitions, in seconds", "case", "mode")
    for name in ("stage", "range", "bound", "task", "idle", "spill MB"):
        table.add_column(name, justify="right", no_wrap=True)
    table.caption = (
        "bound: no schedule is faster; task: mean run time; idle: slot time lost by holds"
    )
    last_case = ""
    for case, mode in dict.fromkeys((row.case, row.mode) for row in measurements):
        rows = [row for row in measurements if (row.case, row.mode) == (case, mode)]
        stage_s = [row.stage_s for row in rows]
        if last_case and case != last_case:
            table.add_section()
        table.add_row(
            case if case != last_case else "",
            mode,
            f"{statistics.median(stage_s):.2f}",
            f"{min(stage_s):.2f}..{max(stage_s):.2f}",
            f"{median(rows, lambda row: row.lower_bound_s):.2f}",
            f"{median(rows, lambda row: row.task_run_s_mean):.2f}",
            f"{median(rows, lambda row: row.idle_hold_s):.2f}",
            f"{median(rows, lambda row: row.spilled_bytes) / 1e6:.0f}",
        )
        last_case = case
    return table


def verdict_table(found: Sequence[Verdict]) -> Table:
    """Requirements, measured values, and met or not met."""
    table = _table("Required of dagopt", "case", "ratio")
    for name in ("must be", "is", "met at", ""):
        table.add_column(name, justify="right", no_wrap=True)
    words = {True: "[green]met[/]", False: "[red]not met[/]", None: "not run"}
    for verdict in found:
        table.add_row(
            verdict.case,
            verdict.text,
            f"{'>=' if verdict.at_least else '<='} {verdict.required:.2f}",
            "-" if verdict.measured is None else f"{verdict.measured:.2f}",
            f"{verdict.target_s:.2f}",
            words[verdict.is_met],
        )
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, box=box.SIMPLE, padding=(0, 1, 0, 0))
    table.title_justify = table.caption_justify = "left"
    for name in columns:
        table.add_column(name, no_wrap=True)
    return table
