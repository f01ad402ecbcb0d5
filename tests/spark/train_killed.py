"""Two trainings and a sweep of a DataFrame whose driver is killed: prints what they gave at the end.

Arguments: the folder of checkpoints, and when to be killed: after how many boundaries that this driver
wrote down, of the sweep's first on, which has the rows of the DataFrame, and how many seconds later; none
to go on to the end. Only the first driver submits.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from pyspark.sql import SparkSession

from dagopt.train import Scheduler, SweepJob, TrainJob
from dagopt.train.kept import Kept
from jobs.sweep_models import Logistic
from jobs.train_jobs import alone, worst_error
from tests.unit.tune.test_tuner import SPACE, ByNumber

warnings.simplefilter("ignore")
optuna.logging.set_verbosity(optuna.logging.ERROR)


class Model:
    """Least squares with momentum; a micro-batch takes some milliseconds."""

    num_examples = 200

    def init(self, seed: int) -> dict[str, Any]:
        weights = np.random.default_rng(seed).normal(size=(8, 2)).astype(np.float32)
        return {"w": weights, "v": np.zeros_like(weights)}

    def batch(self, indices: Any) -> Any:
        x = np.random.default_rng(3).normal(size=(200, 8)).astype(np.float32)
        return x[indices], np.tanh(x[:, :2])[indices]

    def gradients(self, state: Any, batch: Any) -> tuple[float, Any]:
        x, y = batch
        time.sleep(0.005)
        error = x @ state["w"] - y
        return float((error**2).mean()), {"w": x.T @ error / len(x)}

    def update(self, state: Any, gradients: Any, iteration: int) -> None:
        state["v"] *= np.float32(0.9)
        state["v"] -= np.float32(0.02 / (1 + iteration / 50)) * gradients["w"]
        state["w"] += state["v"]


class Slow(Logistic):
    """A step takes some milliseconds."""

    stackable = False

    def step(self, *given: Any) -> Any:
        time.sleep(0.002)
        return super().step(*given)


def training(name: str, num_iterations: int) -> TrainJob:
    return TrainJob(name=name, training=Model(), num_iterations=num_iterations, global_batch=48)


def search(spark: Any, work: Path) -> SweepJob:
    random = np.random.default_rng(4)
    x = random.normal(size=(120, 4))
    rows = [(a.tolist(), np.eye(2)[int(a[0] > 0)].tolist()) for a in x]
    # In one partition the rows of each application are in one order, which no shuffle promises.
    return SweepJob(
        name="search",
        trainable=Slow(4, 2),
        data=spark.createDataFrame(rows, "x array<float>, y array<float>").coalesce(1),
        study=optuna.create_study(
            storage=f"sqlite:///{work}/study.db",
            study_name="search",
            sampler=ByNumber(),
            pruner=optuna.pruners.NopPruner(),
        ),
        space=SPACE,
        num_trials=4,
        max_iterations=300,
        phase_iterations=100,
        batch_size=40,
        max_running=2,
    )


def kill_after(num_boundaries: int, delay_s: float) -> None:
    """Kill this driver, its JVM, executors and all, so long after it wrote so many boundaries."""
    boundary = Kept.boundary
    written: list[str] = []

    def counted(self: Kept, name: str, record: Any) -> str:
        found = boundary(self, name, record)
        if name == "search" or written:
            written.append(name)
        if len(written) == num_boundaries:
            threading.Timer(delay_s, os.killpg, (os.getpgid(0), signal.SIGKILL)).start()
        return found

    Kept.boundary = counted  # type: ignore[method-assign]


def main() -> None:
    logging.basicConfig(level=logging.WARNING)
    work = Path(sys.argv[1])
    if len(sys.argv) > 2:
        kill_after(int(sys.argv[2]), float(sys.argv[3]))
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    jobs = [training("long", 400), training("short", 150)]
    checkpoint = work / "checkpoint"
    with Scheduler(spark, checkpoint=str(checkpoint), resume=True, interval_s=1.0) as scheduler:
        before = [one.name for one in scheduler.jobs()]
        if not (work / "study.db").exists():
            scheduler.submit(*jobs, search(spark, work))
        scheduler.wait()
        found: dict[str, Any] = {"resumed": before}
        for one in jobs:
            if one.name in {status.name for status in scheduler.jobs()}:
                status = scheduler.status(one.name)
                found[one.name] = {
                    "status": [status.status, status.iteration, status.error],
                    "losses": worst_error(status.losses, alone(one)),
                    "is there": scheduler.state(one.name)["w"].shape == (8, 2),
                    "log": scheduler.logs(one.name),
                }
        result = scheduler.sweep_result("search")
        assert result is not None, scheduler.status("search").error
        found["search"] = {
            "losses": [one.losses for one in result.trials],
            "statuses": [one.status for one in result.trials],
            "best": None if result.best is None else result.best.number,
            "log": scheduler.logs("search"),
        }
    kinds = [one.name for one in checkpoint.rglob("*") if not one.is_dir()]
    found["left"] = [name for name in kinds if name in ("_alive", "owner", "job")]
    found["folders"] = [
        str(one) for one in checkpoint.rglob("*") if one.is_dir() and not list(one.iterdir())
    ]
    print(json.dumps(found), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
