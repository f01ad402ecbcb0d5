"""The engine of a group in one process: losses, checks, failures, passes, memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dagopt.errors import InputError
from dagopt.tune.data import Feed
from dagopt.tune.engine import run_group
from dagopt.tune.phase import GroupOutcome, GroupWork, TrialWork
from dagopt.tune.stacks import Stack
from dagopt.tune.width import WidthSearch
from jobs.sweep_models import Logistic, Mlp

NUM_INPUTS, NUM_CLASSES = 6, 3


def batches(count: int = 7, rows: int = 8) -> list[dict[str, Any]]:
    random = np.random.default_rng(5)
    labels = [random.integers(0, NUM_CLASSES, rows) for _ in range(count)]
    return [
        {
            "x": random.normal(size=(rows, NUM_INPUTS)).astype(np.float32),
            "y": np.eye(NUM_CLASSES, dtype=np.float32)[label],
        }
        for label in labels
    ]


BATCHES = batches()


def data(_: Mapping[str, Any]) -> list[dict[str, Any]]:
    return BATCHES


def params_of(count: int) -> list[dict[str, Any]]:
    return [{"lr": 0.01 * (n + 1), "momentum": 0.1 * n, "seed": n} for n in range(count)]


def run(
    trainable: Any,
    params: list[dict[str, Any]],
    *,
    mode: str = "stacked",
    stacks: tuple[tuple[int, ...], ...] | None = None,
    num_iterations: int = 12,
    source: Callable[..., Any] = data,
    states: Mapping[int, Any] | None = None,
    position: int = 0,
    **fields: Any,
) -> tuple[GroupOutcome, dict[int, Any]]:
    every = tuple(range(len(params)))
    work = GroupWork(
        number=0,
        phase=1,
        mode=mode,  # type: ignore[arg-type]
        trials=tuple(
            TrialWork(trial=n, params=one, position=position, dataset="d")
            for n, one in enumerate(params)
        ),
        stacks=stacks or ((every,) if mode == "stacked" else tuple((n,) for n in every)),
        num_iterations=num_iterations,
        **fields,
    )
    return run_group(work, trainable, source, lambda: dict(states or {}), np, "loss")


def serial(trainable: Any, params: Mapping[str, Any], num_iterations: int) -> list[float]:
    """The oracle: nothing but init and steps."""
    state = trainable.init(params, np)
    return [
        float(trainable.step(state, BATCHES[n % len(BATCHES)], params, np)["loss"])
        for n in range(num_iterations)
    ]


@pytest.mark.parametrize("mode", ["stacked", "shared pass", "co-located"])
@pytest.mark.parametrize("make", [Mlp, Logistic])
def test_losses_are_those_of_serial_runs_in_every_mode(mode: str, make: Any) -> None:
    trainable = make(NUM_INPUTS, NUM_CLASSES)
    params = params_of(5)
    outcome, _ = run(trainable, params, mode=mode)
    assert outcome.not_stackable == {}
    assert [one.stacked for one in outcome.trials] == [mode == "stacked"] * 5
    for one in outcome.trials:
        np.testing.assert_allclose(one.losses, serial(trainable, params[one.trial], 12), rtol=1e-5)


def test_two_phases_give_what_one_gives_whatever_the_width() -> None:
    trainable = Mlp(NUM_INPUTS, NUM_CLASSES)
    params = params_of(5)
    first, states = run(trainable, params)
    kind = first.trials[0].model_type
    second, _ = run(trainable, params, states=states, position=12, width={kind: 2})
    assert second.width == {kind: 2}
    for one, two in zip(first.trials, second.trials, strict=True):
        expected = serial(trainable, params[one.trial], 24)
        np.testing.assert_allclose(one.losses + two.losses, expected, rtol=1e-5)


def test_a_stopped_trial_changes_nothing_for_the_others() -> None:
    trainable = Mlp(NUM_INPUTS, NUM_CLASSES)
    all_five, _ = run(trainable, params_of(5))
    four, _ = run(trainable, params_of(4))
    for one, other in zip(four.trials, all_five.trials, strict=False):
        np.testing.assert_allclose(one.losses, other.losses, rtol=1e-6)


class Liar(Mlp):
    """Says that it broadcasts, but its loss is the mean over all trials."""

    def step(self, state: Any, batch: Any, params: Any, xp: Any) -> dict[str, Any]:
        loss = super().step(state, batch, params, xp)["loss"]
        return {"loss": loss * 0 + xp.mean(loss)}


class Crasher(Mlp):
    """Its stacked step raises."""

    def step(self, state: Any, batch: Any, params: Any, xp: Any) -> dict[str, Any]:
        if params["lr"] > 1:  # an array of lr has no truth value
            raise ValueError("lr is too high")
        return super().step(state, batch, params, xp)


@pytest.mark.parametrize(
    ("make", "problem"), [(Liar, "its stacked step gave losses"), (Crasher, "ValueError")]
)
def test_a_trainable_that_lies_about_stacking_runs_unstacked(make: Any, problem: str) -> None:
    trainable = make(NUM_INPUTS, NUM_CLASSES)
    params = params_of(3)
    outcome, _ = run(trainable, params)
    ((_, told),) = outcome.not_stackable.items()
    assert problem in told
    for one in outcome.trials:
        assert not one.stacked
        np.testing.assert_allclose(one.losses, serial(trainable, params[one.trial], 12), rtol=1e-5)


def test_a_trial_that_raises_fails_alone_with_its_own_traceback() -> None:
    params = params_of(3)
    params[1]["lr"] = 2.0
    outcome, states = run(Crasher(NUM_INPUTS, NUM_CLASSES), params)
    errors = [one.error for one in outcome.trials]
    assert "ValueError: lr is too high" in errors[1]
    assert 'raise ValueError("lr is too high")' in errors[1]
    assert errors[0] == errors[2] == ""
    assert [len(one.losses) for one in outcome.trials] == [12, 0, 12]
    assert sorted(states) == [0, 2]


def test_init_that_raises_fails_its_trial_alone() -> None:
    params = params_of(2)
    del params[0]["seed"]
    outcome, _ = run(Mlp(NUM_INPUTS, NUM_CLASSES), params)
    assert "KeyError: 'seed'" in outcome.trials[0].error
    assert len(outcome.trials[1].losses) == 12


class Counted:
    """A data set that counts how often it is opened and read."""

    def __init__(self) -> None:
        self.opened = self.read = 0

    def __call__(self, _: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        self.opened += 1
        for batch in BATCHES:
            self.read += 1
            yield batch


def test_a_merged_group_reads_each_batch_once_a_pass() -> None:
    source = Counted()
    outcome, _ = run(Mlp(NUM_INPUTS, NUM_CLASSES), params_of(4), source=source, num_iterations=14)
    assert source.read == 14
    assert source.opened == 2
    assert (outcome.num_passes, outcome.pass_length) == (2, {"d": 7})


def test_a_watch_reads_once_and_runs_each_trial_by_itself() -> None:
    source = Counted()
    outcome, _ = run(
        Mlp(NUM_INPUTS, NUM_CLASSES), params_of(4), source=source, watch=True, num_iterations=5
    )
    assert source.read == 5
    assert all(not one.stacked and len(one.peaks_bytes) == 3 for one in outcome.trials)


@pytest.mark.parametrize("position", [0, 3, 7, 16])
@pytest.mark.parametrize("pass_length", [0, 7])
@pytest.mark.parametrize("source", [data, Counted()])
def test_a_feed_goes_on_where_its_trials_stand(
    position: int, pass_length: int, source: Any
) -> None:
    feed = Feed(source, {}, position, pass_length)
    for n in range(position, position + 10):
        assert feed.read() is BATCHES[n % 7]


def test_data_without_a_batch_is_an_error() -> None:
    with pytest.raises(InputError, match="gave no batch, expected at least one"):
        Feed(lambda _: [], {}, 0, 0)
    with pytest.raises(InputError, match="gave no batch, expected at least one"):
        Feed(lambda _: iter(()), {}, 0, 0)


class Replacing(Logistic):
    """Puts new arrays into its state instead of changing those in it."""

    def step(self, state: Any, batch: Any, params: Any, xp: Any) -> dict[str, Any]:
        other = {name: array.copy() for name, array in state.items()}
        metrics = super().step(other, batch, params, xp)
        state.update(other)
        return metrics


def test_a_step_may_replace_the_arrays_of_its_state() -> None:
    params = params_of(4)
    outcome, _ = run(Replacing(NUM_INPUTS, NUM_CLASSES), params, width={})
    assert outcome.not_stackable == {}
    for one in outcome.trials:
        expected = serial(Logistic(NUM_INPUTS, NUM_CLASSES), params[one.trial], 12)
        np.testing.assert_allclose(one.losses, expected, rtol=1e-5)


def test_parts_of_a_stack_are_views_of_it() -> None:
    states = [{"w": np.full((2, 2), float(n))} for n in range(5)]
    stack = Stack(range(5), states, [{"lr": 0.1 * n} for n in range(5)], np)
    stack.take(2)
    for part, params, _ in stack._parts:
        part["w"] += 10
        assert params["lr"].shape[1:] == (1, 1)
    assert [stack.state(n)["w"][0, 0] for n in range(5)] == [10, 11, 12, 13, 14]


def test_the_fastest_width_is_kept() -> None:
    search = WidthSearch(16, 0, 1000)
    seconds = {16: 5.0, 8: 6.0, 4: 2.0, 2: 3.0}
    tried = []
    while not search.is_done:
        tried.append(search.width)
        search.took(seconds[search.width])
    assert sorted(set(tried)) == [2, 4, 8, 16]
    assert (search.width, search.is_known) == (4, True)
    assert WidthSearch(16, 4, 1000).width == 4
    short = WidthSearch(16, 0, 20)
    assert (short.width, short.is_known) == (16, False)


def test_a_group_stays_below_the_memory_that_was_predicted_for_it() -> None:
    from dagopt.cost.footprint import merged_bytes
    from dagopt.model.trial import Footprint

    trainable = Mlp(NUM_INPUTS, NUM_CLASSES, 64)
    watched, _ = run(trainable, params_of(8), watch=True, num_iterations=5)
    footprints = [
        Footprint(
            model_bytes=one.model_bytes,
            activation_bytes=max(one.peaks_bytes) - one.model_bytes - one.batch_bytes,
            input_bytes=one.batch_bytes,
        )
        for one in watched.trials
    ]
    merged, _ = run(trainable, params_of(8))
    assert 0 < merged.peak_bytes <= 1.15 * merged_bytes([footprints], shared_input=True)


def test_co_located_trials_of_separate_data_keep_their_own_passes() -> None:
    class Separate:
        def __call__(self, params: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
            yield from BATCHES[: 3 + params["seed"]]

    trainable, params = Mlp(NUM_INPUTS, NUM_CLASSES), params_of(3)
    trials = tuple(
        TrialWork(trial=n, params=one, position=0, dataset=f"d{n}") for n, one in enumerate(params)
    )
    first = GroupWork(
        number=0, phase=1, mode="co-located", trials=trials, stacks=(), num_iterations=8
    )
    one, states = run_group(first, trainable, Separate(), dict, np, "loss")
    assert one.pass_length == {"d0": 3, "d1": 4, "d2": 5}
    later = tuple(replace(trial, position=8) for trial in trials)
    second = replace(first, trials=later, pass_length=one.pass_length)
    two, _ = run_group(second, trainable, Separate(), lambda: states, np, "loss")
    for n, outcome in enumerate(two.trials):
        state = trainable.init(params[n], np)
        expected = [
            float(trainable.step(state, BATCHES[i % (3 + n)], params[n], np)["loss"])
            for i in range(16)
        ]
        np.testing.assert_allclose(one.trials[n].losses + outcome.losses, expected, rtol=1e-5)
