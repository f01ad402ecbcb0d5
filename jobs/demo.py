"""The demonstration behind ``make demo``: one ETL job with dagopt off and on, on a local cluster.

It starts ``etl_shuffle.py`` by spark-submit, in turns without and with dagopt, compares the outputs
row by row, and prints what dagopt decided, why, and the times. The cluster is two executors on this
machine, so the network is the loopback device and there is little I/O to hide: what the demonstration
must show is equal rows and no loss. What dagopt gains on slow links is measured by ``bench_overlap.py``.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow.dataset
import pyspark
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dagopt.errors import DagoptError
from dagopt.spark.launch import launch_conf

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

JOB = Path(__file__).resolve().parent / "etl_shuffle.py"
DEMO_DIR = JOB.parent.parent / "build" / "demo"
MASTER = "local-cluster[2,1,1024]"
OUTPUTS = ("legs", "rotations", "carriers")

EXPECTED_RUN_S = 35.0
"""A guess at a run with Spark's start, on two quiet cores; told until one has been measured."""

RUN_LIMIT_S = 600.0
"""A run that takes longer is stopped: something hangs."""

MAX_DECISIONS = 12
"""Decisions printed; the rest stays in the log."""

ACTIONS = {
    "pass": "left to Spark",
    "order": "given to Spark in another order",
    "group": "launched in groups, so that one reads while another computes",
    "concurrency": "another number of tasks a core",
    "release": "the rest given back to Spark",
}
"""The words of a decision log, in words of this demonstration."""

LEAST_GAIN_FRACTION = 0.05
"""Differences below this are never called a gain or a loss: a shared machine is not that quiet."""


class RunError(click.ClickException):
    """A run failed, or its rows differ: exit code 1."""


def dagopt_conf(decision_log: Path) -> dict[str, str]:
    """Spark properties that switch dagopt on, with every decision written to a file.

    Raises:
        RunError: dagopt does not work with the installed Spark.
    """
    options = {
        "decision_log": str(decision_log),
        # This job's stages are small: without it, dagopt would rightly not look at most of them.
        "min_input_bytes": "1m",
    }
    return plugin_conf(options, cores=1, master=MASTER)


