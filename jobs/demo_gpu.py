"""The second part of ``make demo``: a job with a GPU step, with dagopt off and on.

It starts ``gpu_inference.py`` by spark-submit on a local cluster whose executor offers two cores and
a GPU that is not there, so the network runs on numpy and its work takes a core of the machine.
What it shows is equal rows, the form of the GPU stage and why, and for how long the GPU was held.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pyarrow.dataset
import pyspark
from rich.console import Console

from dagopt.errors import DagoptError
from dagopt.spark.launch import launch_conf
from jobs.demo import RUN_LIMIT_S, RunError, read_decisions, times_table, verdict
from jobs.gpu_bench.modes import write_discovery_script

JOB = Path(__file__).resolve().parent / "gpu_inference.py"
DEMO_DIR = JOB.parent.parent / "build" / "demo-gpu"
MASTER = "local-cluster[1,2,1024]"


def job_conf(mode: str, run_dir: Path) -> dict[str, str]:
    """Spark properties of a run; with the mode ``on``, dagopt's too.

    Raises:
        RunError: dagopt does not work with the installed Spark.
    """
    script = str(write_discovery_script(run_dir))
    conf = {
        "spark.master": MASTER,
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.local.dir": str(run_dir / "scratch"),
    }
    for who in ("worker", "executor"):
        conf[f"spark.{who}.resource.gpu.amount"] = "1"
        conf[f"spark.{who}.resource.gpu.discoveryScript"] = script
    if mode == "off":
        return conf
    options = {"decision_log": str(run_dir / "decisions.jsonl")}
    try:
        launch = launch_conf(
            pyspark.__version__, cores=2, master=MASTER, options=options, base=conf
        )
    except DagoptError as error:
        raise RunError(str(error)) from error
    if not launch.conf:
        raise RunError("; ".join(launch.notes))
    return {**conf, **launch.conf}


def run_job(mode: str, num_images: int) -> float:
    """Run the job once by spark-submit; returns its own elapsed seconds, without Spark's start.

    Raises:
        RunError: it failed or took longer than ``RUN_LIMIT_S``.
    """
    run_dir = DEMO_DIR / mode
    shutil.rmtree(run_dir, ignore_errors=True)
    run_dir.mkdir(parents=True)
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-submit")]
    for key, value in job_conf(mode, run_dir).items():
        command += ["--conf", f"{key}={value}"]
    command += [str(JOB), "--prepare", "--images", str(num_images)]
    command += ["--input", str(DEMO_DIR / f"images-{num_images}")]
    command += ["--output", str(run_dir / "scores"), "--json", str(run_dir / "summary.json")]
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    log = run_dir / "spark.log"
    with log.open("wb") as stream:
        try:
            status = subprocess.run(
                command,
                check=False,
                env=environment,
                stdout=stream,
                stderr=subprocess.STDOUT,
                timeout=RUN_LIMIT_S,
            ).returncode
        except subprocess.TimeoutExpired as error:
            raise RunError(f"the job took longer than {RUN_LIMIT_S:.0f} s: {log}") from error
    if status:
        raise RunError(f"the job failed with exit code {status}: {log}")
    shutil.rmtree(run_dir / "scratch", ignore_errors=True)
    return float(json.loads((run_dir / "summary.json").read_text(encoding="utf-8"))["elapsed_s"])


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
