"""Measure three training jobs that share six fake accelerators, against a fixed equal split of them.

The jobs of ``train_jobs.py`` arrive one after another on a local cluster of three executors with two
accelerators each. In the mode ``equal`` each has two accelerators from its arrival to its end, without a
boundary; in ``dagopt`` they are resized and moved. An accelerator is a timed wait under a lock beside the
real computation. Required: at most 0.8 x the time, and losses as without an interruption within 1e-4.
Writes train.json.

    make bench-train
    SCALE=0.3 REPETITIONS=1 .venv/bin/python -m jobs.bench_train
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from dagopt.model.training import ClusterView, JobView, Plan, placement_of
from jobs.gpu_bench.modes import QUICK_START, fake_gpus
from jobs.overlap.modes import REPOSITORY
from jobs.train_jobs import Arrival, Shared, alone, arrivals, share, worst_error
from jobs.train_models import write_examples

NUM_EXECUTORS, NUM_GPUS = 3, 2
EQUAL, DAGOPT = "equal", "dagopt"
INTERVAL_S = 4.0
ONE_PHASE_S = 1e6
"""An interval that no job lives for."""

MOST_TIME, MOST_ERROR = 0.8, 1e-4


class EqualSplit:
    """Each job has the same number of accelerators, and the same ones, from first to last."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)

    def plan(self, jobs: Sequence[JobView], cluster: ClusterView, now_s: float) -> Plan:  # noqa: ARG002
        """Where each job is, by its place among the names."""
        places = [host for host, count in enumerate(cluster.capacity) for _ in range(count)]
        each = len(places) // len(self._names)
        found: Plan = {}
        for view in jobs:
            at = self._names.index(view.job.job_id)
            found[view.job.job_id] = placement_of(Counter(places[at * each : (at + 1) * each]))
        return found


@contextmanager
def session(directory: Path) -> Iterator[Any]:
    """A Spark session on a local cluster with fake accelerators."""
    import pyspark

    from jobs.local_session import local_session

    # Executors are started with these.
    os.environ |= {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(directory / "work"),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(REPOSITORY),
    }
    conf = {
        "spark.executor.memory": "512m",
        "spark.executor.cores": str(NUM_GPUS),
        "spark.executor.extraJavaOptions": QUICK_START,
        "spark.executorEnv.PYTHONPATH": str(REPOSITORY),
        "spark.python.daemon.module": "dagopt.train.daemon",
        "spark.local.dir": str(directory / "scratch"),
        **fake_gpus(directory, NUM_GPUS),
    }
    with local_session(f"local-cluster[{NUM_EXECUTORS},{NUM_GPUS},640]", conf) as spark:
        yield spark


def run(mode: str, spark: Any, jobs: Sequence[Arrival]) -> Shared:
    """The jobs together, in a mode."""
    if mode == EQUAL:
        names = [arrival.job.name for arrival in jobs]
        return share(spark, jobs, interval_s=ONE_PHASE_S, policy=EqualSplit(names))
    return share(spark, jobs, interval_s=INTERVAL_S)


def row(
    mode: str, repetition: int, found: Shared, losses: Sequence[Sequence[float]]
) -> dict[str, Any]:
    """For train.json."""
    errors = [
        worst_error(status.losses, known) for status, known in zip(found.jobs, losses, strict=True)
    ]
    return {
        "mode": mode,
        "repetition": repetition,
        "elapsed_s": round(found.elapsed_s, 2),
        "moves": len(found.moves),
        "lost_s_per_move": [round(move.lost_s, 3) for move in found.moves],
        "loss_error": max(errors),
        "accelerators": {
            status.name: [len(one.slots) for one in found.runs if one.job == status.name]
            for status in found.jobs
        },
    }


@click.command(help=__doc__, context_settings={"show_default": True})
@click.option("--scale", type=click.FloatRange(0.01), envvar="SCALE", default=1.0)
@click.option("--micro-s", type=click.FloatRange(0), envvar="MICRO_S", default=0.06)
@click.option("--repetitions", type=click.IntRange(1), envvar="REPETITIONS", default=1)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="OUT",
    default=REPOSITORY / "build" / "bench",
    help="Folder of train.json.",
)
def main(scale: float, micro_s: float, repetitions: int, out: Path) -> None:
    """Run both modes in turn, write train.json, print the tables."""
    out.mkdir(parents=True, exist_ok=True)
    console = Console(width=None if sys.stdout.isatty() else 120)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="bench-train-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        write_examples(folder)
        jobs = arrivals(folder, scale, micro_s)
        losses = [alone(arrival.job) for arrival in jobs]
        with session(folder) as spark:
            # Python on all executors, with what it imports and reads.
            run(EQUAL, spark, arrivals(folder, 0.02, micro_s))
            for repetition in range(repetitions):
                for mode in (EQUAL, DAGOPT):
                    rows.append(row(mode, repetition, run(mode, spark, jobs), losses))
                    (out / "train.json").write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    sys.exit(report(rows, console, out))


def report(rows: Sequence[dict[str, Any]], console: Console, out: Path) -> int:
    """Print what was measured and what was required; the exit code."""
    table = Table(box=None)
    for column in ("mode", "elapsed, s", "moves", "lost a move, s", "loss error"):
        table.add_column(column)
    for one in rows:
        lost = one["lost_s_per_move"]
        told = f"{statistics.median(lost):.2f} (most {max(lost):.2f})" if lost else ""
        cells = (f"{one['elapsed_s']:.1f}", str(one["moves"]), told, f"{one['loss_error']:.1e}")
        table.add_row(one["mode"], *cells)
    console.print(table)
    times = {
        mode: statistics.median(one["elapsed_s"] for one in rows if one["mode"] == mode)
        for mode in (EQUAL, DAGOPT)
    }
    ratio = times[DAGOPT] / times[EQUAL]
    error = max(one["loss_error"] for one in rows)
    is_met = ratio <= MOST_TIME and error <= MOST_ERROR
    console.print(
        f"{ratio:.2f} x the time of an equal split (required {MOST_TIME}), losses differ by"
        f" {error:.1e} (required {MOST_ERROR:.0e}): {'met' if is_met else 'not met'}"
    )
    console.print(f"Wrote {out / 'train.json'}")
    return 0 if is_met else 1


if __name__ == "__main__":
    main()
