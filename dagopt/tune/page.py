"""The HTML page of a sweep: its groups on a time axis, why each ran as it did, and its trials."""

from __future__ import annotations

from collections.abc import Sequence

import dagopt
from dagopt.errors import last_line
from dagopt.reporting.figure import Bar, Panel
from dagopt.reporting.page import Page, render
from dagopt.reporting.table import PageTable
from dagopt.tune.records import PhaseRecord, TrialResult
from dagopt.units import format_bytes, format_s


def sweep_page(summary: str, phases: Sequence[PhaseRecord], results: Sequence[TrialResult]) -> str:
    """The page as HTML."""
    modes = sorted({one.mode for one in phases})
    began_s = min((one.start_s for one in phases), default=0.0)
    bars = tuple(
        Bar(
            stage=modes.index(one.mode),
            executor=one.place or "driver",
            start_s=one.start_s - began_s,
            read_s=one.start_s - began_s,
            end_s=one.start_s - began_s + one.elapsed_s,
        )
        for one in phases
    )
    groups = tuple(
        (
            str(one.phase),
            one.mode,
            str(len(one.trials)),
            format_s(one.predicted_s),
            format_s(one.elapsed_s),
            format_bytes(one.predicted_bytes),
            format_bytes(one.peak_bytes),
            one.reason,
        )
        for one in phases
    )
    trials = tuple(
        (
            str(one.number),
            one.status,
            "" if one.loss is None else f"{one.loss:.6g}",
            str(len(one.losses)),
            str(one.num_merged),
            ", ".join(f"{name}={value}" for name, value in sorted(one.params.items())),
            last_line(one.error),
        )
        for one in results
    )
    columns = ("phase", "mode", "trials", "predicted", "took", "predicted memory", "peak", "why")
    return render(
        Page(
            title="dagopt: sweep",
            verdict=summary,
            lines=(),
            panels=(
                Panel(heading="groups by mode", bars=bars, stage_names=tuple(modes), num_cores=1.0),
            ),
            tables=(
                PageTable(heading="Groups", columns=columns, rows=groups),
                PageTable(
                    heading="Trials",
                    columns=(
                        "trial", "status", "loss", "iterations", "merged", "parameters", "error",
                    ),
                    rows=trials,
                ),
            ),
            notes=(),
            properties="",
            provenance=(("dagopt", dagopt.__version__),),
        )
    )  # fmt: skip