def plugin_conf(
    options: dict[str, str], *, cores: int, master: str, base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Spark properties that switch dagopt on, with options of its own.

    Raises:
        RunError: dagopt does not work with the installed Spark.
    """
    try:
        launch = launch_conf(
            pyspark.__version__, cores=cores, master=master, options=options, base=base
        )
    except DagoptError as error:
        raise RunError(str(error)) from error
    if not launch.conf:
        raise RunError("; ".join(launch.notes))
    return dict(launch.conf)


def run_job(run_dir: Path, data: Path, scale: int, conf: dict[str, str]) -> float:
    """Run the ETL job once, as :func:`submit` does, and with ``conf``."""
    shutil.rmtree(run_dir, ignore_errors=True)
    properties = {
        "spark.master": MASTER,
        # Several tasks for each core: where all start at once, there is nothing to decide.
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        **conf,
    }
    arguments = ["--scale", str(scale), "--input", str(data), "--output", str(run_dir / "output")]
    return submit(JOB, run_dir, properties, arguments)


def submit(job: Path, run_dir: Path, conf: dict[str, str], arguments: Sequence[str]) -> float:
    """Run a job once by spark-submit; returns its own elapsed seconds, without Spark's start.

    Args:
        job: one of ours, which prepares its input and sums up what it did.
        run_dir: gets its log, its summary, and what it needs while it runs.
        conf: Spark properties, the master among them.
        arguments: of the job, ``--prepare`` and ``--json`` left out.

    Raises:
        RunError: it failed or took longer than ``RUN_LIMIT_S``.
    """
    run_dir.mkdir(parents=True, exist_ok=True)
    home = Path(pyspark.__file__).parent
    properties = {
        "spark.ui.enabled": "false",
        # Runs of half a minute: on two cores, the second compiler costs more than it gains.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.local.dir": str(run_dir / "scratch"),
        **conf,
    }
    command = [str(home / "bin" / "spark-submit")]
    for key, value in properties.items():
        command += ["--conf", f"{key}={value}"]
    command += [str(job), "--prepare", *arguments, "--json", str(run_dir / "summary.json")]
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(JOB.parent.parent),  # jobs share modules
        # The executors are on this machine; its name may not resolve.
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


def compare_outputs(left: Path, right: Path) -> int:
    """Compare what two runs wrote, row by row; returns the number of rows.

    Raises:
        RunError: a row differs; the message names output and row.
    """
    num_rows = 0
    for name in OUTPUTS:
        tables = [
            pyarrow.dataset.dataset(side / "output" / name, partitioning="hive").to_table()
            for side in (left, right)
        ]
        order = [(column, "ascending") for column in tables[0].column_names]
        if tables[0].schema != tables[1].schema or len(tables[0]) != len(tables[1]):
            shapes = [f"{len(table)} rows of {table.column_names}" for table in tables]
            raise RunError(f"{name}: {shapes[0]} and {shapes[1]}")
        # Rows have no order across files: the same sort on both sides puts equal ones together.
        one, other = (table.sort_by(order) for table in tables)
        if not one.equals(other):
            for pair in zip(one.to_pylist(), other.to_pylist(), strict=True):
                if pair[0] != pair[1]:
                    raise RunError(f"{name}: rows differ: {pair[0]} and {pair[1]}")
        num_rows += len(one)
    return num_rows


def read_decisions(log: Path) -> list[dict[str, Any]]:
    """The decisions of a log, JSON lines; lines that are something else are left out."""
    decisions = []
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
    for line in lines:
        try:
            decision = json.loads(line)
        except ValueError:  # the last line of a run that was stopped
            continue
        if isinstance(decision, dict):
            decisions.append(decision)
    return decisions


def decision_table(decisions: Iterable[dict[str, Any]]) -> Table:
    """What was decided for which stage, and why; equal ones once, with their number."""
    seen = Counter(
        (_stage_text(decision), _decision_text(decision), _reason_text(decision))
        for decision in decisions
    )
    table = Table("times", "stage", "decision", "because", title="What dagopt decided (last run)")
    for (stage, what, reason), times in list(seen.items())[:MAX_DECISIONS]:
        table.add_row(str(times), Text(stage), Text(what), Text(reason))
    if len(seen) > MAX_DECISIONS:
        table.add_row("", "", f"and {len(seen) - MAX_DECISIONS} others", "")
    return table


def decision_summary(decisions: Sequence[dict[str, Any]]) -> str:
    """How often which decision was taken, and what it means that nothing was changed."""
    if not decisions:
        return "dagopt decided nothing: no task set was worth a decision."
    counts = Counter(str(decision.get("action") or "unknown") for decision in decisions)
    parts = [f"{times} {ACTIONS.get(action, action)}" for action, times in counts.items()]
    text = f"{len(decisions)} decisions: {'; '.join(parts)}."
    if set(counts) == {"pass"}:
        text += (
            " Nothing was put into groups, for the reasons in the table: tasks that read from the disks"
            " of their own machine hardly wait for them, so Spark ran as it would alone."
        )
    return text


def _stage_text(decision: dict[str, Any]) -> str:
    return str(decision.get("name") or "-")


def _decision_text(decision: dict[str, Any]) -> str:
    """What of a decision is there, in words: a log of another version must not stop this."""
    action = str(decision.get("action") or "")
    words = [ACTIONS.get(action, action)] if action else []
    for key, form in (
        ("num_tasks", "{} tasks"),
        ("tasks_per_core", "{} a core"),
        ("predicted_s", "predicted {:.2f} s"),
        ("stock_s", "Spark alone {:.2f} s"),
    ):
        value = decision.get(key)
        if isinstance(value, int | float):
            words.append(form.format(value))
    return ", ".join(words) or "decision"


def _reason_text(decision: dict[str, Any]) -> str:
    return str(decision.get("reason") or "no reason given")


def verdict(off_s: Sequence[float], on_s: Sequence[float]) -> str:
    """What the times say, in one sentence; a difference within the spread of the runs says nothing."""
    off, on = statistics.median(off_s), statistics.median(on_s)
    spread = max((max(off_s) - min(off_s)) / off, (max(on_s) - min(on_s)) / on, LEAST_GAIN_FRACTION)
    gain = (off - on) / off
    if min(len(off_s), len(on_s)) < 2:
        return f"One run each cannot tell a gain from noise: with dagopt it took {_change(gain)}."
    if abs(gain) <= spread:
        return (
            f"Nothing to gain here, and nothing lost that can be told from noise: with dagopt it took "
            f"{_change(gain)}, where equal runs differ by up to {spread:.1%}."
        )
    if gain > 0:
        return f"dagopt saved {gain:.1%} of the time."
    return f"dagopt cost {-gain:.1%} of the time, more than the {spread:.1%} by which runs differ."


def _change(gain: float) -> str:
    return f"{abs(gain):.1%} {'less' if gain > 0 else 'more'} time"


def times_table(off_s: Sequence[float], on_s: Sequence[float]) -> Table:
    """A row a round, and the medians."""
    table = Table(
        "round",
        r"dagopt off \[s]",
        r"dagopt on \[s]",
        "off / on",
        title="Elapsed time, each first in turn",
    )
    for index, (off, on) in enumerate(zip(off_s, on_s, strict=True), start=1):
        table.add_row(str(index), f"{off:.1f}", f"{on:.1f}", f"{off / on:.2f}")
    off, on = statistics.median(off_s), statistics.median(on_s)
    table.add_section()
    table.add_row("median", f"{off:.1f}", f"{on:.1f}", f"{off / on:.2f}", style="bold")
    return table


def turns(rounds: int) -> list[str]:
    """Which mode runs when: both once a round, and each goes first in every other round."""
    pairs = [("off", "on") if index % 2 == 0 else ("on", "off") for index in range(rounds)]
    return [mode for pair in pairs for mode in pair]


@click.command(epilog="example: python jobs/demo.py --rounds 1")
@click.option("--scale", type=click.IntRange(min=1), default=1, show_default=True, help="years")
@click.option("--rounds", type=click.IntRange(min=1), default=2, show_default=True)
def main(scale: int, rounds: int) -> None:
    """Run an ETL job with dagopt off and on, compare the rows, and print decisions and times."""
    console = Console()
    progress = Console(stderr=True)
    data = DEMO_DIR / f"input-{scale}"
    decision_log = DEMO_DIR / "on" / "decisions.jsonl"
    conf = dagopt_conf(decision_log)
    if not data.exists():
        progress.print("The first run also writes the job's input.")
    times_s: dict[str, list[float]] = {"off": [], "on": []}
    num_rows = 0
    begin_s = time.monotonic()
    for index, mode in enumerate(turns(rounds)):
        run_s = (time.monotonic() - begin_s) / index if index else EXPECTED_RUN_S * scale
        left_s = run_s * (2 * rounds - index)
        progress.print(
            f"run {index + 1} of {2 * rounds}, dagopt {mode}; about {left_s:.0f} s to go"
        )
        elapsed_s = run_job(DEMO_DIR / mode, data, scale, conf if mode == "on" else {})
        times_s[mode].append(elapsed_s)
        if index % 2:
            num_rows = compare_outputs(DEMO_DIR / "off", DEMO_DIR / "on")

    decisions = read_decisions(decision_log)
    if decisions:
        console.print(decision_table(decisions))
    console.print(decision_summary(decisions))
    console.print(times_table(times_s["off"], times_s["on"]))
    console.print(f"All {num_rows} rows equal, dagopt off and on, in {rounds} of {rounds} rounds.")
    console.print(verdict(times_s["off"], times_s["on"]), style="bold")
    console.print(
        "One machine has no slow network whose waiting could be hidden; `make bench-overlap` has."
    )
    console.print(f"Outputs, logs and all decisions: {DEMO_DIR}", soft_wrap=True)


def run() -> int:
    """Run the command; an error is one line, 2 for wrong input and 1 for a failed run."""
    try:
        main(standalone_mode=False)
    except click.UsageError as error:
        click.echo(f"demo: {error.format_message()}", err=True)
        return 2
    except click.ClickException as error:
        click.echo(f"demo: {error.format_message()}", err=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(run())
