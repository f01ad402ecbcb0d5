"""The benchmark's tables: medians, and whether what is required was reached.

What is required of ``dagopt`` is judged twice: for the runs that know the costs from a run before, and
for the first run of each case, which measures a first slice. Only the former are medians of several.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table

from jobs.gpu_bench.cases import CASES, REAL
from jobs.gpu_bench.measure import Measurement
from jobs.gpu_bench.modes import DAGOPT, FIRST, FUSED, HAND, RAY, STOCK

BEST_STOCK = "best of fused and hand"
SMALL = ("1 KB", "100 KB")

RATIOS: tuple[tuple[Sequence[str], str, float], ...] = (
    ([f"{ratio} {size}" for ratio in ("8:1", "4:1") for size in SMALL], FUSED, 3.0),
    ([f"{ratio} {size}" for ratio in ("8:1", "4:1") for size in SMALL], HAND, 1.2),
    ([f"1:1 {size}" for size in SMALL], FUSED, 1.15),
    (
        [name for name in CASES if name.startswith(("1:4", "1:8")) or name.endswith("1 MB")],
        BEST_STOCK,
        0.95,
    ),
    ([REAL], FUSED, 1.6),
)
"""Cases, a mode, and its time over that of dagopt, at least."""

RAY_RATIO, RAY_SHARE = 1.0, 0.5
"""Time of Ray over that of dagopt, at least, in at least this share of the cases."""

BUSY_SHARE = 0.9
"""Of the seconds that GPUs were allocated, where the stage was split, at least."""

BEST_FACTOR, BEST_SHARE = 1.05, 0.9
"""dagopt's time over that of the fastest Spark mode, at most, in at least this share of the cases."""

PREDICTED_ERROR = 0.25
"""Difference of predicted and measured seconds as a share of the latter, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One requirement and what was measured."""

    text: str
    required: float
    at_least: bool
    measured: float

    @property
    def is_met(self) -> bool:
        """Whether it was reached."""
        return self.measured >= self.required if self.at_least else self.measured <= self.required


class Medians:
    """Medians over the runs of a case in a mode; None where there are none."""

    def __init__(self, measurements: Sequence[Measurement]) -> None:
        self._rows: dict[tuple[str, str], list[Measurement]] = {}
        for row in measurements:
            self._rows.setdefault((row.case, row.mode), []).append(row)
        self.cases = list(dict.fromkeys(row.case for row in measurements))

    def rows(self, case: str, mode: str) -> list[Measurement]:
        """All runs."""
        return self._rows.get((case, mode), [])

    def of(
        self, case: str, mode: str, value: Callable[[Measurement], float | None]
    ) -> float | None:
        """Median of a number."""
        found = [one for one in map(value, self.rows(case, mode)) if one is not None]
        return statistics.median(found) if found else None

    def elapsed_s(self, case: str, mode: str) -> float | None:
        """Median seconds; of the faster one for ``BEST_STOCK``."""
        if mode == BEST_STOCK:
            both = [self.elapsed_s(case, stock) for stock in STOCK]
            return min((one for one in both if one is not None), default=None)
        return self.of(case, mode, lambda row: row.elapsed_s)

    def ratio(self, case: str, mode: str, ours: str) -> float | None:
        """Time of a mode over that of dagopt."""
        base_s, ours_s = self.elapsed_s(case, mode), self.elapsed_s(case, ours)
        return base_s / ours_s if base_s is not None and ours_s else None


