"""One mode in a process of its own: it warms up, runs cases, and tells how long each took."""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from jobs.merge_bench.cases import (
    CASES,
    DAGOPT,
    NUM_TRIALS,
    OPTUNA,
    RAY,
    SERIAL,
    SPARK_TASK,
    WARM_UP,
    Case,
    train,
)

NUM_CORES = 2
Run = Callable[[Case], tuple[list[list[float]], list[dict[str, Any]]]]
"""Gives the losses of each trial, and of the mode ``dagopt`` its groups."""


def main() -> None:
    """``python -m jobs.merge_bench.modes MODE SCALE FOLDER CASE...``; a line of JSON for each case."""
    mode, scale, folder, *names = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    with STARTS[mode]() as run:
        run(WARM_UP)
        for name in names:
            case = CASES[name]
            case = replace(case, num_iterations=max(20, int(case.num_iterations * float(scale))))
            assert case.data is not None  # made before the clock starts  # noqa: S101
            print(json.dumps({"begins": name}), file=answers, flush=True)
            began_s = time.perf_counter()
            losses, groups = run(case)
            elapsed_s = time.perf_counter() - began_s
            np.save(Path(folder) / f"{name}-{mode}.npy", np.asarray(losses))
            told = {"case": name, "elapsed_s": elapsed_s, "groups": groups}
            told["trial_iterations"] = NUM_TRIALS * case.num_iterations
            print(json.dumps(told), file=answers, flush=True)


@contextmanager
def serial() -> Iterator[Run]:
    """One after another."""
    yield lambda case: ([train(case, trial) for trial in range(NUM_TRIALS)], [])


@contextmanager
def optuna_threads() -> Iterator[Run]:
    """``study.optimize`` with as many threads as cores."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def run(case: Case) -> tuple[list[list[float]], list[dict[str, Any]]]:
        losses: dict[int, list[float]] = {}

        def objective(trial: Any) -> float:
            losses[trial.number] = train(case, trial.number)
            return losses[trial.number][-1]

        optuna.create_study().optimize(objective, n_trials=NUM_TRIALS, n_jobs=NUM_CORES)
        return [losses[trial] for trial in range(NUM_TRIALS)], []

    yield run


@contextmanager
def session() -> Iterator[Any]:
    """A Spark session with one executor and its cores."""
    from jobs.local_session import local_session

    with tempfile.TemporaryDirectory(prefix="merge-", ignore_cleanup_errors=True) as scratch:
        conf = {
            "spark.local.dir": scratch,
            "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        }
        with local_session(f"local-cluster[1,{NUM_CORES},1024]", conf) as spark:
            yield spark


@contextmanager
def spark_task() -> Iterator[Run]:
    """A Spark job of one task for each trial, as many at a time as there are cores."""
    with session() as spark:
        context = spark.sparkContext

        def run(case: Case) -> tuple[list[list[float]], list[dict[str, Any]]]:
            shared = context.broadcast(case)

            def one(trial: int) -> list[float]:
                rdd = context.parallelize([trial], 1)
                (losses,) = rdd.map(lambda number: train(shared.value, number)).collect()
                return list(losses)

            with ThreadPoolExecutor(NUM_CORES) as pool:
                return list(pool.map(one, range(NUM_TRIALS))), []

        yield run


@contextmanager
def ray_tune() -> Iterator[Run]:
    """Ray Tune with its default executor."""
    import ray
    from ray import tune

    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        ray.init(num_cpus=NUM_CORES, include_dashboard=False, log_to_driver=False, _temp_dir=folder)
        results = Path(folder) / "losses"
        results.mkdir()

        def run(case: Case) -> tuple[list[list[float]], list[dict[str, Any]]]:
            def one(config: dict[str, Any], data: Any) -> None:
                own = replace(case)
                own.__dict__["data"] = data
                losses = train(own, config["trial"])
                np.save(results / f"{config['trial']}.npy", np.asarray(losses))
                tune.report({"loss": losses[-1]})

            tuner = tune.Tuner(
                tune.with_parameters(one, data=case.data),
                param_space={"trial": tune.grid_search(list(range(NUM_TRIALS)))},
                tune_config=tune.TuneConfig(metric="loss", mode="min"),
                run_config=tune.RunConfig(storage_path=str(Path(folder) / "storage"), verbose=0),
            )
            tuner.fit()
            found = [np.load(results / f"{trial}.npy").tolist() for trial in range(NUM_TRIALS)]
            return found, []

        try:
            yield run
        finally:
            ray.shutdown()


@contextmanager
def dagopt_tune() -> Iterator[Run]:
    """``dagopt.tune`` with its defaults; a study in memory that prunes nothing."""
    import optuna

    from dagopt.tune import Tuner

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with session() as spark:

        def run(case: Case) -> tuple[list[list[float]], list[dict[str, Any]]]:
            result = Tuner(
                spark,
                case.trainable,
                case.data,
                optuna.create_study(pruner=optuna.pruners.NopPruner()),
                NUM_TRIALS,
                case.num_iterations,
                space=lambda trial: case.params(trial.number),
            ).run()
            groups = [
                {
                    "phase": one.phase,
                    "mode": one.mode,
                    "trials": len(one.trials),
                    "elapsed_s": round(one.elapsed_s, 3),
                    "predicted_s": round(one.predicted_s, 3),
                    "predicted_bytes": one.predicted_bytes,
                    "peak_bytes": one.peak_bytes,
                    "reason": one.reason,
                }
                for one in result.phases
            ]
            return [list(one.losses) for one in result.trials], groups

        yield run


STARTS: dict[str, Callable[[], Any]] = {
    SERIAL: serial,
    SPARK_TASK: spark_task,
    OPTUNA: optuna_threads,
    RAY: ray_tune,
    DAGOPT: dagopt_tune,
}

if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    main()
