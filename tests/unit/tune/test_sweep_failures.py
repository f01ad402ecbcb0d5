"""Sweeps in which the user's code, Spark or the driver fails: what it costs, and what is seen of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optuna
import pytest

from dagopt.errors import InputError
from dagopt.tune import Tuner
from dagopt.tune.checkpoint import Store
from jobs.sweep_models import Logistic
from tests.unit.tune.one_process import Context, Killed, Rows, dying
from tests.unit.tune.test_tuner import BATCHES, RATES, SPACE, study, sweep


class Fragile:
    """Raises for one rate, when it is opened or at its tenth batch."""

    def __init__(self, rate: float, when: str) -> None:
        self.rate = rate
        self.when = when

    def dataset(self, params: Any) -> str:
        return str(params["lr"]) if self.when == "read" else "the same for all"

    def __call__(self, params: Any) -> Iterator[Any]:
        breaks = params["lr"] == self.rate
        if breaks and self.when == "opened":
            raise RuntimeError("no such image")
        return self.batches(breaks=breaks)

    def batches(self, *, breaks: bool) -> Iterator[Any]:
        for number in range(50):
            if breaks and number == 9:
                raise RuntimeError("no such image")
            yield BATCHES[number % len(BATCHES)]


@pytest.mark.parametrize("rate", RATES[:2])
@pytest.mark.parametrize(("when", "done"), [("opened", 0), ("read", 9)])
def test_data_that_raises_for_a_trial_fails_that_trial(rate: float, when: str, done: int) -> None:
    whole = sweep(study("none", None), None, data=Fragile(0, when), max_running=6)
    result = sweep(study("none", None), None, data=Fragile(rate, when), max_running=6)
    (failed,) = [one for one in result.trials if one.status == "failed"]
    assert failed.params["lr"] == rate
    assert "RuntimeError: no such image" in failed.error
    for one, other in zip(result.trials, whole.trials, strict=True):
        assert one.losses == other.losses[: done if one is failed else None]


def test_storage_that_fails_for_a_while_costs_a_sweep_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    whole = sweep(study("median", None), None)
    add, tries = Store.add_boundary, [0]

    def full(*_: Any) -> None:
        raise OSError("disk full")

    def picky(self: Store, number: int, said: Any) -> None:
        tries[0] += 1
        if tries[0] % 3:
            raise OSError("disk full")
        add(self, number, said)

    monkeypatch.setattr("dagopt.tune.tuner._WAITS_S", (0.0, 0.0))
    monkeypatch.setattr(Store, "keep", full)
    monkeypatch.setattr(Store, "add_boundary", picky)
    result = sweep(study("median", None), tmp_path / "one")
    for one, other in zip(result.trials, whole.trials, strict=True):
        assert (one.losses, one.status) == (other.losses, other.status)
    assert tries[0] == 3 * len(Store(str(tmp_path / "one")).boundaries())
    assert "a boundary cannot be written, it is tried again: disk full" in caplog.text
    monkeypatch.setattr(Store, "add_boundary", full)
    with pytest.raises(OSError, match="disk full"):
        sweep(study("median", None), tmp_path / "two")


class Gone(Context):
    """A context whose Spark goes away in the second job."""

    num_jobs = 0

    def parallelize(self, rows: Any, _: int) -> Rows:
        self.num_jobs += 1
        if self.num_jobs == 2:
            raise RuntimeError("Spark is gone")
        return Rows(rows)

    def setLocalProperty(self, key: str, value: str | None) -> None:  # noqa: N802
        if self.num_jobs == 2:
            raise OSError("no answer")
        super().setLocalProperty(key, value)

    def broadcast(self, value: Any) -> Any:
        def destroy() -> None:
            raise OSError("no answer")

        return SimpleNamespace(value=value, destroy=destroy)


def tuner(context: Any, found: Any, model: Any = None, **fields: Any) -> Tuner:
    spark: Any = SimpleNamespace(sparkContext=context)
    arguments: dict[str, Any] = {"space": SPACE, "phase_iterations": 5, **fields}
    return Tuner(spark, model or Logistic(4, 2), lambda _: BATCHES, found, 3, 15, **arguments)


def test_the_error_that_ends_a_sweep_is_seen_and_leaves_no_trial_running(tmp_path: Path) -> None:
    found = study("none", tmp_path / "study.db")
    with pytest.raises(RuntimeError, match="Spark is gone"):
        tuner(Gone(), found).run()
    assert {one.state.name for one in found.trials} == {"FAIL"}


class Wrong(Logistic):
    """Fails in each trial, and reports no loss."""

    def step(self, state: Any, batch: Any, params: Any, xp: Any) -> dict[str, Any]:
        return {"accuracy": super().step(state, batch, params, xp)["loss"]}


def test_a_sweep_in_which_all_trials_fail_says_why(caplog: pytest.LogCaptureFixture) -> None:
    result = tuner(Context(), study("none", None), Wrong(4, 2)).run()
    assert result.best is None
    assert "all 3 trials failed, the first with: KeyError" in caplog.text


def test_the_summary_names_the_metric() -> None:
    found = tuner(Context(), study("none", None), Wrong(4, 2), metric="accuracy").run()
    assert found.best is not None
    assert f"with accuracy {found.best.losses[-1]:.6g}" in found.summary()


def test_a_class_and_a_size_without_unit_are_told_by_name() -> None:
    with pytest.raises(InputError, match=r"trainable is the class Logistic, expected an object"):
        tuner(Context(), study("none", None), Logistic)
    with pytest.raises(InputError, match="memory: expected a size"):
        tuner(Context(), study("none", None), memory="4x")


def test_the_users_description_of_jobs_is_back_after_each_of_a_sweep() -> None:
    context = Context()
    context.setLocalProperty("spark.job.description", "mine")
    tuner(context, study("none", None)).run()
    assert context.properties == {"spark.job.description": "mine"}


def test_a_checkpoint_keeps_the_trials_of_a_sweep_that_an_error_ended(tmp_path: Path) -> None:
    found = study("none", tmp_path / "study.db")
    with pytest.raises(RuntimeError, match="Spark is gone"):
        tuner(Gone(), found, checkpoint=str(tmp_path / "sweep")).run()
    assert {one.state.name for one in found.trials} == {"RUNNING"}
    result = tuner(Context(), found, checkpoint=str(tmp_path / "sweep")).run()
    assert [one.status for one in result.trials] == ["complete"] * 3
    assert len(found.trials) == 3


def test_trials_that_a_killed_driver_only_asked_for_do_not_run_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = study("none", tmp_path / "study.db")
    fields: dict[str, Any] = {"checkpoint": str(tmp_path / "sweep")}

    def space(trial: Any) -> dict[str, float]:
        return {"lr": trial.suggest_float("lr", 0.001, 0.5)}

    monkeypatch.setattr(
        "dagopt.tune.search.Search.give_up", lambda *_: None
    )  # a kill lets nothing run
    with dying(monkeypatch, 1), pytest.raises(Killed):
        tuner(Context(), found, **{**fields, "space": space}).run()
    assert [one.state.name for one in found.trials] == ["RUNNING"] * 3
    result = tuner(Context(), found, **{**fields, "space": space}).run()
    assert [one.number for one in result.trials] == [3, 4, 5]
    assert [one.state.name for one in found.trials] == ["FAIL"] * 3 + ["COMPLETE"] * 3


def test_a_study_with_trials_of_its_own_keeps_them_when_a_sweep_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_others() -> Any:
        found = study("none", None)
        for _ in range(2):
            found.tell(found.ask(fixed_distributions=SPACE), 7.0)
        return found

    fields: dict[str, Any] = {"checkpoint": str(tmp_path / "sweep")}
    with dying(monkeypatch, 5), pytest.raises(Killed):
        tuner(Context(), with_others(), **fields).run()
    again = study("none", None)
    result = tuner(Context(), again, **fields).run()
    assert [one.number for one in result.trials] == [2, 3, 4]
    assert [one.value for one in again.trials] == [one.losses[-1] for one in result.trials]
    third = with_others()
    tuner(Context(), third, **fields).run()
    assert [one.value for one in third.trials] == [7.0, 7.0, *(one.value for one in again.trials)]


def test_the_display_and_the_notebook_begin_with_the_best_where_a_higher_loss_is_better() -> None:
    found = optuna.create_study(direction="maximize", sampler=study("none", None).sampler)
    running = tuner(Context(), found)
    result = running.run()
    assert result.best is not None
    highest = max(one.losses[-1] for one in result.trials)
    assert result.best.losses[-1] == highest
    told = f"{highest:.6g}, trial {result.best.number}"
    assert f"<td>highest loss</td><td>{told}</td>" in running._repr_html_()
    first = result._repr_html_().split("<tr>")[3]
    assert first.startswith(f"<td>{result.best.number}</td>")
