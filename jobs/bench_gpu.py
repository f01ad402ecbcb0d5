"""Measure what dagopt gains in GPU stages, against stock Spark and Ray Data, with an emulated GPU.

A fake GPU is offered by a discovery script; its kernel is a timed wait under a lock for the device.
Decoding is a timed wait on one of NUM_CORES emulated cores, since two physical ones cannot stand
for those beside a GPU; in the case "real 4:1" it is JPEG decode and resize on the machine's own two.
Writes gpu.json and an event log of every mode.

    make bench-gpu
    CASES="8:1 1 KB,real 4:1" MODES=fused,dagopt REPETITIONS=1 .venv/bin/python -m jobs.bench_gpu
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import click
from rich.console import Console

from jobs.gpu_bench.cases import CASES
from jobs.gpu_bench.measure import Measurement
from jobs.gpu_bench.modes import DAGOPT, FIRST, MODES
from jobs.gpu_bench.report import measurement_table, verdict_table, verdicts
from jobs.gpu_bench.runner import Plan, num_steps, run_cases
from jobs.overlap.modes import ModeError
from jobs.overlap.options import bench_options, names
from jobs.overlap.steps import Steps
from jobs.predictions import gpu_predictions, prediction_table


@click.command(help=__doc__, context_settings={"show_default": True})
@bench_options(
    names(*CASES, with_spaces=True),
    tuple(CASES),
    MODES,
    {
        "repetitions": "Measured runs a mode, beside the first one of dagopt.",
        "out": "Folder of gpu.json, event logs and logs.",
    },
)
@click.option(
    "--num-cores",
    type=click.IntRange(2, 64),
    envvar="NUM_CORES",
    default=8,
    help="Emulated cores, and the slots of the executor.",
)
@click.option(
    "--scale",
    type=click.FloatRange(0.01),
    envvar="SCALE",
    default=1.0,
    help="Length of the tasks; at 1 one takes 0.75 to 7.2 s.",
)
@click.option(
    "--batches",
    type=click.IntRange(1),
    envvar="BATCHES",
    default=1,
    help="Arrow batches a task.",
)
def main(
    cases: tuple[str, ...],
    modes: tuple[str, ...],
    repetitions: int,
    num_cores: int,
    scale: float,
    batches: int,
    out: Path,
) -> None:
    """Run the cases, write gpu.json, print the tables."""
    # Its applications are process groups of their own, and are ended on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    out.mkdir(parents=True, exist_ok=True)
    plan = Plan(
        num_cores=num_cores,
        repetitions=repetitions,
        scale=scale,
        batches=batches,
        modes=modes,
        out_dir=out.resolve(),
    )
    console = Console(width=None if sys.stdout.isatty() else 160)
    failures: list[str] = []
    chosen = [CASES[name] for name in cases]
    parts = [[case for case in chosen if case.is_real == is_real] for is_real in (False, True)]
    parts = [part for part in parts if part]
    measurements: list[Measurement] = []
    try:
        with Steps(sum(num_steps(part, plan) for part in parts)) as step:
            for part in parts:
                measurements += run_cases(part, plan, step, failures)
                rows = json.dumps([row.row() for row in measurements], indent=1)
                (out / "gpu.json").write_text(f"{rows}\n", encoding="utf-8")
    except ModeError as error:
        raise click.ClickException(f"{error} (or leave {DAGOPT} out of --modes)") from error
    console.print(measurement_table(measurements))
    if DAGOPT in modes:
        console.print(
            verdict_table(verdicts(measurements), "Required, costs known from a run before")
        )
        first = verdicts(measurements, FIRST)
        console.print(verdict_table(first, "The same for the first run of each case"))
        console.print(prediction_table(gpu_predictions(out)))
    console.print(f"Wrote {out / 'gpu.json'}")
    for failure in failures:
        console.print(f"[red]failed:[/] {failure}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
