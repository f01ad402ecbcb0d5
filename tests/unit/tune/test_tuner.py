"""The driver's loop without Spark: a driver that dies anywhere, and Optuna's part in that."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution

from dagopt.errors import InputError
from dagopt.tune import SweepResult, Tuner
from jobs.sweep_models import Logistic, Mlp
from tests.unit.tune.one_process import Killed, dying, session

optuna.logging.set_verbosity(optuna.logging.ERROR)
SPACE = {"lr": FloatDistribution(1e-3, 0.5, log=True)}
RATES = (0.4, 0.1, 0.3, 0.002, 0.2, 0.05)
NUM_TRIALS, NUM_ITERATIONS = len(RATES), 25

PRUNERS: dict[str, Callable[[], Any]] = {
    "none": optuna.pruners.NopPruner,
    "median": lambda: optuna.pruners.MedianPruner(n_startup_trials=1),
    "halving": lambda: optuna.pruners.SuccessiveHalvingPruner(min_resource=5, reduction_factor=2),
}


def batches() -> list[dict[str, Any]]:
    random = np.random.default_rng(3)
    x = random.normal(size=(64, 4)).astype(np.float32)
    y = np.eye(2, dtype=np.float32)[(x[:, 0] > 0).astype(int)]
    return [{"x": x[n : n + 16], "y": y[n : n + 16]} for n in range(0, 64, 16)]


BATCHES = batches()


def data(_: Any) -> list[dict[str, Any]]:
    return BATCHES


class ByNumber(optuna.samplers.BaseSampler):
    """Gives a trial the same rate in each driver."""

    def infer_relative_search_space(self, *_: Any) -> dict[str, Any]:
        return {}

    def sample_relative(self, *_: Any) -> dict[str, Any]:
        return {}

    def sample_independent(self, study: Any, trial: Any, *_: Any) -> float:  # noqa: ARG002
        return RATES[trial.number]


def study(pruner: str, file: Path | None) -> Any:
    """The study of a driver that starts: in memory a new one, else what is in the file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return optuna.create_study(
            study_name="sweep",
            storage=None if file is None else f"sqlite:///{file}",
            load_if_exists=True,
            pruner=PRUNERS[pruner](),
            sampler=ByNumber(),
        )


def sweep(found: Any, checkpoint: Path | None, **fields: Any) -> SweepResult:
    return Tuner(
        session(),
        **{
            "trainable": Logistic(4, 2),
            "data": data,
            "study_or_space": found,
            "num_trials": NUM_TRIALS,
            "max_iterations": NUM_ITERATIONS,
            "space": SPACE,
            "checkpoint": None if checkpoint is None else str(checkpoint),
            "phase_iterations": 5,
            "max_running": 3,
            **fields,
        },
    ).run()


