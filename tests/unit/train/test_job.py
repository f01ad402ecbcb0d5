from __future__ import annotations

import pickle
import sys
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dagopt.errors import InputError
from dagopt.train.collective import Group
from dagopt.train.job import TrainJob, micro_batches, samples
from dagopt.train.worker import (
    PhaseOutcome,
    PhaseWork,
    Worker,
    _refuse,
    packed,
    run_phase,
    stop_name,
)
from dagopt.tune.checkpoint import Store


class Linear:
    """Least squares on 50 rows, by plain gradient descent with a rate that decays."""

    num_examples = 50

    def __init__(self, raises_at: int = -1) -> None:
        self.raises_at = raises_at

    def init(self, seed: int) -> dict[str, Any]:
        return {"w": np.random.default_rng(seed).normal(size=(3, 1)).astype(np.float32)}

    def batch(self, indices: Any) -> Any:
        x = np.random.default_rng(7).normal(size=(50, 3)).astype(np.float32)
        return x[indices], (x @ np.array([[1.0], [2.0], [3.0]], np.float32))[indices]

    def gradients(self, state: Any, batch: Any) -> tuple[float, Any]:
        x, y = batch
        error = x @ state["w"] - y
        return float((error**2).mean() / 2), {"w": x.T @ error / len(x)}

    def update(self, state: Any, gradients: Any, iteration: int) -> None:
        if iteration == self.raises_at:
            raise ValueError(f"no more after {iteration}")
        state["w"] -= np.float32(0.1 / (1 + iteration / 10)) * gradients["w"]


