"""Sweeps with each pruner, studies in a file, and a driver that is killed: prints what they gave.

Arguments: the folder of checkpoints and studies, and when to be killed: after how many boundaries of
this driver, and how many seconds later; none to go on to the end.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import optuna
from pyspark.sql import SparkSession

from dagopt.tune import Tuner
from dagopt.tune.checkpoint import Store
from jobs.sweep_models import Logistic
from tests.unit.tune.test_tuner import NUM_ITERATIONS, NUM_TRIALS, SPACE, data, study

warnings.simplefilter("ignore")
optuna.logging.set_verbosity(optuna.logging.ERROR)


def kill_after(num_boundaries: int, delay_s: float) -> None:
    """Kill this driver, its JVM and all, so long after it wrote so many boundaries."""
    add, written = Store.add_boundary, []

    def added(self: Store, number: int, said: Any) -> None:
        add(self, number, said)
        written.append(number)
        if len(written) == num_boundaries:
            threading.Timer(delay_s, os.killpg, (os.getpgid(0), signal.SIGKILL)).start()

    Store.add_boundary = added  # type: ignore[method-assign]


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    work = Path(sys.argv[1])
    if len(sys.argv) > 2:
        kill_after(int(sys.argv[2]), float(sys.argv[3]))
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for pruner in ("halving", "median"):
        found = study(pruner, work / f"{pruner}.db")
        result = Tuner(
            spark,
            Logistic(4, 2),
            data,
            found,
            NUM_TRIALS,
            NUM_ITERATIONS,
            space=SPACE,
            checkpoint=str(work / pruner),
            phase_iterations=5,
            max_running=3,
        ).run()
        told = {
            "losses": [one.losses for one in result.trials],
            "statuses": [one.status for one in result.trials],
            "optuna": [one.state.name.lower() for one in found.trials],
            "best": None if result.best is None else result.best.number,
            "state": result.best_state["w"].tolist(),
        }
        print(json.dumps({pruner: told}), flush=True)
    spark.stop()
