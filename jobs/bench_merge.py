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
from jobs.merge_bench.report import measurement_table, verdict_table, verdicts, worst_error
from jobs.merge_bench.runner import Measurement, RunError, run_mode
from jobs.overlap.modes import in_turn
from jobs.overlap.options import bench_options, names
from jobs.overlap.steps import Steps


@click.command(help=__doc__, context_settings={"show_default": True})
@bench_options(
    names(*CASES, with_spaces=True),
    tuple(CASES),
    MODES,
    {"repetitions": "Runs of each mode.", "out": "Folder of merge.json."},
)
@click.option(
    "--scale",
    type=click.FloatRange(0.001),
    envvar="SCALE",
    default=1.0,
    help="Iterations of a trial, as a share.",
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
                for mode in in_turn(modes, repetition):
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
