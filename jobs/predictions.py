"""Whether ``dagopt advise`` tells from a stock run's event log what the same run takes with dagopt.

Reads what make bench-overlap and make bench-gpu left in OUT: what they measured, and the event logs of
their runs. For each case and each run of stock Spark, the time predicted is the measured one less what
advise says would be saved; its median is held against that of dagopt's own runs. The stock runs of
bench-overlap are those with one task slot a core, as dagopt asks for; where a case has none, those
with the fewest, and advise is told how many.

    python -m jobs.predictions             after the benchmarks
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import click
from rich import box
from rich.console import Console
from rich.table import Table

from dagopt.app.advise import advise
from dagopt.app.what_if import Cluster
from jobs.gpu_bench.cases import CASES
from jobs.gpu_bench.modes import DAGOPT, FUSED
from jobs.overlap.event_log import split_log
from jobs.overlap.modes import STOCK_SLOTS
from jobs.overlap.options import BENCH_DIR

MAX_ERROR = 0.2
"""Difference of predicted and measured seconds as a share of the latter, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One case; seconds are medians over the repetitions."""

    case: str
    stock_mode: str
    stock_s: float
    predicted_s: float
    measured_s: float
    """Of the runs with dagopt."""

    @property
    def error_fraction(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted_s / self.measured_s - 1

    @property
    def is_met(self) -> bool:
        """Whether it is near enough."""
        return abs(self.error_fraction) <= MAX_ERROR


def predictions_of(out: Path) -> list[Prediction]:
    """All that can be said of the folder's benchmarks; cases without stock runs or logs are left out."""
    return [*overlap_predictions(out), *gpu_predictions(out)]


def overlap_predictions(out: Path) -> list[Prediction]:
    """From ``overlap.json``, and a log of each run."""
    found = []
    for case, seconds in _measured(out / "overlap.json", "stage_s").items():
        modes = [mode for mode in STOCK_SLOTS if mode in seconds]
        if modes and DAGOPT in seconds:
            cluster = Cluster(recorded_slots_per_core=STOCK_SLOTS[modes[0]])
            logs = [
                out / "eventlogs" / f"{case}-{modes[0]}-{run}"
                for run in range(1, len(seconds[modes[0]]) + 1)
            ]
            found += _prediction(case, modes[0], seconds, logs, cluster)
    return found


def gpu_predictions(out: Path) -> list[Prediction]:
    """From ``gpu.json``, and one log of the runs of all cases, told apart by their job groups."""
    found = []
    for case, seconds in _measured(out / "gpu.json", "elapsed_s").items():
        log = out / ("gpu-real" if CASES[case].is_real else "gpu-sweep") / f"{FUSED}.events"
        if FUSED in seconds and DAGOPT in seconds and log.is_file():
            with tempfile.TemporaryDirectory(prefix="dagopt-runs-") as folder:
                logs = {
                    f"{CASES[case].key}-{FUSED}-{run}": Path(folder) / str(run)
                    for run in range(1, len(seconds[FUSED]) + 1)
                }
                split_log(log, logs)
                found += _prediction(case, FUSED, seconds, logs.values(), Cluster())
    return found


def prediction_table(predictions: list[Prediction]) -> Table:
    """Of each case what was predicted and measured, and whether that is near enough."""
    table = Table(title="dagopt as predicted from the stock log, seconds", box=box.SIMPLE)
    for name in ("case", "stock log"):
        table.add_column(name, no_wrap=True)
    for name in ("stock", "predicted", "measured", "error", f"<= {MAX_ERROR:.0%}"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in predictions:
        table.add_row(
            each.case,
            each.stock_mode,
            f"{each.stock_s:.2f}",
            f"{each.predicted_s:.2f}",
            f"{each.measured_s:.2f}",
            f"{each.error_fraction:+.0%}",
            "[green]met[/]" if each.is_met else "[red]not met[/]",
        )
    return table


# Private functions


def _measured(path: Path, column: str) -> dict[str, dict[str, list[float]]]:
    """Seconds of all runs, in their order, by case and mode; nothing where there is no such file."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []:
        found.setdefault(row["case"], {}).setdefault(row["mode"], []).append(row[column])
    return found


def _prediction(
    case: str, mode: str, seconds: dict[str, list[float]], logs: Iterable[Path], cluster: Cluster
) -> list[Prediction]:
    """One, or none where no run has its log."""
    predicted_s = [
        stock_s - sum(stage.saved_s or 0.0 for stage in advise(log, cluster).stages)
        for stock_s, log in zip(seconds[mode], logs, strict=True)
        if log.is_file()
    ]
    if not predicted_s:
        return []
    return [
        Prediction(
            case=case,
            stock_mode=mode,
            stock_s=statistics.median(seconds[mode]),
            predicted_s=statistics.median(predicted_s),
            measured_s=statistics.median(seconds[DAGOPT]),
        )
    ]


@click.command(help=__doc__)
@click.argument(
    "out",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    default=BENCH_DIR,
)
def main(out: Path) -> None:
    """Print the table; exit code 1 where a prediction is too far off."""
    predictions = predictions_of(out)
    if not predictions:
        raise click.ClickException(f"{out}: no benchmark ran there with dagopt and a stock mode")
    Console(width=None if sys.stdout.isatty() else 160).print(prediction_table(predictions))
    sys.exit(0 if all(each.is_met for each in predictions) else 1)


if __name__ == "__main__":
    main()