@pytest.mark.parametrize("storage", ["memory", "sqlite"])
@pytest.mark.parametrize("pruner", PRUNERS)
def test_a_driver_that_dies_anywhere_loses_nothing(
    pruner: str, storage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = sweep(study(pruner, None), None)
    statuses = [one.status for one in whole.trials]
    assert ("pruned" in statuses) == (pruner != "none")
    assert "complete" in statuses
    step = 11 if storage == "sqlite" else 3  # SQLite takes its time
    for left in range(0, 400, step):
        file = tmp_path / f"{left}.db" if storage == "sqlite" else None
        checkpoint = tmp_path / str(left)
        told: list[tuple[int, int]] = []
        fields = {"callback": lambda row: told.append((row["trial"], row["iteration"]))}  # noqa: B023
        try:
            with dying(monkeypatch, left):
                sweep(study(pruner, file), checkpoint, **fields)
            break
        except Killed:
            pass
        found = study(pruner, file)
        result = sweep(found, checkpoint, **fields)
        assert len(told) == len(set(told)), left
        assert [one.losses for one in result.trials] == [one.losses for one in whole.trials], left
        assert [one.status for one in result.trials] == statuses, left
        assert [one.state.name.lower() for one in found.trials] == statuses, left
    else:
        pytest.fail("it always died")
    assert left > step


def other(_: Any) -> list[dict[str, Any]]:
    return BATCHES[:2]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"max_iterations": 9}, "max_iterations 25, not 9"),
        ({"batch_size": 8}, "batch_size 32, not 8"),
        ({"data": other}, "data data, not other"),
        (
            {"trainable": Mlp(4, 2)},
            "trainable Logistic, not Mlp; trainable.num_hidden missing, not 16",
        ),
        ({"trainable": Logistic(4, 2, classes=False)}, "trainable.classes True, not False"),
        (
            {"space": {"lr": FloatDistribution(0.1, 0.2)}},
            "space.lr FloatDistribution(high=0.5, log=True, low=0.001, step=None), not FloatDistribution(high=0.2",
        ),
        (
            {"study_or_space": optuna.create_study(direction="maximize")},
            "direction minimize, not max",
        ),
        ({"seed": 1, "metric": "error"}, "metric loss, not error; seed 0, not 1"),
    ],
)
def test_a_checkpoint_of_another_sweep_is_an_error_that_names_what_differs(
    fields: dict[str, Any], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with dying(monkeypatch, 5), pytest.raises(Killed):
        sweep(study("none", None), tmp_path)
    with pytest.raises(InputError) as raised:
        sweep(fields.pop("study_or_space", study("none", None)), tmp_path, **fields)
    assert f"which has a sweep with {told}" in str(raised.value)
    assert len(sweep(study("none", None), tmp_path, max_running=2).trials) == NUM_TRIALS


def test_a_sampler_with_a_seed_draws_new_points_after_a_driver_has_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seeded() -> Any:
        return optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))

    with dying(monkeypatch, 8), pytest.raises(Killed):
        sweep(seeded(), tmp_path)
    result = sweep(seeded(), tmp_path)
    assert len({one.params["lr"] for one in result.trials}) == NUM_TRIALS


@pytest.mark.parametrize(
    "name", ["num_trials", "max_iterations", "batch_size", "max_running", "phase_iterations"]
)
@pytest.mark.parametrize("value", [0, 2.5, "2", float("nan"), float("inf"), [1]])
def test_what_is_no_whole_number_is_one_error(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"{name} is .* must be a whole number"):
        sweep(study("none", None), None, **{name: value})


def test_whole_floats_are_taken() -> None:
    result = sweep(study("none", None), None, num_trials=2.0, max_iterations=1e1)
    assert [len(one.losses) for one in result.trials] == [10, 10]


class Growing(Logistic):
    """Its state cannot be pickled, or its step leaves Python, from some step on."""

    stackable = False

    def __init__(self, rate: float, *, leaves: bool) -> None:
        super().__init__(4, 2)
        self.rate, self.leaves = rate, leaves

    def step(self, state: Any, batch: Any, params: Any, xp: Any) -> dict[str, Any]:
        state["step"] = state.get("step", 0) + 1
        if params["lr"] == self.rate and state["step"] == 8:
            if self.leaves:
                sys.exit(3)
            state["iterator"] = iter(each for each in (1,))
        return dict(super().step(state, batch, params, xp))


@pytest.mark.parametrize(("leaves", "told"), [(False, "pickle"), (True, "SystemExit: 3")])
def test_a_trial_whose_step_spoils_its_state_or_leaves_fails_alone(
    *, leaves: bool, told: str, tmp_path: Path
) -> None:
    result = sweep(study("none", None), tmp_path, trainable=Growing(RATES[1], leaves=leaves))
    assert [one.status for one in result.trials].count("complete") == NUM_TRIALS - 1
    assert result.trials[1].status == "failed"
    assert told in result.trials[1].error


def test_a_sweep_whose_trainable_has_nan_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainable = Growing(float("nan"), leaves=False)
    with dying(monkeypatch, 5), pytest.raises(Killed):
        sweep(study("none", None), tmp_path, trainable=trainable)
    result = sweep(study("none", None), tmp_path, trainable=trainable)
    assert [one.status for one in result.trials] == ["complete"] * NUM_TRIALS
