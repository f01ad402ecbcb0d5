"""The benchmark's tables: medians, and whether what is required was reached."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich import box
from rich.table import Table

from jobs.merge_bench.cases import (
    APART,
    DAGOPT,
    DECODED,
    MEDIUM,
    MODES,
    RAY,
    SERIAL,
    SMALL,
    SPARK_TASK,
)
from jobs.merge_bench.runner import Measurement

OTHERS = "best other"
REQUIRED = (
    (SMALL, SPARK_TASK, 6.0),
    (SMALL, OTHERS, 4.0),
    (SMALL, RAY, 6.0),
    (MEDIUM, OTHERS, 1.4),
    (DECODED, OTHERS, 3.0),
    (APART, OTHERS, 0.95),
)
"""Case, what dagopt is compared with, and by how much it must be faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One thing that is required."""

    what: str
    wanted: str
    found: str
    is_reached: bool


def median_s(rows: Sequence[Measurement], case: str, mode: str) -> float | None:
    """Median of the elapsed seconds; None where there is no run."""
    found = [row.elapsed_s for row in rows if (row.case, row.mode) == (case, mode)]
    return statistics.median(found) if found else None


def verdicts(rows: Sequence[Measurement], worst_error: float | None) -> list[Verdict]:
    """What is required, as far as it was measured.

    Args:
        rows: all runs.
        worst_error: largest relative difference of a loss of ``dagopt`` from its serial run.
    """
    told = []
    for case, other, factor in REQUIRED:
        own_s = median_s(rows, case, DAGOPT)
        modes = [mode for mode in MODES if mode != DAGOPT] if other == OTHERS else [other]
        others_s = [found for mode in modes if (found := median_s(rows, case, mode)) is not None]
        if own_s is None or not others_s:
            continue
        ratio = min(others_s) / own_s
        told.append(
            Verdict(
                what=f"{case}: {other} / dagopt",
                wanted=f">= {factor:g}",
                found=f"{ratio:.2f}",
                is_reached=ratio >= factor,
            )
        )
    if worst_error is not None:
        told.append(
            Verdict(
                what="losses against serial runs, relative",
                wanted="<= 1e-05",
                found=f"{worst_error:.1e}",
                is_reached=worst_error <= 1e-5,
            )
        )
    shares = [
        group["peak_bytes"] / group["predicted_bytes"]
        for row in rows
        for group in row.groups
        if group["predicted_bytes"]
    ]
    if shares:
        told.append(
            Verdict(
                what="largest memory of a group / predicted",
                wanted="<= 1.15",
                found=f"{max(shares):.2f}",
                is_reached=max(shares) <= 1.15,
            )
        )
    return told


def worst_error(folder: Path, cases: Sequence[str]) -> float | None:
    """Largest relative difference between losses of ``dagopt`` and ``serial``; None without both."""
    errors = []
    for case in cases:
        files = [folder / f"{case}-{mode}.npy" for mode in (SERIAL, DAGOPT)]
        if all(file.exists() for file in files):
            expected, found = (np.load(file) for file in files)
            errors.append(float(np.max(np.abs(found - expected) / np.abs(expected))))
    return max(errors, default=None)


def measurement_table(rows: Sequence[Measurement]) -> Table:
    """Medians, a case a row."""
    table = Table(title="Seconds of 64 trials, medians", box=box.SIMPLE)
    table.add_column("case")
    for mode in MODES:
        table.add_column(mode, justify="right")
    for case in dict.fromkeys(row.case for row in rows):
        seconds = [median_s(rows, case, mode) for mode in MODES]
        table.add_row(case, *("" if found is None else f"{found:.2f}" for found in seconds))
    return table


def verdict_table(found: Sequence[Verdict]) -> Table:
    """What is required."""
    table = Table(title="Required", box=box.SIMPLE)
    for column in ("what", "required", "found", ""):
        table.add_column(column)
    for one in found:
        told = "[green]yes[/]" if one.is_reached else "[red]no[/]"
        table.add_row(one.what, one.wanted, one.found, told)
    return table
