"""The second part of ``make demo``: a job with a GPU step, with dagopt off and on.

It starts ``gpu_inference.py`` by spark-submit on a local cluster whose executor offers two cores and
a GPU that is not there, so the network runs on numpy and its work takes a core of the machine.
What it shows is equal rows, the form of the GPU stage and why, and for how long the GPU was held.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import click
import pyarrow.dataset
from rich.console import Console

from jobs.demo import RunError, plugin_conf, read_decisions, submit, times_table, verdict
from jobs.gpu_bench.modes import fake_gpus

JOB = Path(__file__).resolve().parent / "gpu_inference.py"
DEMO_DIR = JOB.parent.parent / "build" / "demo-gpu"
MASTER = "local-cluster[1,2,1024]"


def job_conf(mode: str, run_dir: Path) -> dict[str, str]:
    """Spark properties of a run; with the mode ``on``, dagopt's too.

    Raises:
        RunError: dagopt does not work with the installed Spark.
    """
    conf = {"spark.master": MASTER, **fake_gpus(run_dir)}
    if mode == "off":
        return conf
    options = {"decision_log": str(run_dir / "decisions.jsonl")}
    return {**conf, **plugin_conf(options, cores=2, master=MASTER, base=conf)}


def run_job(mode: str, num_images: int) -> float:
    """Run the job once, as :func:`jobs.demo.submit` does."""
    run_dir = DEMO_DIR / mode
    shutil.rmtree(run_dir, ignore_errors=True)
    run_dir.mkdir(parents=True)
    arguments = ["--images", str(num_images), "--input", str(DEMO_DIR / f"images-{num_images}")]
    arguments += ["--output", str(run_dir / "scores")]
    return submit(JOB, run_dir, job_conf(mode, run_dir), arguments)


def num_equal_rows() -> int:
    """Compare the scores of both modes row by row; returns their number.

    Raises:
        RunError: a row differs.
    """
    one, other = (
        pyarrow.dataset.dataset(DEMO_DIR / mode / "scores").to_table().sort_by("image")
        for mode in ("off", "on")
    )
    if one.equals(other):
        return len(one)
    rows = zip(one.to_pylist(), other.to_pylist(), strict=False)
    differing = next((pair for pair in rows if pair[0] != pair[1]), (len(one), len(other)))
    raise RunError(f"scores differ: {differing[0]} and {differing[1]}")


def gpu_stages(decisions: list[dict[str, Any]]) -> list[str]:
    """The forms of the GPU stages, and why."""
    return [
        f"GPU stage of {one.get('num_partitions')} partitions: {one['form']}; {one.get('reason')}"
        for one in decisions
        if "form" in one
    ]


@click.command(epilog="example: python -m jobs.demo_gpu --rounds 1")
@click.option("--images", type=click.IntRange(min=16), default=1600, show_default=True)
@click.option("--rounds", type=click.IntRange(min=1), default=2, show_default=True)
def main(images: int, rounds: int) -> None:
    """Run a job with a GPU step with dagopt off and on, compare the rows, print forms and times."""
    console = Console()
    progress = Console(stderr=True)
    times_s: dict[str, list[float]] = {"off": [], "on": []}
    num_rows = 0
    for index in range(1, rounds + 1):
        for mode in ("off", "on"):
            progress.print(f"GPU run {index} of {rounds}, dagopt {mode} ...")
            times_s[mode].append(run_job(mode, images))
        num_rows = num_equal_rows()
    for line in gpu_stages(read_decisions(DEMO_DIR / "on" / "decisions.jsonl")):
        console.print(line, soft_wrap=True)
    console.print(times_table(times_s["off"], times_s["on"]))
    console.print(f"All {num_rows} scores equal, dagopt off and on, in {rounds} rounds.")
    console.print(verdict(times_s["off"], times_s["on"]), style="bold")
    console.print(
        "The GPU is not there, so its work takes a core here; `make bench-gpu` has one that does not."
    )
    console.print(f"Outputs, logs and all decisions: {DEMO_DIR}", soft_wrap=True)


def run() -> int:
    """Run the command; an error is one line, 2 for wrong input and 1 for a failed run."""
    try:
        main(standalone_mode=False)
    except click.ClickException as error:
        click.echo(f"demo_gpu: {error.format_message()}", err=True)
        return 2 if isinstance(error, click.UsageError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(run())