class Threads:
    """Ranks in threads instead of processes: sums by a barrier."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._values: list[Any] = [None] * size
        self._barrier = threading.Barrier(size, timeout=30)

    def group(self, rank: int) -> Any:
        outer = self

        class Member(Group):
            def __init__(self) -> None:
                self.rank, self.size = rank, outer.size

            def sum(self, values: Any) -> None:
                outer._values[rank] = values.copy()
                outer._barrier.wait()
                total = np.sum(outer._values, axis=0)
                outer._barrier.wait()
                values[:] = total

        return Member()


def job(**fields: Any) -> TrainJob:
    settings = {"name": "line", "training": Linear(), "num_iterations": 30, "global_batch": 16}
    return TrainJob(**{**settings, "num_micro_batches": 4, **fields})


def phase(
    train: TrainJob, store: Store, size: int, number: int, before: tuple[int, str], phase_s: float
) -> list[PhaseOutcome]:
    threads, found = Threads(size), dict[int, PhaseOutcome]()

    def run(rank: int) -> None:
        work = PhaseWork(
            rank=rank,
            size=size,
            number=number,
            first=before[0],
            phase_s=phase_s,
            look_s=0.0,
            state=before[1],
        )
        found[rank] = run_phase(train, work, threads.group(rank), store)

    members = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for member in members:
        member.start()
    for member in members:
        member.join()
    return [found[rank] for rank in range(size)]


def test_every_example_comes_once_a_pass_and_each_iteration_is_the_same_again() -> None:
    train = job(global_batch=10)
    first = np.concatenate([samples(train, n) for n in range(5)])
    second = np.concatenate([samples(train, n) for n in range(5, 10)])
    assert sorted(first) == sorted(second) == list(range(50))
    assert list(first) != list(second)
    # Batches that reach over the end of a pass, or are longer than one.
    long = job(global_batch=120)
    assert sorted(samples(long, 0)[:50]) == list(range(50))
    assert list(samples(long, 1)[:30]) != list(samples(long, 0)[:30])
    for size in (1, 2, 3, 4):
        shares = [micro_batches(train, 3, rank, size) for rank in range(size)]
        assert [len(share) > 0 for share in shares] == [True] * size
        joined = np.concatenate([part for share in shares for part in share])
        assert list(joined) == list(samples(train, 3))


def test_losses_are_the_same_however_often_a_job_is_resized(tmp_path: Any) -> None:
    train = job()
    (whole,) = phase(train, Store(str(tmp_path / "whole")), 1, 0, (0, ""), 1e9)
    assert len(whole.losses) == 30
    assert whole.losses[-1] < whole.losses[0] / 3
    store, state = Store(str(tmp_path / "parts")), ""
    losses: list[float] = []
    for number, size in enumerate((1, 3, 4, 2, 4, 1)):
        # No time at all: each phase is one iteration long.
        last = 1e9 if number == 5 else 0.0
        outcomes = phase(train, store, size, number, (len(losses), state), last)
        assert {len(one.losses) for one in outcomes} == {25 if number == 5 else 1}
        losses += outcomes[0].losses
        state = outcomes[0].state
    assert np.allclose(losses, whole.losses, rtol=1e-6, atol=0)


def test_a_phase_that_is_asked_for_its_boundary_ends_at_the_next_iteration(tmp_path: Any) -> None:
    store = Store(str(tmp_path))
    store.write(stop_name(1), b"")
    assert len(phase(job(), store, 2, 0, (0, ""), 1e9)[0].losses) == 30
    for outcome in phase(job(), store, 2, 1, (0, ""), 1e9):
        assert len(outcome.losses) == 1


def test_what_one_rank_raises_ends_the_phase_of_all(tmp_path: Any) -> None:
    class Fragile(Linear):
        def gradients(self, state: Any, batch: Any) -> tuple[float, Any]:
            if threading.current_thread().name == "second" and state["w"].any():
                raise ValueError("bad batch")
            return super().gradients(state, batch)

    store = Store(str(tmp_path))
    threads, found = Threads(2), {}

    def run(rank: int) -> None:
        work = PhaseWork(rank=rank, size=2, number=0, first=0, phase_s=1e9, look_s=1e9, state="")
        found[rank] = run_phase(job(training=Fragile()), work, threads.group(rank), store)

    members = [
        threading.Thread(target=run, args=(rank,), name=name)
        for rank, name in enumerate(("first", "second"))
    ]
    for member in members:
        member.start()
    for member in members:
        member.join()
    assert found[0].error == ""
    assert found[0].losses == found[1].losses == []
    assert "ValueError: bad batch" in found[1].error
    (raised,) = phase(job(training=Linear(raises_at=5)), store, 1, 1, (0, ""), 1e9)
    assert len(raised.losses) == 5
    assert "no more after 5" in raised.error


class Broken(Store):
    """Storage that gives or takes no state."""

    def read(self, _: str) -> bytes:
        raise OSError("timeout")

    def write(self, *_: Any) -> None:
        raise OSError("quota")


def test_storage_that_fails_is_no_error_of_the_job(tmp_path: Any) -> None:
    store = Broken(str(tmp_path))
    for outcome in phase(job(), store, 2, 1, (5, "states/there"), 1e9):
        assert (outcome.error, outcome.losses) == ("", [])
        assert outcome.lost == "its state cannot be read: timeout"
    # It is no request for a boundary either.
    first, second = phase(job(), store, 2, 0, (0, ""), 1e9)
    assert len(first.losses) == len(second.losses) == 30
    assert (first.error, first.state) == ("", "")
    assert first.lost == "its state cannot be written: quota"


class Odd:
    """A state that cannot be pickled."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def __reduce__(self) -> Any:
        raise self.error("no pickle")


@pytest.mark.parametrize("error", [AttributeError, RecursionError, ValueError, SystemExit])
def test_a_state_that_cannot_be_pickled_fails_its_job(
    tmp_path: Any, error: type[BaseException]
) -> None:
    class Training(Linear):
        def init(self, seed: int) -> dict[str, Any]:
            return {**super().init(seed), "odd": Odd(error)}

    (outcome,) = phase(job(training=Training()), Store(str(tmp_path)), 1, 0, (0, ""), 1e9)
    assert f"{error.__name__}: no pickle" in outcome.error
    assert (outcome.state, outcome.lost) == ("", "")


