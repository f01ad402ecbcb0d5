"""Sweeps on a real Spark: losses, pruning, failures, lost executors, resuming, DataFrames, bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, RunSparkScript, run_spark
from tests.spark.gpu_cluster import gpu_conf

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def sweeps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each sweep of one application did."""
    directory = tmp_path_factory.mktemp("tune")
    script = ROOT / "tests" / "spark" / "tune_sweeps.py"
    conf = {"spark.executorEnv.PYTHONPATH": str(ROOT)}
    result = run_spark(directory, script, str(directory), conf=conf, dagopt=False).ok()
    found: dict[str, Any] = {"directory": directory, "stderr": result.stderr}
    for line in result.stdout.splitlines():
        if line.startswith("{"):
            found.update(json.loads(line))
    return found


def test_losses_are_those_of_serial_runs_and_trials_are_merged_after_they_were_watched(
    sweeps: dict[str, Any],
) -> None:
    found = sweeps["plain"]
    assert found["statuses"] == ["complete"] * 6
    assert found["iterations"] == [40] * 6
    assert found["error"] <= 1e-5
    assert {mode for phase, mode, _ in found["phases"] if phase == 1} == {"watch"}
    assert {(mode, count) for phase, mode, count in found["phases"] if phase > 1} == {
        ("stacked", 3)
    }
    assert found["merged"] == pytest.approx(35 / 40)
    assert found["memory"]


def test_there_are_metrics_of_every_iteration_and_the_best_state(sweeps: dict[str, Any]) -> None:
    found = sweeps["plain"]
    assert found["metrics"] == 6 * 40
    assert found["datasets"] == ["data"]
    assert found["best"] == found["lowest"]
    assert "w1" in found["state"]
    assert found["html"]


def test_optuna_prunes_at_boundaries_and_the_rest_go_on_unchanged(sweeps: dict[str, Any]) -> None:
    found = sweeps["pruned"]
    assert "pruned" in found["statuses"]
    assert "complete" in found["statuses"]
    assert found["optuna"] == found["statuses"]
    for status, iterations in zip(found["statuses"], found["iterations"], strict=True):
        assert iterations % 5 == 0
        assert (iterations == 40) == (status == "complete")
    assert found["error"] <= 1e-5
    assert found["told"] == list(range(6))


def test_trials_of_which_two_have_no_room_run_unmerged(sweeps: dict[str, Any]) -> None:
    small, large = sweeps["heavy"]["10m"], sweeps["heavy"]["100m"]
    for found in (small, large):
        assert found["statuses"] == ["complete"] * 4
        assert found["error"] <= 1e-5
        assert max(found["peaks"]) <= 1.15
    assert (small["sizes"], small["merged"]) == ([1], 0)
    assert max(large["sizes"]) > 1
    # The states of those that are measured one after the other are all there.
    assert (small["watched"], large["watched"]) == (1, 2)


def test_a_study_can_be_shown(sweeps: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    from dagopt.cli.main import main

    storage = f"sqlite:///{sweeps['directory']}/study.db"
    assert main(["tune", "show", "pruned", "--storage", storage, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows[0]["state"] == "complete"
    assert sum(row["iterations"] for row in rows) == sum(sweeps["pruned"]["iterations"])
    assert main(["tune", "show", "other", "--storage", storage]) == 2
    assert "study 'other' is not in" in capsys.readouterr().err


def test_a_trial_that_raises_and_one_without_a_number_fail_alone(sweeps: dict[str, Any]) -> None:
    found = sweeps["fragile"]
    assert found["statuses"] == ["complete", "failed", "failed", "complete"]
    assert found["optuna"] == ["complete", "fail", "fail", "complete"]
    assert "ValueError: too high" in found["errors"][1]
    assert "loss is nan in iteration 1" in found["errors"][2]
    assert found["iterations"] == [20, 0, 1, 20]


def test_a_lost_executor_costs_no_iteration_and_none_counts_twice(sweeps: dict[str, Any]) -> None:
    found = sweeps["lost"]
    assert found["died"]
    assert found["iterations"] == [30] * 4
    assert found["error"] <= 1e-5


def test_a_stopped_sweep_goes_on_from_its_last_boundary(sweeps: dict[str, Any]) -> None:
    found = sweeps["resumed"]
    assert found["same"]
    assert found["params"]
    assert found["first"] == 25
    assert found["iterations"] == [35] * 4
    assert "which has a sweep with" in found["other"]
    assert "run again with checkpoint" in found["told"]


def test_a_dataframe_is_read_once_a_pass_in_its_order(sweeps: dict[str, Any]) -> None:
    found = sweeps["frame"]
    assert found["error"] <= 1e-5
    assert found["iterations"] == [12] * 4
    # Iterations 6 to 12 touch the second and the third pass of four batches.
    assert found["passes"] == 2
    assert found["empty"] == "InputError: data: the DataFrame has no rows"


def test_a_sweep_that_goes_on_reads_the_rows_that_it_read_before(sweeps: dict[str, Any]) -> None:
    found = sweeps["recomputed"]
    assert found["kept"]
    assert found["error"] <= 1e-5
    assert "data DataFrame[x array<double>, y array<double>], not Data" in found["columns"]


@pytest.mark.parametrize(
    ("case", "told"),
    [
        ("state", "InputError: state cannot be pickled, so it cannot move between tasks"),
        ("space", "InputError: space is empty, expected at least one parameter"),
        ("no space", "InputError: space is missing"),
        ("capacity", "InfeasibleError: trial 0 needs"),
        ("module", "InputError: No module named 'own_model', which has the trainable or the data:"),
        ("trainable", "InputError: trainable: object has no method init"),
        ("number", "InputError: num_trials is 0, must be a whole number >= 1"),
        ("data", "InputError: data is a list, expected a function"),
        ("checkpoint", "InputError: checkpoint is 'no://where', which pyarrow cannot open"),
    ],
)
def test_bad_input_is_one_clear_error(sweeps: dict[str, Any], case: str, told: str) -> None:
    assert sweeps["errors"][case].startswith(told)


def test_under_a_gpu_profile_a_group_is_a_task_with_an_accelerator(
    run_spark_script: RunSparkScript, tmp_path: Path
) -> None:
    script = """
    import json
    import numpy as np
    import optuna
    from optuna.distributions import FloatDistribution
    from pyspark.sql import SparkSession
    import dagopt
    from dagopt.tune import Tuner

    class Model:
        stackable = True

        def init(self, params, xp):
            return {"w": xp.ones((2, 2)), "device": xp.full((1, 1), float(dagopt.device()))}

        def step(self, state, batch, params, xp):
            state["w"] *= 1 - params["lr"]
            return {"loss": state["w"].mean(axis=(-2, -1))}

    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.parallelize([0], 1).count()
    result = Tuner(
        spark, Model(), lambda _: [np.zeros((1, 2))], {"lr": FloatDistribution(0.1, 0.2)}, 4, 12,
        profile=dagopt.gpu_profile(),
    ).run()
    groups = [len(one.trials) for one in result.phases if one.mode == "stacked"]
    print("result", json.dumps([[one.status for one in result.trials], groups,
                                 float(result.best_state["device"][0, 0])]))
    """
    ended = run_spark_script(script, conf=gpu_conf(tmp_path), dagopt=False).ok()
    (line,) = [line for line in ended.stdout.splitlines() if line.startswith("result ")]
    statuses, groups, device = json.loads(line.removeprefix("result "))
    assert statuses == ["complete"] * 4
    # Two cores, but one accelerator: one slot.
    assert groups == [4]
    assert device == 0