def verdicts(measurements: Sequence[Measurement], ours: str = DAGOPT) -> list[Verdict]:
    """Every requirement that concerns the measured cases and modes.

    Args:
        measurements: all runs.
        ours: the mode to judge, ``dagopt`` or ``dagopt-first``.
    """
    medians = Medians(measurements)
    found = []
    for cases, mode, required in RATIOS:
        for case in (case for case in medians.cases if case in cases):
            ratio = medians.ratio(case, mode, ours)
            if ratio is not None:
                text = f"{case}: {mode} / {ours}"
                found.append(_verdict(text, ratio, required))
    for case in medians.cases:
        found += _of_case(medians, case, ours)
    ray = [medians.ratio(case, RAY, ours) for case in medians.cases]
    found += _share(f"{RAY} / {ours} >= {RAY_RATIO}, share of the cases", ray, RAY_RATIO, RAY_SHARE)
    best = [medians.ratio(case, BEST_STOCK, ours) for case in medians.cases]
    text = f"{ours} is the fastest Spark mode or within 5 % of it, share of the cases"
    found += _share(text, best, 1 / BEST_FACTOR, BEST_SHARE)
    return found


def _of_case(medians: Medians, case: str, ours: str) -> list[Verdict]:
    found = []
    rows = medians.rows(case, ours)
    split = [row for row in rows if row.gpu_allocated_s and not row.form.endswith("fused")]
    if split:
        share = statistics.median(row.gpu_busy_s / (row.gpu_allocated_s or 1) for row in split)
        found.append(_verdict(f"{case}: {ours}, busy / allocated", share, BUSY_SHARE))
    errors = [
        abs(row.predicted_s - row.elapsed_s) / row.elapsed_s
        for row in rows
        if row.predicted_s is not None
    ]
    if errors:
        text = f"{case}: {ours}, predicted, relative error"
        found.append(_verdict(text, statistics.median(errors), PREDICTED_ERROR, at_least=False))
    return found


def _share(
    text: str, ratios: Sequence[float | None], required: float, share: float
) -> list[Verdict]:
    known = [ratio for ratio in ratios if ratio is not None]
    if not known:
        return []
    reached = sum(ratio >= required for ratio in known) / len(known)
    return [_verdict(text, reached, share)]


def _verdict(text: str, measured: float, required: float, *, at_least: bool = True) -> Verdict:
    return Verdict(text=text, required=required, at_least=at_least, measured=measured)


def measurement_table(measurements: Sequence[Measurement]) -> Table:
    """Medians of every case and mode."""
    medians = Medians(measurements)
    table = _table("Medians over repetitions, in seconds", "case", "mode", "form")
    for name in ("elapsed", "range", "allocated", "busy", "predicted"):
        table.add_column(name, justify="right", no_wrap=True)
    table.caption = f"{FIRST}: one run, which measures a first slice and decides the rest with it"
    for case in medians.cases:
        table.add_section()
        for mode in dict.fromkeys(row.mode for row in measurements if row.case == case):
            rows = medians.rows(case, mode)
            elapsed_s = [row.elapsed_s for row in rows]
            table.add_row(
                case,
                mode,
                " | ".join(dict.fromkeys(row.form for row in rows)),
                f"{statistics.median(elapsed_s):.2f}",
                f"{min(elapsed_s):.2f}..{max(elapsed_s):.2f}",
                _text(medians.of(case, mode, lambda row: row.gpu_allocated_s)),
                _text(medians.of(case, mode, lambda row: row.gpu_busy_s)),
                _text(medians.of(case, mode, lambda row: row.predicted_s)),
            )
    return table


def verdict_table(found: Sequence[Verdict], title: str) -> Table:
    """Requirements, measured values, and met or not met."""
    table = _table(title, "ratio")
    for name in ("must be", "is", ""):
        table.add_column(name, justify="right", no_wrap=True)
    for verdict in found:
        table.add_row(
            verdict.text,
            f"{'>=' if verdict.at_least else '<='} {verdict.required:.2f}",
            f"{verdict.measured:.2f}",
            "[green]met[/]" if verdict.is_met else "[red]not met[/]",
        )
    return table


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, box=box.SIMPLE, padding=(0, 1, 0, 0))
    table.title_justify = table.caption_justify = "left"
    for name in columns:
        table.add_column(name, no_wrap=True)
    return table
