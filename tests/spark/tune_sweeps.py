"""Sweeps of one application: prints a JSON object of what each did."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import logging
import os
import signal
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.distributions import FloatDistribution
from pyspark.sql import SparkSession

from dagopt.errors import DagoptError
from dagopt.tune import Tuner
from dagopt.tune.frame_data import FrameData
from jobs.sweep_models import Logistic, Mlp

warnings.simplefilter("ignore")
optuna.logging.set_verbosity(optuna.logging.ERROR)
WORK = Path(sys.argv[1])
SPACE = {"lr": FloatDistribution(1e-3, 0.5, log=True)}
NUM_ROWS, NUM_INPUTS = 64, 4


def table() -> tuple[Any, Any]:
    random = np.random.default_rng(3)
    x = random.normal(size=(NUM_ROWS, NUM_INPUTS)).astype(np.float32)
    return x, np.eye(2, dtype=np.float32)[(x[:, 0] > 0).astype(int)]


X, Y = table()
BATCHES = [{"x": X[n : n + 16], "y": Y[n : n + 16]} for n in range(0, NUM_ROWS, 16)]


def data(_: Any) -> list[dict[str, Any]]:
    return BATCHES


def study(**fields: Any) -> Any:
    sampler = optuna.samplers.RandomSampler(seed=1)
    return optuna.create_study(sampler=sampler, **{"pruner": optuna.pruners.NopPruner(), **fields})


def worst(result: Any, make: Any = Mlp) -> float:
    """Largest relative difference from serial runs."""
    errors = [0.0]
    for trial in result.trials:
        trainable = make(NUM_INPUTS, 2)
        state = trainable.init(trial.params, np)
        for n, loss in enumerate(trial.losses):
            metrics = trainable.step(state, BATCHES[n % len(BATCHES)], trial.params, np)
            errors.append(abs(loss - float(metrics["loss"])) / abs(float(metrics["loss"])))
    return max(errors)


class Fragile(Mlp):
    """Raises for high rates, and loses its mind for low ones."""

    def step(self, state: Any, batch: Any, params: Any, xp: Any) -> dict[str, Any]:
        if xp.max(params["lr"]) > 0.3:
            raise ValueError("too high")
        found = super().step(state, batch, params, xp)
        return {"loss": xp.where(params["lr"] < 0.004, xp.nan, 1.0).reshape(-1) * found["loss"]}


class Dying(Mlp):
    """Kills its executor once, in the second phase."""

    def step(self, state: Any, batch: Any, params: Any, xp: Any) -> dict[str, Any]:
        flag = WORK / "died"
        if getattr(params["lr"], "ndim", 0) and not flag.exists():
            flag.touch()
            daemon = os.getppid()
            parent = Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1]
            os.kill(int(parent), signal.SIGKILL)
        return super().step(state, batch, params, xp)


class Heavy(Mlp):
    """Needs 8 MiB: half of it in its state, half while it steps."""

    def init(self, params: Any, xp: Any) -> Any:
        return {**super().init(params, xp), "ballast": xp.ones((1, 1 << 20), dtype="float32")}

    def step(self, state: Any, batch: Any, params: Any, xp: Any) -> dict[str, Any]:
        state["ballast"] += state["ballast"] * 0
        return super().step(state, batch, params, xp)


class Unpicklable(Mlp):
    """Has a state that cannot be moved."""

    def init(self, params: Any, xp: Any) -> Any:
        return {"lock": threading.Lock(), **super().init(params, xp)}


def error_of(*arguments: Any, **fields: Any) -> str:
    try:
        Tuner(*arguments, **fields).run()
    except DagoptError as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def plain(spark: Any) -> dict[str, Any]:
    result = Tuner(spark, Mlp(NUM_INPUTS, 2), data, study(), 6, 40, space=SPACE).run()
    modes = [(one.phase, one.mode, len(one.trials)) for one in result.phases]
    page = result.to_html(WORK / "sweep.html").read_text()
    return {
        "statuses": [one.status for one in result.trials],
        "iterations": [len(one.losses) for one in result.trials],
        "error": worst(result),
        "phases": modes,
        "merged": result.merged_fraction,
        "metrics": len(result.metrics()),
        "datasets": sorted({one.dataset for one in result.metrics()}),
        "best": result.best.number if result.best else None,
        "lowest": int(np.argmin([one.losses[-1] for one in result.trials])),
        "state": sorted(result.best_state),
        "html": result.summary() in page and "<table>" in result._repr_html_(),
        "memory": all(
            one.peak_bytes <= 1.15 * one.predicted_bytes
            for one in result.phases
            if one.predicted_bytes
        ),
    }


def pruned(spark: Any) -> dict[str, Any]:
    url = f"sqlite:///{WORK}/study.db"
    found = study(
        storage=url, study_name="pruned", pruner=optuna.pruners.MedianPruner(n_startup_trials=1)
    )
    told: list[int] = []
    result = Tuner(
        spark,
        Mlp(NUM_INPUTS, 2),
        data,
        found,
        6,
        40,
        space=SPACE,
        phase_iterations=5,
        max_running=4,
        callback=lambda row: told.append(row["trial"]),
    ).run()
    return {
        "statuses": [one.status for one in result.trials],
        "optuna": [one.state.name.lower() for one in found.trials],
        "iterations": [len(one.losses) for one in result.trials],
        "error": worst(result),
        "told": sorted(set(told)),
    }


def heavy(spark: Any) -> dict[str, Any]:
    """One trial has room in a slot, two have not; then all have."""
    found = {}
    for memory in ("10m", "100m"):
        result = Tuner(
            spark, Heavy(NUM_INPUTS, 2), data, study(), 4, 12, space=SPACE, memory=memory
        ).run()
        later = [one for one in result.phases if one.mode != "watch"]
        found[memory] = {
            "statuses": [one.status for one in result.trials],
            "error": worst(result, Heavy),
            "merged": result.merged_fraction,
            "sizes": sorted({len(one.trials) for one in later}),
            "peaks": [one.peak_bytes / one.predicted_bytes for one in later],
            "watched": max(len(one.trials) for one in result.phases if one.mode == "watch"),
        }
    return found


def fragile(spark: Any) -> dict[str, Any]:
    found = study()
    for rate in (0.01, 0.4, 0.002, 0.02):
        found.enqueue_trial({"lr": rate})
    result = Tuner(spark, Fragile(NUM_INPUTS, 2), data, found, 4, 20, space=SPACE).run()
    return {
        "statuses": [one.status for one in result.trials],
        "optuna": [one.state.name.lower() for one in found.trials],
        "errors": [one.error for one in result.trials],
        "iterations": [len(one.losses) for one in result.trials],
        "modes": sorted({one.mode for one in result.phases}),
    }


def lost(spark: Any) -> dict[str, Any]:
    result = Tuner(spark, Dying(NUM_INPUTS, 2), data, study(), 4, 30, space=SPACE).run()
    return {
        "died": (WORK / "died").exists(),
        "iterations": [len(one.losses) for one in result.trials],
        "error": worst(result),
    }


def resumed(spark: Any) -> dict[str, Any]:
    path = str(WORK / "resumed")
    phases: list[int] = []

    def stop(row: Any) -> None:
        phases.append(row["iteration"])
        if row["iteration"] >= 15:
            raise KeyboardInterrupt

    fields: dict[str, Any] = {"space": SPACE, "checkpoint": path, "phase_iterations": 10}
    first = study()
    told = io.StringIO()
    handler = logging.StreamHandler(told)
    logging.getLogger("dagopt").addHandler(handler)
    with contextlib.suppress(KeyboardInterrupt):
        Tuner(spark, Mlp(NUM_INPUTS, 2), data, first, 4, 35, callback=stop, **fields).run()
    again: list[int] = []
    result = Tuner(
        spark,
        Mlp(NUM_INPUTS, 2),
        data,
        study(),
        4,
        35,
        callback=lambda row: again.append(row["iteration"]),
        **fields,
    ).run()
    whole = Tuner(spark, Mlp(NUM_INPUTS, 2), data, study(), 4, 35, space=SPACE).run()
    return {
        "same": [one.losses for one in result.trials] == [one.losses for one in whole.trials],
        "params": [one.params for one in result.trials] == [one.params for one in whole.trials],
        "first": min(again),
        "told": told.getvalue(),
        "iterations": [len(one.losses) for one in result.trials],
        "other": error_of(
            spark, Mlp(NUM_INPUTS, 2), data, study(), 4, 99, space=SPACE, checkpoint=path
        ),
    }


def frame(spark: Any) -> dict[str, Any]:
    rows = [(X[n].tolist(), Y[n].tolist()) for n in range(NUM_ROWS)]
    table = spark.createDataFrame(rows, "x array<float>, y array<float>").repartition(3).cache()
    order = [row["x"] for row in table.collect()]
    result = Tuner(
        spark, Logistic(NUM_INPUTS, 2), table, study(), 4, 12, space=SPACE, batch_size=16
    ).run()
    labels = {tuple(X[n].tolist()): Y[n] for n in range(NUM_ROWS)}
    x = np.asarray(order, dtype=np.float32)
    y = np.stack([labels[tuple(row)] for row in order])
    BATCHES[:] = [{"x": x[n : n + 16], "y": y[n : n + 16]} for n in range(0, NUM_ROWS, 16)]
    merged = [one for one in result.phases if one.mode != "watch"]
    return {
        "error": worst(result, Logistic),
        "iterations": [len(one.losses) for one in result.trials],
        "passes": max(one.num_passes for one in merged),
        "empty": error_of(
            spark, Logistic(NUM_INPUTS, 2), table.limit(0), study(), 1, 1, space=SPACE
        ),
    }


def recomputed(spark: Any) -> dict[str, Any]:
    """A DataFrame that has other rows each time, and a sweep that goes on."""
    chance = spark.range(NUM_ROWS).selectExpr("array(rand(), rand(), rand(), rand()) AS x")
    chance = chance.selectExpr("x", "x AS y")
    path = WORK / "recomputed"
    fields: dict[str, Any] = {"space": SPACE, "checkpoint": str(path), "batch_size": 16}
    model = Logistic(NUM_INPUTS, NUM_INPUTS, classes=False)

    def stop(_: Any) -> None:
        raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        Tuner(spark, model, chance, study(), 4, 12, callback=stop, **fields).run()
    files = sorted((path / "data").iterdir())
    result = Tuner(spark, model, chance, study(), 4, 12, **fields).run()
    names = tuple(f"data/{one.name}" for one in files)
    BATCHES[:] = FrameData(path=str(path), files=names, batch_size=16)({})
    return {
        "kept": sorted((path / "data").iterdir()) == files,
        "error": worst(result, lambda *_: model),
        "columns": error_of(spark, model, chance.select("x"), study(), 4, 12, **fields),
    }


def errors(spark: Any) -> dict[str, Any]:
    mlp = Mlp(NUM_INPUTS, 2)
    # A module that this process can import, and those of executors cannot.
    (WORK / "own_model.py").write_text(
        "from jobs.sweep_models import Mlp\n\n\nclass Own(Mlp):\n    pass\n"
    )
    sys.path.insert(0, str(WORK))
    own = importlib.import_module("own_model").Own(NUM_INPUTS, 2)
    return {
        "module": error_of(spark, own, data, study(), 2, 5, space=SPACE),
        "state": error_of(spark, Unpicklable(NUM_INPUTS, 2), data, study(), 2, 5, space=SPACE),
        "space": error_of(spark, mlp, data, {}, 2, 5),
        "no space": error_of(spark, mlp, data, study(), 2, 5),
        "capacity": error_of(spark, mlp, data, study(), 2, 5, space=SPACE, memory="1k"),
        "trainable": error_of(spark, object(), data, SPACE, 2, 5),
        "number": error_of(spark, mlp, data, SPACE, 0, 5),
        "data": error_of(spark, mlp, [1], SPACE, 2, 5),
        "checkpoint": error_of(spark, mlp, data, SPACE, 2, 5, checkpoint="no://where"),
    }


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    session = SparkSession.builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    for sweep in (plain, pruned, heavy, fragile, lost, resumed, frame, recomputed, errors):
        print(json.dumps({sweep.__name__: sweep(session)}), flush=True)
    session.stop()
