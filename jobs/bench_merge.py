"""Measure what merging trials gains, against one trial a Spark task, Optuna and Ray Tune, on two cores.

Every mode trains the same 64 trials with the same data, seeds and parameters, in a process of its own
that is warm; starting Spark or Ray is not measured. Writes merge.json, and the losses of each mode.

    make bench-merge
    CASES="small MLP" MODES=serial,dagopt REPETITIONS=1 .venv/bin/python -m jobs.bench_merge
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console

from jobs.merge_bench.cases import CASES, MODES
from jobs.merge_bench.report import (
    OUT_DIR,
    measurement_table,
    verdict_table,
    verdicts,
    worst_error,
)
from jobs.merge_bench.runner import Measurement, RunError, run_mode
from jobs.overlap.options import names
from jobs.overlap.steps import Steps


@click.command(help=__doc__, context_settings={"show_default": True})
@click.option(
    "--cases",
    callback=names(*CASES, with_spaces=True),
    envvar="CASES",
    default=",".join(CASES),
    help="Cases to run.",
)
@click.option(
    "--modes",
    callback=names(*MODES),
    envvar="MODES",
    default=",".join(MODES),
    help="Modes to compare.",
)
@click.option(
    "--repetitions",
    type=click.IntRange(1),
    envvar="REPETITIONS",
    default=3,
    help="Runs of each mode.",
)
@click.option(
    "--scale",
    type=click.FloatRange(0.001),
    envvar="SCALE",
    default=1.0,
    help="Iterations of a trial, as a share.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=OUT_DIR,
    help="Folder of merge.json.",
)
def main(
    cases: tuple[str, ...], modes: tuple[str, ...], repetitions: int, scale: float, out: Path
) -> None:
    """Run the cases, write merge.json, print the tables."""
    out.mkdir(parents=True, exist_ok=True)
    rows: list[Measurement] = []
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="merge-", dir=out) as name:
        folder = Path(name)
        with Steps(repetitions * len(modes)) as step:
            for repetition in range(repetitions):
                for mode in modes[repetition % len(modes) :] + modes[: repetition % len(modes)]:
                    step(f"{mode}, repetition {repetition + 1}")
                    try:
                        rows += run_mode(mode, cases, scale, folder)
                    except RunError as error:
                        failures.append(str(error))
                        saved = out / f"merge-{mode}.log"
                        saved.write_bytes((folder / f"{mode}.log").read_bytes())
        largest = worst_error(folder, cases)
    written = json.dumps([row.row() for row in rows], indent=1)
    (out / "merge.json").write_text(f"{written}\n", encoding="utf-8")
    groups = [{"case": row.case, **group} for row in rows for group in row.groups]
    (out / "merge-groups.json").write_text(json.dumps(groups, indent=1), encoding="utf-8")
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(measurement_table(rows))
    console.print(verdict_table(verdicts(rows, largest)))
    console.print(f"Wrote {out / 'merge.json'}")
    for failure in failures:
        console.print(f"[red]failed:[/] {failure}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
