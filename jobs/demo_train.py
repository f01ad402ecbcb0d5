"""The fourth part of ``make demo``: a small form of ``train_jobs.py`` on a local cluster of fake accelerators."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import click

from jobs.demo import RunError, submit
from jobs.gpu_bench.modes import fake_gpus

JOB = Path(__file__).resolve().parent / "train_jobs.py"
DEMO_DIR = JOB.parent.parent / "build" / "demo-train"


@click.command(epilog="example: python -m jobs.demo_train --scale 0.5")
@click.option("--scale", type=click.FloatRange(0.01), default=0.25, show_default=True)
def main(scale: float) -> None:
    """Train on digits, flight delays and photographs together, and print what was moved."""
    if importlib.util.find_spec("torch") is None:
        print("training jobs: left out, they need torch (pip install 'dagopt[train]')")
        return
    shutil.rmtree(DEMO_DIR, ignore_errors=True)
    DEMO_DIR.mkdir(parents=True)
    conf = {
        "spark.master": "local-cluster[2,2,1024]",
        "spark.executor.cores": "2",
        "spark.executorEnv.PYTHONPATH": str(JOB.parent.parent),
        "spark.python.daemon.module": "dagopt.train.daemon",
        **fake_gpus(DEMO_DIR, 2),
    }
    try:
        elapsed_s = submit(JOB, DEMO_DIR, conf, ["--scale", str(scale), "--interval-s", "2"])
    except RunError as error:
        raise click.ClickException(str(error)) from error
    names = ("digits: ", "flights: ", "photographs: ", "  move of ")
    for line in (DEMO_DIR / "spark.log").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith(names):
            print(line)
    print(f"three training jobs on four accelerators in {elapsed_s:.1f} s")


if __name__ == "__main__":
    sys.exit(main())
