"""Three training jobs that arrive one after another and share fake accelerators of a local cluster.

Handwritten digits, delays of flights, and crops of photographs in JPEG. While they run, they are given
more accelerators and fewer, and moved together; printed are each job's phases, its moves with the time
that each took, and how far its losses are from those of a run that nothing interrupted.

    PYTHONPATH=. dagopt submit jobs/train_jobs.py --scale 0.2
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from pyspark.sql import SparkSession

from dagopt.train import Scheduler, TrainJob
from dagopt.train.job import micro_batches
from dagopt.train.records import JobStatus, Move, PhaseRun
from jobs.train_models import Network, Photographs, write_examples


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A job, and when it comes."""

    job: TrainJob
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What jobs did that ran together."""

    elapsed_s: float
    """From the first arrival to the last end."""
    jobs: Sequence[JobStatus]
    runs: Sequence[PhaseRun]
    moves: Sequence[Move]


def arrivals(folder: Path, scale: float, micro_s: float) -> list[Arrival]:
    """The three jobs; at scale 1 they have 100, 250 and 500 iterations."""
    common: dict[str, Any] = {"micro_s": micro_s, "lock_dir": str(folder)}
    files = {name: str(folder / f"{name}.npz") for name in ("digits", "flights", "photographs")}
    trainings = {
        "digits": (Network(file=files["digits"], **common), 100, 0.0),
        "flights": (Network(file=files["flights"], classes=False, rate=0.01, **common), 250, 3.0),
        "photographs": (Photographs(file=files["photographs"], rate=0.02, **common), 500, 6.0),
    }
    return [
        Arrival(
            job=TrainJob(
                name=name,
                training=training,
                num_iterations=max(10, round(count * scale)),
                global_batch=192,
            ),
            at_s=at_s * min(1.0, scale),
        )
        for name, (training, count, at_s) in trainings.items()
    ]


def alone(job: TrainJob) -> list[float]:
    """Losses of a run in this process, from the first iteration to the last."""
    training = job.training
    state = training.init(job.seed)
    losses = []
    for iteration in range(job.num_iterations):
        loss = 0.0
        total: dict[str, Any] = {}
        for indices in micro_batches(job, iteration, 0, 1):
            mean, found = training.gradients(state, training.batch(indices))
            loss += mean * len(indices)
            for name, gradient in found.items():
                total[name] = total.get(name, 0.0) + gradient.astype(np.float64) * len(indices)
        mean_gradients = {
            name: (value / job.global_batch).astype(np.float32) for name, value in total.items()
        }
        training.update(state, mean_gradients, iteration)
        losses.append(loss / job.global_batch)
    return losses


def share(spark: Any, jobs: Sequence[Arrival], *, interval_s: float, policy: Any = None) -> Shared:
    """Run the jobs together, each from its arrival on."""
    with Scheduler(spark, interval_s=interval_s, policy=policy) as scheduler:
        began_s = time.monotonic()
        for arrival in sorted(jobs, key=lambda one: one.at_s):
            time.sleep(max(0.0, began_s + arrival.at_s - time.monotonic()))
            scheduler.submit(arrival.job)
        scheduler.wait()
        elapsed_s = time.monotonic() - began_s
        return Shared(
            elapsed_s=elapsed_s,
            jobs=scheduler.jobs(),
            runs=scheduler.runs,
            moves=scheduler.moves,
        )


def worst_error(losses: Sequence[float], others: Sequence[float]) -> float:
    """Largest difference relative to the losses; infinite if there are fewer of one."""
    if len(losses) != len(others):
        return float("inf")
    one, other = np.asarray(losses), np.asarray(others)
    return float(np.max(np.abs(one - other) / np.maximum(np.abs(other), 1e-12)))


def print_shared(found: Shared, jobs: Sequence[Arrival]) -> dict[str, float]:
    """Print what the jobs did; the error of each job's losses."""
    errors = {}
    for status, arrival in zip(found.jobs, jobs, strict=True):
        runs = [run for run in found.runs if run.job == status.name]
        counts = ", ".join(str(len(run.slots)) for run in runs)
        errors[status.name] = worst_error(status.losses, alone(arrival.job))
        print(
            f"{status.name}: {status.status}, loss {status.losses[0]:.4f} to"
            f" {status.losses[-1]:.4f}, relative error {errors[status.name]:.1e};"
            f" accelerators by phase: {counts}"
        )
    for move in found.moves:
        print(
            f"  move of {move.job} at iteration {move.iteration}: {len(move.before)} to"
            f" {len(move.after)} accelerators, {move.lost_s:.2f} s lost"
        )
    return errors


@click.command(help=__doc__)
@click.option("--scale", type=click.FloatRange(0.01), default=1.0, show_default=True)
@click.option("--micro-s", type=click.FloatRange(0), default=0.02, show_default=True)
@click.option("--interval-s", type=click.FloatRange(0.1), default=3.0, show_default=True)
@click.option("--prepare", is_flag=True, help="Does nothing: its data are in packages.")
@click.option("--json", "as_json", type=click.Path(path_type=Path), help="File for a summary.")
def main(
    *,
    scale: float,
    micro_s: float,
    interval_s: float,
    prepare: bool,  # noqa: ARG001  what the demo gives every job
    as_json: Path | None,
) -> None:
    """Run the three jobs."""
    spark = SparkSession.builder.appName("train").getOrCreate()
    with tempfile.TemporaryDirectory(prefix="train-jobs-") as name:
        folder = Path(name)
        write_examples(folder)
        jobs = arrivals(folder, scale, micro_s)
        found = share(spark, jobs, interval_s=interval_s)
        errors = print_shared(found, jobs)
    print(f"three jobs in {found.elapsed_s:.1f} s")
    if as_json is not None:
        summary = {"elapsed_s": found.elapsed_s, "errors": errors, "moves": len(found.moves)}
        as_json.write_text(json.dumps(summary), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main()
