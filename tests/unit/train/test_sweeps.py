"""A sweep under a scheduler: takes accelerators, gives them back, loses a phase, is cancelled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dagopt.errors import InputError
from dagopt.model.topology import ExecutorResources, Link
from dagopt.policy.training import Scheduler as TrainingPolicy
from dagopt.train import sweeps
from dagopt.train.board import Board, Launch
from dagopt.train.cluster import Links
from dagopt.train.kept import Kept
from dagopt.train.phases import Phase
from dagopt.train.sweep import SlotOutcome, SweepJob, spread, sweep_report
from dagopt.train.sweeps import Sweep
from dagopt.tune.checkpoint import Store
from dagopt.tune.phase import GroupOutcome, GroupWork, TrialOutcome, TrialWork
from dagopt.tune.places import Places, Progress

WAIT_S = 60.0
INTERVAL_S = 30.0


def job(**fields: Any) -> SweepJob:
    known: dict[str, Any] = {"name": "search", "trainable": None, "data": None, "space": {}}
    return SweepJob(**{**known, "num_trials": 4, "max_iterations": 10, **fields})


def work(number: int, *, watch: bool = False) -> GroupWork:
    trial = TrialWork(trial=number, params={}, position=0, dataset="data")
    return GroupWork(
        number=number,
        phase=1,
        mode="alone",
        trials=(trial,),
        stacks=(),
        num_iterations=5,
        watch=watch,
    )


def outcome(each: GroupWork) -> tuple[GroupOutcome, str]:
    trial = TrialOutcome(
        trial=each.number, losses=[0.5] * 5, times_s=[0.1] * 5, peaks_bytes=[1] * 5
    )
    found = GroupOutcome(
        number=each.number,
        trials=[trial],
        start_s=100.0,
        elapsed_s=0.5,
        read_s={},
        busy_fraction=1.0,
        peak_bytes=1,
        width={},
        pass_length={},
        num_passes=1,
        not_stackable={},
    )
    return found, f"states-{each.number}"


class Trial:
    """What a sweep wants; with a lock it cannot be pickled."""

    def __init__(self, lock: Any = None) -> None:
        self.lock = lock

    def init(self, *_: Any) -> None:
        """Never called."""

    step = init


class Cluster:
    """A board, phases that end when a test says so, and a sweep whose tuner is a function."""

    def __init__(self, tuner: Callable[[Places], Any], path: Path, **fields: Any) -> None:
        link = Link(bandwidth_bytes_per_s=1e9)
        self.lock = threading.Condition()
        self.board = Board(TrainingPolicy(), INTERVAL_S, Links(local=link, network=link))
        self.board.set_executors(
            [ExecutorResources(executor="0", host="a", addresses=("0", "1", "2", "3"))]
        )
        self.running: list[tuple[Launch, Any, list[list[Any]]]] = []
        self.now_s = 0.0
        self.has_ended = False
        phases: Any = self
        run: Any = SimpleNamespace(run_on=lambda places, _: tuner(places))
        one = job(**fields)
        kept = Kept(str(path), "scheduler", is_lasting=False)
        kept.begin(one, b"")
        self.sweep = Sweep(
            one,
            run,
            kept,
            self.board,
            phases,
            self.lock,
            lambda: self.now_s,
        )
        with self.lock:
            self.board.submit(one, 0.0)
            self.sweep.start()

    def launch(self, launch: Launch, worker: Any, works: list[list[Any]], told: str) -> None:
        assert told.endswith(", search")
        self.running.append((launch, worker, works))

    def has_application_ended(self) -> bool:
        return self.has_ended

    def step(self, until: Callable[[], bool]) -> None:
        """What the scheduler's thread does, until something is so."""
        end_s = time.monotonic() + WAIT_S
        with self.lock:
            self.give()
            while not until():
                assert time.monotonic() < end_s
                self.lock.wait(0.01)
                self.give()

    def give(self) -> None:
        for launch in self.board.launches(self.now_s):
            self.sweep.give(launch)
            self.lock.notify_all()

    def phase(self) -> tuple[Launch, list[list[Any]]]:
        self.step(lambda: bool(self.running))
        return self.running[0][0], self.running[0][2]

    def end(self, why: str = "") -> None:
        with self.lock:
            launch, worker, works = self.running.pop()
            phase = Phase(launch, "group", why=why)
            if not why:
                phase.outcomes = [
                    SlotOutcome(address=str(at), found=[worker.function(one) for one in share])
                    for at, share in enumerate(works)
                ]
            self.now_s += 1.0
            self.sweep.ended(phase)
            self.lock.notify_all()

    def over(self) -> Any:
        self.step(lambda: self.board.record("search").is_over)
        self.sweep.join(WAIT_S)
        return self.board.record("search")


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(function: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=function, name=name, daemon=True)
        thread.start()
        return thread

    monkeypatch.setattr(sweeps, "start_thread", start)


def progress(done: int, running: int = 4) -> Progress:
    return Progress(num_running=running, num_done=done, num_left=running * 10_000, loss=0.5)


