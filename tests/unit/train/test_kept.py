"""Schedulers whose driver dies anywhere, and others that go on with their jobs: Spark is in this process."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import optuna
import pytest

from dagopt.errors import InputError
from dagopt.spark.phases import PastFrame, dumps
from dagopt.train import kept, owners, phases, scheduler, sweeps
from dagopt.train.job import TrainJob
from dagopt.train.kept import Kept, Past
from dagopt.train.records import Record
from dagopt.train.scheduler import Scheduler
from dagopt.train.sweep import SweepJob
from dagopt.train.worker import PhaseWork
from dagopt.tune import tuner
from dagopt.tune.checkpoint import Store, within
from dagopt.tune.search import Search
from dagopt.tune.start import prepare_data
from jobs.sweep_models import Logistic
from jobs.train_jobs import alone
from tests.unit.train.test_scheduler import FakeSpark, until
from tests.unit.train.test_scheduler import start_thread as start
from tests.unit.tune.one_process import Killed, executor
from tests.unit.tune.test_tuner import NUM_ITERATIONS, NUM_TRIALS, SPACE, data, study, sweep

optuna.logging.set_verbosity(optuna.logging.ERROR)

WAIT_S = 60.0


class Linear:
    """Least squares by gradient descent with momentum."""

    num_examples = 50

    def init(self, seed: int) -> dict[str, Any]:
        w = np.random.default_rng(seed).normal(size=(3, 1)).astype(np.float32)
        return {"w": w, "v": np.zeros_like(w)}

    def batch(self, indices: Any) -> Any:
        x = np.random.default_rng(7).normal(size=(50, 3)).astype(np.float32)
        return x[indices], (x @ np.array([[1.0], [2.0], [3.0]], np.float32))[indices]

    def gradients(self, state: Any, batch: Any) -> tuple[float, Any]:
        x, y = batch
        error = x @ state["w"] - y
        return float((error**2).mean()), {"w": x.T @ error / len(x)}

    def update(self, state: Any, gradients: Any, iteration: int) -> None:
        state["v"] = np.float32(0.9) * state["v"] - np.float32(0.02) * gradients["w"]
        state["w"] += state["v"] / np.float32(1 + iteration / 50)
        print("at", iteration)


class Raising(Linear):
    def update(self, state: Any, gradients: Any, iteration: int) -> None:
        if iteration == 3:
            raise ValueError("no further")
        super().update(state, gradients, iteration)


class InProcess(FakeSpark):
    """An application with two accelerators, whose phases run here; those of trainings do one iteration."""

    def __init__(self) -> None:
        super().__init__()
        self.properties: dict[str, str | None] = {}
        self.task = threading.Lock()
        found = SimpleNamespace(size=lambda: 1, apply=lambda _: executor("a", 2, 2))
        store = SimpleNamespace(executorList=lambda _: found)
        java = SimpleNamespace(statusStore=lambda: store, isStopped=lambda: False)
        self._jsc = SimpleNamespace(sc=lambda: java)

    def broadcast(self, content: Any) -> Any:
        return SimpleNamespace(value=content, destroy=lambda: None)

    def run_barrier(self, *given: Any, group: str, told: str) -> list[Any]:  # noqa: ARG002
        _, function, payloads, _ = given
        self.groups.append(group)
        until(lambda: not self.hangs or group in self.cancelled)
        if group in self.cancelled:
            raise RuntimeError("cancelled")
        try:
            with self.task:  # what a task prints is of its process
                return [function(short(work), ["localhost"]) for _, work in payloads]
        except Killed as error:
            raise RuntimeError("the driver is gone") from error


def start_thread(function: Callable[[], None], name: str) -> threading.Thread:
    def mortal() -> None:
        with contextlib.suppress(Killed):
            function()

    return start(mortal, name)


def short(work: Any) -> Any:
    return replace(work, phase_s=0.0) if isinstance(work, PhaseWork) else work


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> InProcess:
    return application(monkeypatch)


def application(monkeypatch: pytest.MonkeyPatch) -> InProcess:
    fake = InProcess()
    none = SimpleNamespace(taskResources={}, executorResources={})
    monkeypatch.setattr(scheduler, "check_installed", lambda: None)
    monkeypatch.setattr(scheduler, "gpu_profile", lambda: none)
    monkeypatch.setattr(scheduler, "num_expected", lambda _: 1)
    monkeypatch.setattr(scheduler, "executors_of", fake.executors_of)
    monkeypatch.setattr(scheduler, "_WATCH_S", 0.02)
    monkeypatch.setattr(scheduler, "_MOST_FAILURES", 2)
    monkeypatch.setattr(phases, "_SETTLE_S", 0.05)
    monkeypatch.setattr(owners, "_BEAT_S", 1000.0)
    monkeypatch.setattr(owners, "_DEAD_S", 0.0)
    monkeypatch.setattr(owners, "_CLAIM_S", 0.0)
    monkeypatch.setattr(tuner, "_WAITS_S", ())
    for name in ("run_barrier", "cancel", "tasks_of"):
        monkeypatch.setattr(phases, name, getattr(fake, name))
    for module in (scheduler, phases, sweeps):
        monkeypatch.setattr(module, "start_thread", start_thread)
    return fake


def job(name: str, training: Any = None, num_iterations: int = 5, **fields: Any) -> TrainJob:
    return TrainJob(
        name=name,
        training=training or Linear(),
        num_iterations=num_iterations,
        global_batch=12,
        max_accelerators=1,
        **fields,
    )


class Mortal:
    """The driver dies before it changes the checkpoint for the ``left``-th time, from 0 on."""

    def __init__(self, patch: pytest.MonkeyPatch, left: int) -> None:
        self.left, self.is_dead = left, False
        self._lock = threading.Lock()
        for name in ("write", "delete", "remove"):
            patch.setattr(Store, name, self.mortal(getattr(Store, name)))
        give_up = Search.give_up  # nor does a dead one tell Optuna of its trials
        patch.setattr(Search, "give_up", lambda *given: None if self.is_dead else give_up(*given))

    def mortal(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*arguments: Any) -> Any:
            with self._lock:
                if self.is_dead:
                    raise OSError("dead")
                self.is_dead = self.left == 0
                self.left -= 1
                if self.is_dead:
                    raise Killed
                return change(*arguments)

        return changed


def killed(
    patch: pytest.MonkeyPatch, spark: InProcess, folder: str, left: int, *jobs: Any
) -> dict[str, str] | None:
    """A driver that dies: how its jobs had ended before, or None if it lived to their end."""
    found: dict[str, str] = {}
    with patch.context() as patched:
        mortal = Mortal(patched, left)
        running = None
        try:
            running = Scheduler(spark, checkpoint=folder)
            for one in jobs:
                running.submit(one)
            until(lambda: mortal.is_dead or ended(running))
        except Killed:
            pass
        if running is not None:
            if not mortal.is_dead:
                with contextlib.suppress(Killed):
                    running.stop()
                    return None
                return found
            # What is done after the death of its driver says nothing.
            found = {one.name: one.status for one in running.jobs()}
            abandon(running, spark)
    return found


def ended(running: Scheduler) -> bool:
    return running._broken is not None or all(
        one.status in ("done", "failed") for one in running.jobs()
    )


def abandon(running: Scheduler, spark: InProcess) -> None:
    spark.look_error = ConnectionError("killed")
    running._thread.join(WAIT_S)
    for each in running._runners.sweeps.values():
        each.join(WAIT_S)
    spark.look_error = None
    assert running._broken is not None


def left_in(folder: Path) -> list[str]:
    """Files that are no states, and folders that are empty."""
    return [
        str(one.relative_to(folder))
        for one in folder.rglob("*")
        if (one.is_file() and one.parent.name != "states")
        or (one.is_dir() and not list(one.iterdir()))
    ]


@pytest.mark.parametrize("is_uri", [False, True])
def test_trainings_of_a_driver_that_dies_anywhere_go_on_as_if_nothing_had_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_uri: bool
) -> None:
    expected = {"one": alone(job("one")), "two": alone(job("two", seed=3))}
    resumed_from = set()
    for left in range(0, 200, 3 if is_uri else 1):
        spark = application(monkeypatch)
        path = tmp_path / str(left)
        folder = path.as_uri() if is_uri else str(path)
        statuses = killed(monkeypatch, spark, folder, left, job("one"), job("two", seed=3))
        if statuses is None:
            assert sorted(one.parent.name for one in path.rglob("*-*-*-*")) == ["states"] * 2
            break
        with Scheduler(spark, checkpoint=folder, resume=True) as running:
            names = [one.name for one in running.jobs()]
            assert names == sorted(names)
            assert running.wait(WAIT_S)
            for one in running.jobs():
                assert (one.status, one.iteration, one.error) == ("done", 5, "")
                assert list(one.losses) == pytest.approx(expected[one.name], rel=1e-12), left
                assert running.state(one.name)["w"].shape == (3, 1)
                log = running.logs(one.name)
                told = [line for line in log if "resumed from" in line]
                # What was done before is there as it was.
                assert len(told) <= 1
                assert told or statuses.get(one.name, "done") == "done", left
                resumed_from |= set(told)
                assert [line for line in log if line.startswith("at ")] == [
                    f"at {at}" for at in range(5)
                ]
        # What is not there was not handed in, or its scheduler was about to end.
        for name in {"one", "two"} - set(names):
            assert statuses.get(name, "done") == "done", left
        # Nobody can tell an empty folder from one in which a scheduler is about to write.
        if left > 0:
            assert left_in(path) == [], left
    else:
        pytest.fail("it always died")
    assert resumed_from == {f"dagopt: resumed from iteration {at}" for at in range(5)}


def search(**fields: Any) -> SweepJob:
    known: dict[str, Any] = {
        "name": "search",
        "trainable": Logistic(4, 2),
        "data": data,
        "space": SPACE,
        "num_trials": NUM_TRIALS,
        "max_iterations": NUM_ITERATIONS,
        "phase_iterations": 5,
        "max_running": 3,
    }
    return SweepJob(**{**known, **fields})


@pytest.mark.parametrize("storage", ["memory", "sqlite"])
def test_sweeps_of_a_driver_that_dies_anywhere_find_what_they_find_alone(
    storage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = sweep(study("median", None), None)
    for left in range(1, 400, 9 if storage == "memory" else 29):
        spark = application(monkeypatch)
        path = tmp_path / str(left)
        file = None if storage == "memory" else tmp_path / f"{left}.db"
        one = search(study=study("median", file))
        statuses = killed(monkeypatch, spark, str(path), left, one)
        if statuses is None:
            break
        with Scheduler(spark, checkpoint=str(path), resume=True) as running:
            if not running.jobs():
                assert statuses.get("search", "done") == "done", left
                continue
            assert running.wait(WAIT_S)
            status, result = running.status("search"), running.sweep_result("search")
            assert (status.status, status.error) == ("done", "")
            assert result is not None
            for mine, other in zip(result.trials, whole.trials, strict=True):
                assert (mine.losses, mine.status) == (other.losses, other.status), left
            assert any("resumed from" in line for line in running.logs("search"))
            assert list(status.losses) == sorted(status.losses, reverse=True)
        if file is not None:
            states = [each.state.name.lower() for each in study("median", file).trials]
            assert states == [each.status for each in whole.trials], left
        assert not list(path.rglob("record*")), left
    else:
        pytest.fail("it always died")
    assert left > 20


def test_of_jobs_that_ended_those_that_are_done_are_there_and_other_names_are_free(
    spark: InProcess, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    running = Scheduler(spark, checkpoint=str(tmp_path))
    running.submit(job("done"), search(), job("failed", Raising()))
    assert running.wait(WAIT_S)
    assert [one.status for one in running.jobs()] == ["done", "done", "failed"]
    assert running.logs("failed")[-1] == "dagopt: failed at iteration 3: ValueError: no further"
    assert "job failed failed at iteration 3: ValueError: no further" in caplog.text
    before = running.status("done"), running.logs("done"), running.state("done")["w"].tolist()
    result = running.sweep_result("search")
    spark.hangs, num_phases = True, len(spark.groups)
    running.submit(job("cancelled"), job("endless"))
    until(lambda: len(spark.groups) > num_phases + 1)
    assert running.cancel("cancelled")
    assert not running.cancel("done")
    # The tasks of one that was cancelled are not dead yet when its driver is.
    abandon(running, spark)
    spark.hangs = False
    for _ in range(2):  # the second time nothing is left to do
        again = Scheduler(spark, checkpoint=str(tmp_path), resume=True)
        assert [one.name for one in again.jobs()] == ["done", "search", "endless"]
        after = again.status("done"), again.logs("done"), again.state("done")["w"].tolist()
        assert after == before
        with pytest.raises(InputError, match="job done is there already"):
            again.submit(job("done"))
        assert again.wait(WAIT_S)
        assert {one.status for one in again.jobs()} == {"done"}
        found = again.sweep_result("search")
        assert found is not None
        assert result is not None
        assert [one.losses for one in found.trials] == [one.losses for one in result.trials]
        assert found.best_state is not None
        abandon(again, spark)
    with Scheduler(spark, checkpoint=str(tmp_path), resume=True) as last:
        last.submit(job("cancelled"), job("failed"))
        assert last.wait(WAIT_S)
    # A scheduler that ends by itself leaves states alone, and nothing to go on with.
    with Scheduler(spark, checkpoint=str(tmp_path), resume=True) as empty:
        assert empty.jobs() == []
    assert {one.parent.parent.name for one in tmp_path.rglob("states/*")} == {
        *("done", "search", "endless", "cancelled", "failed")
    }


def test_a_stop_is_the_end_of_all_jobs(spark: InProcess, tmp_path: Path) -> None:
    spark.hangs = True
    with Scheduler(spark, checkpoint=str(tmp_path)) as running:
        running.submit(job("one"), search())
        until(lambda: len(spark.groups) > 1)
    assert not list(tmp_path.iterdir())
    with Scheduler(spark, checkpoint=str(tmp_path), resume=True) as again:
        assert again.jobs() == []
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("how", ["interrupted", "told"])
def test_jobs_of_a_scheduler_that_an_exception_leaves_are_resumed(
    how: str, spark: InProcess, tmp_path: Path
) -> None:
    spark.hangs = True
    db = study("median", tmp_path / "study.db")
    folder = tmp_path / "checkpoint"
    with (
        contextlib.suppress(KeyboardInterrupt),
        Scheduler(spark, checkpoint=str(folder)) as running,
    ):
        running.submit(job("one"), search(study=db))
        until(lambda: len(spark.groups) > 1)
        if how == "told":
            running.stop(resumable=True)
        else:
            raise KeyboardInterrupt
    told = {(one.status, one.error) for one in running.jobs()}
    assert told == {("cancelled", "the scheduler was stopped, and the job left to be resumed")}
    spark.hangs = False
    with Scheduler(spark, checkpoint=str(folder), resume=True) as again:
        assert [one.name for one in again.jobs()] == ["one", "search"]
        assert again.wait(WAIT_S)
        assert [one.status for one in again.jobs()] == ["done", "done"]
        assert list(again.status("one").losses) == alone(job("one"))
    assert {one.state.name for one in db.trials} == {"COMPLETE", "PRUNED"}


def test_an_exception_leaves_nothing_without_a_checkpoint(spark: InProcess) -> None:
    spark.hangs = True
    with contextlib.suppress(KeyboardInterrupt), Scheduler(spark) as running:
        running.submit(job("one"))
        until(lambda: len(spark.groups) > 0)
        raise KeyboardInterrupt
    assert running.status("one").error == "the scheduler was stopped"
    assert not Path(running._kept.path_of("one")).exists()


def test_jobs_of_a_scheduler_that_lives_are_its_own(
    spark: InProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(owners, "_BEAT_S", 0.01)
    monkeypatch.setattr(owners, "_DEAD_S", 1.0)
    with Scheduler(spark, checkpoint=str(tmp_path)) as first:
        spark.hangs = True
        first.submit(job("one"))
        with Scheduler(spark, checkpoint=str(tmp_path), resume=True) as second:
            assert second.jobs() == []
        assert "runs, so its jobs are not resumed" in caplog.text
        spark.hangs = False
        assert first.wait(WAIT_S)
        assert first.status("one").status == "done"


def test_a_scheduler_that_was_taken_for_dead_leaves_the_job_to_the_other(
    spark: InProcess, tmp_path: Path
) -> None:
    spark.hangs = True
    first = Scheduler(spark, checkpoint=str(tmp_path))
    first.submit(job("one"))
    until(lambda: len(spark.groups) == 1)
    with Scheduler(spark, checkpoint=str(tmp_path), resume=True) as second:
        until(lambda: len(spark.groups) == 2)
        spark.hangs = False
        assert first.wait(WAIT_S)
        assert second.wait(WAIT_S)
        status = first.status("one")
        told = (status.status, status.error)
        assert told == ("failed", "another scheduler has taken the job over")
        first.stop()
        assert second.status("one").status == "done"
        assert list(second.status("one").losses) == alone(job("one"))
        assert second.state("one") is not None


def test_of_two_that_resume_one_has_a_job(
    spark: InProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    died(monkeypatch, spark, tmp_path, job("one"))
    root = Store(str(tmp_path), "")
    claims = threading.Barrier(2, timeout=WAIT_S)
    # Not that of all modules: a phase of the dead driver may sleep still.
    monkeypatch.setattr(owners, "time", SimpleNamespace(sleep=lambda _: claims.wait()))
    found: dict[str, list[str]] = {}
    (alive,) = tmp_path.glob("*/_alive")
    alive.unlink()

    def claim(name: str) -> None:
        found[name] = owners.claimed(root, name)

    threads = [start_thread(lambda name=name: claim(name), name) for name in ("a", "b")]  # type: ignore[misc]
    for each in threads:
        each.join(WAIT_S)
    assert sorted(map(len, found.values())) == [0, 1]


def died(
    patch: pytest.MonkeyPatch, spark: InProcess, folder: Path, *jobs: Any, num_left: int = 10**6
) -> None:
    """Jobs of a driver that was killed while the first phases ran, or at a later change."""
    with patch.context() as patched:
        mortal = Mortal(patched, num_left)
        spark.hangs = num_left == 10**6
        running = Scheduler(spark, checkpoint=str(folder))
        running.submit(*jobs)
        until(lambda: mortal.is_dead or (spark.hangs and len(spark.groups) > 0))
        mortal.is_dead = True
        abandon(running, spark)
        spark.hangs = False


@pytest.mark.parametrize("broken", ["record/job", "record/boundary-000001", "states"])
def test_a_record_that_cannot_be_read_is_told_and_left_and_others_go_on(
    broken: str,
    spark: InProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    died(monkeypatch, spark, tmp_path, job("bad"), job("good"), num_left=18)
    (bad,) = tmp_path.glob("*/bad")
    if broken == "states":
        state = json.loads(max(bad.glob("record/boundary-*")).read_bytes())["state"]
        file = bad / state
        file.unlink()
    else:
        file = bad / broken
        file.write_bytes(b"nonsense")
    with Scheduler(spark, checkpoint=str(tmp_path), resume=True) as running:
        assert [one.name for one in running.jobs()] == ["good"]
        (told,) = [one.getMessage() for one in caplog.records if "not resumed" in one.getMessage()]
        assert str(file) in told
        assert running.wait(WAIT_S)
        assert list(running.status("good").losses) == alone(job("good"))
    assert file.exists() == (broken != "states")
    assert (bad / "record").is_dir()


def test_of_two_jobs_of_a_name_the_newer_goes_on(
    spark: InProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for seed in (1, 2):
        died(monkeypatch, spark, tmp_path, job("one", seed=seed))
    with Scheduler(spark, checkpoint=str(tmp_path), resume=True) as running:
        assert running.wait(WAIT_S)
        assert list(running.status("one").losses) == alone(job("one", seed=2))
    assert "was submitted before another one of that name" in caplog.text
    assert not list(tmp_path.glob("*/one/record/job"))


def test_a_boundary_holds_what_is_new_and_one_that_fails_is_in_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Kept(str(tmp_path), "first", is_lasting=True)
    one = job("one", num_iterations=100)
    files.begin(one, dumps(one))
    store = files.store("one")
    record, sizes = Record(job=one, arrived_s=0.0, load=one.load()), []
    for at in range(20):
        record.losses += [0.1 + at] * 4
        record.load = one.load(len(record.losses))
        record.state = f"states/{at:03d}"
        store.write(record.state, b"")
        with monkeypatch.context() as patched:
            if at % 5 == 3:
                patched.setattr(Store, "write", refused)
            assert files.boundary("one", record) == ""
        names = [one.name for one in tmp_path.glob("first/one/states/*")]
        # The state that the files name is there always.
        said = json.loads(max(tmp_path.glob("first/one/record/boundary-*")).read_bytes())
        assert said["state"].rpartition("/")[2] in names
        assert record.state.rpartition("/")[2] in names
        assert len(names) <= 2
        sizes.append(len(said["losses"]))
    assert set(sizes) == {4, 8}
    files.leave()
    second = Kept(str(tmp_path), "second", is_lasting=True)
    (found,) = second.resumed()
    second.leave()
    assert list(found.past.losses) == record.losses
    assert (found.past.done, found.past.state) == (80, record.state)


def refused(*_: Any) -> None:
    raise OSError("quota")


def test_a_file_that_does_not_follow_the_one_before_is_an_error() -> None:
    with pytest.raises(ValueError, match="does not follow"):
        Past().then(json.dumps({"first": 3, "losses": [], "log": []}).encode())


def test_a_job_whose_record_cannot_be_written_is_refused_with_those_beside_it(
    spark: InProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Store.write

    def picky(self: Store, name: str, content: bytes) -> None:
        if "/two" in self.path:
            raise OSError("quota")
        write(self, name, content)

    monkeypatch.setattr(Store, "write", picky)
    with Scheduler(spark, checkpoint=str(tmp_path)) as running:
        with pytest.raises(InputError, match="cannot be written: quota"):
            running.submit(job("one"), job("two"))
        with pytest.raises(InputError, match="cannot be written: quota"):
            running.submit(search(name="one"), job("two"))
        assert running.jobs() == []
        running.submit(job("one"))
        assert running.wait(WAIT_S)
        assert (running.status("one").status, running.status("one").iteration) == ("done", 5)


@pytest.mark.parametrize("answers", [True, False])
def test_a_stop_right_after_the_end_of_the_application_leaves_its_jobs(
    spark: InProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, answers: bool
) -> None:
    """The scheduler's thread has not seen it when the driver's script does, and leaves."""
    monkeypatch.setattr(scheduler, "_POLL_S", 2.0)
    spark.hangs = True
    with Scheduler(spark, checkpoint=str(tmp_path)) as running:
        running.submit(job("one"))
        until(lambda: len(spark.groups) == 1)
        jsc = spark._jsc
        spark._jsc = None if answers else SimpleNamespace()
        spark.look_error = ConnectionError("the gateway is gone")
    assert running.status("one").status == "failed"
    spark._jsc, spark.look_error, spark.hangs = jsc, None, False
    with Scheduler(spark, checkpoint=str(tmp_path), resume=True) as again:
        assert again.wait(WAIT_S)
        assert again.status("one").status == "done"


def test_a_sweep_that_cannot_be_pickled_runs_but_is_not_resumed(
    spark: InProcess, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lock = threading.Lock()

    def callback(_: Any) -> None:
        with lock:
            pass

    with Scheduler(spark, checkpoint=str(tmp_path)) as running:
        running.submit(search(callback=callback))
        assert "job search cannot be pickled, so it is not resumed" in caplog.text
        assert running.wait(WAIT_S)
        assert running.status("search").status == "done"


def test_of_a_dataframe_columns_are_kept_and_rows_must_be_there(tmp_path: Path) -> None:
    frame_type = type("DataFrame", (), {"mapInArrow": None, "dtypes": [("x", "double")]})
    frame_type.__module__ = "pyspark.sql"
    one = pickle.loads(kept.pickled_sweep(search(data=frame_type())))  # noqa: S301  ours
    assert one.data == PastFrame((("x", "double"),))
    with pytest.raises(InputError, match="was not written when its application ended"):
        prepare_data(one.data, Store(str(tmp_path)), 32, "app")


def test_what_a_job_needs_and_is_gone_is_told_and_the_job_is_left(
    spark: InProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    file, folder = tmp_path / "study.db", tmp_path / "folder"
    died(monkeypatch, spark, folder, search(study=study("median", file)), job("two"))
    file.rename(tmp_path / "elsewhere.db")
    with monkeypatch.context() as patched:
        patched.delattr(Linear, "update")
        with Scheduler(spark, checkpoint=str(folder), resume=True) as running:
            assert running.jobs() == []
    assert "job search is not resumed: job search: study cannot be read: " in caplog.text
    assert "training Linear has no method update" in caplog.text
    (tmp_path / "elsewhere.db").rename(file)
    with Scheduler(spark, checkpoint=str(folder), resume=True) as again:
        assert again.wait(WAIT_S)
        assert {one.name: one.status for one in again.jobs()} == {"search": "done", "two": "done"}


def test_a_scheduler_that_does_not_start_leaves_nothing_running(
    spark: InProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    died(monkeypatch, spark, folder, search(), job("two"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    threads = set(threading.enumerate())
    with monkeypatch.context() as patched:
        patched.setattr(spark, "broadcast", refused)
        with pytest.raises(OSError, match="quota"):
            Scheduler(spark, checkpoint=str(folder), resume=True)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="spool"):
        Scheduler(spark, spool=str(tmp_path / "file"))
    until(lambda: not [one for one in threading.enumerate() if one not in threads])
    assert not list(tmp_path.glob("dagopt-train-*"))
    with Scheduler(spark, checkpoint=str(folder), resume=True) as again:
        assert again.wait(WAIT_S)
        assert {one.name: one.status for one in again.jobs()} == {"search": "done", "two": "done"}


def test_what_others_have_in_the_folder_is_left_alone(
    spark: InProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    died(monkeypatch, spark, tmp_path, job("one"), job("locked"))
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "record").write_text("a file")
    (tmp_path / "c" / "_alive").mkdir(parents=True)
    (tmp_path / os.fsdecode(b"\xff") / "d").mkdir(parents=True)
    (tmp_path / "itself").symlink_to(".")
    (tmp_path / "lost+found").mkdir()
    infos, write = Store._infos, Store.write

    def unseen(self: Store, folder: str) -> Any:
        if folder.startswith("lost+found"):
            raise PermissionError("lost+found: denied")
        return infos(self, folder)

    def unwritten(self: Store, name: str, content: bytes) -> None:
        if name.endswith("locked/record/owner"):
            raise PermissionError("locked: denied")
        write(self, name, content)

    monkeypatch.setattr(Store, "_infos", unseen)
    monkeypatch.setattr(Store, "write", unwritten)
    with Scheduler(spark, checkpoint=str(tmp_path), resume=True) as running:
        assert [one.name for one in running.jobs()] == ["one"]
        assert running.wait(WAIT_S)
        assert running.status("one").status == "done"
    for told in ("lost+found: denied", "locked: denied", "Not a directory"):
        assert caplog.text.count(told) == 1
    assert (tmp_path / "a" / "b" / "record").read_text() == "a file"
    assert (tmp_path / os.fsdecode(b"\xff") / "d").is_dir()


def test_a_job_whose_files_are_deleted_says_so(spark: InProcess, tmp_path: Path) -> None:
    with Scheduler(spark, checkpoint=str(tmp_path / "folder")) as running:
        spark.hangs = True
        running.submit(job("one"))
        until(lambda: len(spark.groups) == 1)
        shutil.rmtree(tmp_path / "folder")
        spark.hangs = False
        assert running.wait(WAIT_S)
        assert running.status("one").error.startswith("its files in checkpoint are gone")
        running.submit(job("two"))
        assert running.wait(WAIT_S)
        assert running.status("two").status == "done"


def test_a_job_may_have_any_name_that_is_allowed(spark: InProcess, tmp_path: Path) -> None:
    names = ["alive", "alive.part", "record", "states", "sweep", "owner"]
    with Scheduler(spark, checkpoint=str(tmp_path)) as running:
        running.submit(*map(job, names))
        assert running.wait(WAIT_S)
        assert {one.status for one in running.jobs()} == {"done"}


def test_options_of_a_uri_and_a_slash_at_its_end(spark: InProcess, tmp_path: Path) -> None:
    for folder in (f"{tmp_path.as_uri()}/a%20b?use_mmap=true", f"{tmp_path}/c/"):
        spark.hangs = True
        running = Scheduler(spark, checkpoint=folder)
        running.submit(job("one"))
        until(lambda: len(spark.groups) > 0)
        abandon(running, spark)
        spark.hangs = False
        with Scheduler(spark, checkpoint=folder, resume=True) as again:
            assert again.wait(WAIT_S)
            assert again.status("one").status == "done"
        spark.groups.clear()
    assert len(list(tmp_path.glob("a b/*/one/states/*"))) == 1
    assert [within(each, "a/b") for each in ("file:///", "/", "s3://x?y=z/1", "/q?r")] == [
        "file:///a/b",
        "/a/b",
        "s3://x/a/b?y=z/1",
        "/q?r/a/b",
    ]
    with pytest.raises(InputError, match="checkpoint is '', expected a folder"):
        Scheduler(spark, checkpoint="")


def test_resuming_needs_a_folder(spark: InProcess) -> None:
    with pytest.raises(InputError, match="checkpoint is missing: expected the folder of the jobs"):
        Scheduler(spark, resume=True)


def test_a_fresh_folder_has_nothing_to_resume(spark: InProcess, tmp_path: Path) -> None:
    with Scheduler(spark, checkpoint=str(tmp_path / "new"), resume=True) as running:
        running.submit(job("one"))
        assert running.wait(WAIT_S)