@pytest.mark.parametrize("where", ["init", "gradients", "update"])
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_a_job_that_leaves_python_fails_with_its_traceback(
    tmp_path: Any, where: str, error: type[BaseException]
) -> None:
    training = Linear()

    def leave(*_: Any) -> Any:
        raise error("out")

    setattr(training, where, leave)
    for outcome in phase(job(training=training), Store(str(tmp_path)), 2, 0, (0, ""), 1e9):
        assert "in leave" in outcome.error


def test_a_job_that_one_rank_cannot_read_ends_for_all(tmp_path: Any) -> None:
    """A module that is missing on a host, say."""
    content = packed(job(), str(tmp_path))
    inner, path, wait_s = pickle.loads(content)  # noqa: S301  ours
    assert (pickle.loads(inner).name, wait_s) == ("line", 600.0)  # noqa: S301  ours
    worker = Worker(broadcast=SimpleNamespace(value=pickle.dumps((b"nonsense", path, wait_s))))
    work = PhaseWork(rank=0, size=1, number=0, first=0, phase_s=1.0, look_s=1.0, state="")
    outcome = worker(work, ["localhost"])
    assert outcome.error.startswith("Traceback")
    assert "UnpicklingError" in outcome.error
    threads, found = Threads(2), {}

    def refuse() -> None:
        found[0] = _refuse(work, threads.group(0), "ImportError")

    def run() -> None:
        other = replace(work, rank=1, size=2)
        found[1] = run_phase(job(), other, threads.group(1), Store(path))

    members = [threading.Thread(target=each) for each in (refuse, run)]
    for member in members:
        member.start()
    for member in members:
        member.join()
    assert (found[0].error, found[1].error) == ("ImportError", "")
    assert found[1].losses == []


def test_whatever_a_training_does_to_its_output_is_no_fault(tmp_path: Any) -> None:
    class Loud(Linear):
        def update(self, *given: Any) -> None:
            super().update(*given)
            print("text \udcff")
            sys.stdout.buffer.write(b"bytes \xff\n")
            sys.stdout.flush()
            sys.stdout.close()

    work = PhaseWork(rank=0, size=1, number=0, first=0, phase_s=1e9, look_s=1e9, state="")
    loud = job(training=Loud(), num_iterations=2)
    outcome = run_phase(loud, work, Threads(1).group(0), Store(str(tmp_path)))
    assert (outcome.error, len(outcome.losses)) == ("", 2)
    assert outcome.output.splitlines() == ["text \\udcff", "bytes \\xff"] * 2


def test_a_clock_that_is_set_back_changes_no_duration(tmp_path: Any) -> None:
    epoch_s = iter(range(10**6, 0, -1))
    work = PhaseWork(rank=0, size=1, number=0, first=0, phase_s=1e9, look_s=1e9, state="")
    outcome = run_phase(
        job(), work, Threads(1).group(0), Store(str(tmp_path)), clock=lambda: float(next(epoch_s))
    )
    assert min(outcome.step_s) > 0
    assert min(outcome.sync_s) >= 0
    assert outcome.end_s >= outcome.start_s


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"name": "a/b"}, "job name is 'a/b'"),
        ({"num_iterations": 0}, "num_iterations is 0"),
        ({"global_batch": 3}, "num_micro_batches is 4, more than the 3 examples"),
        ({"max_accelerators": 5}, "max_accelerators is 5, must be <= num_micro_batches"),
        ({"deadline_s": 0.0}, "deadline_s is 0.0"),
        ({"deadline_s": None}, "deadline_s is None, must be a number > 0"),
        ({"name": None}, "job name is 'None'"),
        ({"training": Linear}, "training is the class Linear, expected an object"),
        ({"seed": -1}, "seed is -1, must be a whole number >= 0"),
        ({"seed": 1.5}, "seed is 1.5, must be a whole number >= 0"),
        ({"training": object()}, "training object has no method init"),
    ],
)
def test_a_wrong_job_is_refused(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        job(**fields)
