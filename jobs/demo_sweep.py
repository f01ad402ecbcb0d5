"""The third part of ``make demo``: a small form of ``sweep.py`` on a local cluster of two cores."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from jobs.demo import RunError, submit

JOB = Path(__file__).resolve().parent / "sweep.py"
DEMO_DIR = JOB.parent.parent / "build" / "demo-sweep"


@click.command(epilog="example: python -m jobs.demo_sweep --trials 8")
@click.option("--trials", type=click.IntRange(min=2), default=16, show_default=True)
def main(trials: int) -> None:
    """Sweep digits and flight delays, and print what was merged."""
    shutil.rmtree(DEMO_DIR, ignore_errors=True)
    DEMO_DIR.mkdir(parents=True)
    conf = {
        "spark.master": "local-cluster[1,2,1024]",
        "spark.executorEnv.PYTHONPATH": str(JOB.parent.parent),
    }
    arguments = ["--trials", str(trials), "--iterations", "100", "--flights", "5000"]
    try:
        elapsed_s = submit(JOB, DEMO_DIR, conf, [*arguments, "--html", str(DEMO_DIR)])
    except RunError as error:
        raise click.ClickException(str(error)) from error
    names = ("digits, ", "flights, ", "  ")
    for line in (DEMO_DIR / "spark.log").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith(names) and "trial" in line:
            print(line)
    print(f"four sweeps of {trials} trials in {elapsed_s:.1f} s; pages in {DEMO_DIR}")


if __name__ == "__main__":
    sys.exit(main())