def test_groups_share_what_was_given_and_accelerators_go_back_at_each_boundary(
    tmp_path: Path,
) -> None:
    found: list[Any] = []

    def tuner(places: Places) -> Any:
        found.append(places.call(lambda _: "memory", "told"))
        for done in (20, 40):
            given = places.take()
            found.append(given.num_slots)
            works = [work(at) for at in range(4)]
            outcomes = places.run(outcome, works, [1.0] * 4, "told")
            assert outcomes == [outcome(each) for each in works]
            places.boundary(progress(done, 4 if done < 40 else 0))
        return "result"

    cluster = Cluster(tuner, tmp_path)
    for _ in range(3):
        launch, works = cluster.phase()
        assert len(works) == len(launch.slots)
        assert cluster.board.record("search").slots == launch.slots
        cluster.end()
    record = cluster.over()
    assert (record.status, record.slots, record.losses) == ("done", (), [0.5, 0.5])
    assert str(cluster.sweep.result) == "result"
    # It doubles as soon as it was measured.
    assert found == ["memory", 1, 2]
    assert (record.shown().iteration, record.shown().num_iterations) == (40, 40)
    assert [run.num_iterations for run in cluster.board.runs] == [0, 20, 20]


def test_a_lost_phase_is_planned_again_and_too_many_end_the_job(tmp_path: Path) -> None:
    found: list[Any] = []

    def tuner(places: Places) -> Any:
        while True:
            places.take()
            found.append(places.run(outcome, [work(0)], [1.0], "told"))

    cluster = Cluster(tuner, tmp_path, max_restarts=1)
    for _ in range(2):
        cluster.phase()
        cluster.end("executor 0 was lost")
    record = cluster.over()
    assert found == [None]
    assert (record.status, record.slots) == ("failed", ())
    assert record.error == "executor 0 was lost, 2 times in a row"


@pytest.mark.parametrize("when", ["waits", "runs"])
def test_a_cancelled_sweep_ends_its_tuner_and_holds_nothing(tmp_path: Path, when: str) -> None:
    ended = threading.Event()

    def tuner(places: Places) -> Any:
        try:
            store = Store(f"{tmp_path}/scheduler/search")
            store.add_boundary(0, "boundary")
            store.write("states/one", b"")
            places.take()
            places.run(outcome, [work(0)], [1.0], "told")
        except sweeps.SweepOver:
            ended.set()
            raise

    cluster = Cluster(tuner, tmp_path)
    if when == "runs":
        cluster.phase()
    with cluster.lock:
        cluster.board.cancel("search")
        cluster.lock.notify_all()
    if when == "runs":
        assert not ended.is_set()  # its tasks are not dead yet
        cluster.end("cancelled")
    record = cluster.over()
    assert ended.wait(WAIT_S)
    assert (record.status, record.slots) == ("cancelled", ())
    assert not [one for one in tmp_path.rglob("*") if one.is_file()]


def test_whatever_a_tuner_raises_fails_its_job_alone(tmp_path: Path) -> None:
    def tuner(places: Places) -> Any:
        places.take()
        raise ValueError("of the callback")

    record = Cluster(tuner, tmp_path).over()
    assert (record.status, record.slots) == ("failed", ())
    assert "ValueError: of the callback" in record.error


def test_what_an_ended_application_raises_is_one_sentence(tmp_path: Path) -> None:
    def tuner(places: Places) -> Any:
        places.take()
        cluster.has_ended = True
        raise AttributeError("'NoneType' object has no attribute 'sc'")

    cluster = Cluster(tuner, tmp_path)
    assert cluster.over().error == "the application has ended"


def test_works_are_spread_so_that_slots_end_together() -> None:
    assert spread([1.0, 3.0, 1.0, 1.0], 2) == [[1], [0, 2, 3]]
    assert spread([1.0], 3) == [[0], [], []]


def test_the_slowest_slot_says_how_long_an_iteration_is() -> None:
    works = [work(at) for at in range(3)]
    cluster_slots = Board(
        TrainingPolicy(),
        1.0,
        Links(local=Link(bandwidth_bytes_per_s=1.0), network=Link(bandwidth_bytes_per_s=1.0)),
    )
    cluster_slots.set_executors([ExecutorResources(executor="0", host="a", addresses=("0", "1"))])
    cluster_slots.submit(job(num_trials=2), 0.0)
    cluster_slots.ask("search")
    (launch,) = cluster_slots.launches(0.0)
    report = sweep_report(
        works, [outcome(each) for each in works], [[0, 1], [2]], launch.slots, ("0", "1")
    )
    assert report.step_s == pytest.approx(0.2)
    assert report.num_iterations == 15
    assert not report.is_guess


@pytest.mark.parametrize("fields", [{"num_trials": 0}, {"name": "a b"}, {"max_accelerators": 0}])
def test_bad_values_are_one_error(fields: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        job(**fields)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"trainable": Trial(threading.Lock())}, "trainable cannot be pickled"),
        ({"data": Trial(threading.Lock()).step}, "data cannot be pickled"),
        ({"callback": 3}, "callback is a int, expected a function"),
        ({"space": None}, "space is missing"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"memory": 5}, "memory is 5, expected a size"),
        ({"headroom_fraction": 1.0}, "headroom_fraction is 1.0, expected a number >= 0 and < 1"),
        ({"seed": "x"}, "seed is 'x', expected a whole number"),
        ({"rules": 3}, "rules is 3, expected CandidateRules"),
    ],
)
def test_what_a_tuner_refuses_names_the_job(
    tmp_path: Path, fields: dict[str, Any], told: str
) -> None:
    spark = SimpleNamespace(sparkContext=SimpleNamespace(master="local[1]"))
    known: dict[str, Any] = {"trainable": Trial(), "data": Trial().step, "space": Trial().init}
    with pytest.raises(InputError, match=f"^job search: {told}"):
        job(**{**known, **fields}).tuner(spark, str(tmp_path), None)
    job(**known).tuner(spark, str(tmp_path), None)
