"""What the scheduler does when Spark, a plan or its own thread fails: Spark is a fake one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dagopt.errors import InputError
from dagopt.model.topology import ExecutorResources
from dagopt.policy.training import Scheduler as TrainingPolicy
from dagopt.spark.barrier import StageTasks
from dagopt.train import phases, scheduler
from dagopt.train.job import TrainJob
from dagopt.train.scheduler import Scheduler
from dagopt.train.worker import PhaseOutcome

pytestmark = pytest.mark.usefixtures("spark")

WAIT_S = 60.0


class Nothing:
    num_examples = 100

    def init(self, seed: int) -> None:
        """Never called."""

    batch = gradients = update = init


class FakeSpark:
    """An application with one executor; phases end when they are cancelled, or let go."""

    def __init__(self) -> None:
        self.sparkContext = self
        self.master, self.applicationId, self.version = "local-cluster[1,2,1024]", "app", "4.0.0"
        self.executors = [ExecutorResources(executor="0", host="a", addresses=("0", "1"))]
        self.conf: dict[str, str] = {}
        self.cancelled: set[str] = set()
        self.groups: list[str] = []
        self.tasks: StageTasks | None = None
        self.look_error: Exception | None = None
        self.cancel_error: Exception | None = None
        self.hangs = False
        self.content: dict[str, Any] = {}
        stopped = SimpleNamespace(isStopped=lambda: False)
        self._jsc: Any = SimpleNamespace(sc=lambda: stopped)

    def getConf(self) -> dict[str, str]:  # noqa: N802  Spark's name
        return self.conf

    def broadcast(self, content: bytes) -> Any:
        return SimpleNamespace(value=content)

    def executors_of(self, *_: Any) -> list[ExecutorResources]:
        if self.look_error is not None:
            raise self.look_error
        return self.executors

    def run_barrier(self, *_: Any, group: str, told: str) -> list[PhaseOutcome]:
        assert told.startswith("training ")
        self.groups.append(group)
        until(lambda: not self.hangs and group in self.cancelled)
        raise RuntimeError("Job 1 cancelled part of cancelled job group")

    def cancel(self, _: Any, group: str) -> None:
        self.cancelled.add(group)
        if self.cancel_error is not None:
            raise self.cancel_error

    def tasks_of(self, *_: Any) -> StageTasks | None:
        return self.tasks


def until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def start_thread(function: Callable[[], None], name: str) -> threading.Thread:
    thread = threading.Thread(target=function, name=name, daemon=True)
    thread.start()
    return thread


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> FakeSpark:
    fake = FakeSpark()
    monkeypatch.setattr(scheduler, "check_installed", lambda: None)
    monkeypatch.setattr(scheduler, "context_of", lambda _: fake)
    monkeypatch.setattr(scheduler, "gpu_profile", lambda: "profile")
    monkeypatch.setattr(scheduler, "num_expected", lambda _: 1)
    monkeypatch.setattr(scheduler, "executors_of", fake.executors_of)
    monkeypatch.setattr(scheduler, "_WATCH_S", 0.02)
    monkeypatch.setattr(scheduler, "_MOST_FAILURES", 3)
    monkeypatch.setattr(phases, "_SETTLE_S", 0.05)
    for name in ("run_barrier", "cancel", "tasks_of"):
        monkeypatch.setattr(phases, name, getattr(fake, name))
    for module in (scheduler, phases):
        monkeypatch.setattr(module, "start_thread", start_thread)
    return fake


def job(name: str = "one", **fields: Any) -> TrainJob:
    return TrainJob(name=name, training=Nothing(), num_iterations=100, global_batch=12, **fields)


def test_a_broken_loop_fails_its_jobs_and_whoever_asks(spark: FakeSpark) -> None:
    with Scheduler(spark) as jobs:
        jobs.submit(job())
        until(lambda: len(spark.groups) == 1)
        spark.look_error = ConnectionError("the gateway is gone")
        with pytest.raises(RuntimeError, match="the scheduler has stopped") as raised:
            jobs.wait(WAIT_S)
        assert raised.value.__cause__ is spark.look_error
        assert spark.cancelled == set(spark.groups)
        status = jobs.status("one")
        assert (status.status, status.num_accelerators) == ("failed", 0)
        assert "the gateway is gone" in status.error
        with pytest.raises(RuntimeError, match="the scheduler has stopped"):
            jobs.submit(job("two"))
        with pytest.raises(RuntimeError, match="the scheduler has stopped"):
            jobs.serve()


def test_a_look_that_fails_once_breaks_nothing(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Scheduler(spark) as jobs:
        failing = [True]

        def once(*_: Any) -> None:
            if failing:
                failing.pop()
                raise ConnectionError("busy")

        monkeypatch.setattr(phases, "tasks_of", once)
        jobs.submit(job())
        until(lambda: len(spark.groups) == 1 and not failing)
        jobs.cancel("one")
        assert jobs.wait(WAIT_S)


def test_a_plan_that_fails_leaves_jobs_where_they_are(
    spark: FakeSpark, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing:
        fails = False

        def plan(self, *given: Any) -> Any:
            if self.fails:
                raise ModuleNotFoundError("no such solver")
            return TrainingPolicy().plan(*given)

    policy = Failing()
    with Scheduler(spark, policy=policy) as jobs:
        jobs.submit(job())
        until(lambda: len(spark.groups) == 1)
        policy.fails = True
        jobs.submit(job("two"))
        until(lambda: "no such solver" in caplog.text)
        assert jobs.status("one").num_accelerators > 0
        assert not spark.cancelled


def test_stop_ends_jobs_though_the_application_has_ended(spark: FakeSpark) -> None:
    jobs = Scheduler(spark)
    jobs.submit(job())
    until(lambda: len(spark.groups) == 1)
    waited: list[bool] = []
    waiter = start_thread(lambda: waited.append(jobs.wait()), "waiter")
    spark.cancel_error = AttributeError("'NoneType' object has no attribute 'sc'")
    jobs.stop()
    waiter.join(WAIT_S)
    assert waited == [True]
    status = jobs.status("one")
    assert (status.status, status.error) == ("cancelled", "the scheduler was stopped")
    with pytest.raises(RuntimeError, match="the scheduler was stopped"):
        jobs.submit(job("two"))
    jobs.serve()


def test_an_application_that_ends_first_is_the_reason_in_one_sentence(
    spark: FakeSpark, caplog: pytest.LogCaptureFixture
) -> None:
    with Scheduler(spark) as jobs:
        jobs.submit(job())
        until(lambda: len(spark.groups) == 1)
        spark.look_error = AttributeError("'NoneType' object has no attribute 'sc'")
        spark._jsc = None
        spark.cancelled.update(spark.groups)  # Spark ends what runs
        with pytest.raises(RuntimeError) as raised:
            jobs.wait(WAIT_S)
        assert str(raised.value.__cause__) == "the application has ended"
        assert (jobs.status("one").status, jobs.status("one").error) == (
            "failed",
            "the application has ended",
        )
        assert not any("back to iteration" in line for line in jobs.logs("one"))
    assert "Traceback" not in caplog.text


def test_a_phase_that_came_before_the_application_ended_counts(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = PhaseOutcome(rank=0, address="0", error="ValueError: my own")
    monkeypatch.setattr(phases, "run_barrier", lambda *_, **__: [own])
    ended = phases.Phases.ended

    def then_stop(*given: Any) -> Any:
        found = ended(*given)
        if found:
            spark._jsc = None
        return found

    monkeypatch.setattr(phases.Phases, "ended", then_stop)
    with Scheduler(spark) as jobs:
        jobs.submit(job(max_accelerators=1))
        until(lambda: jobs._broken is not None)
        assert jobs.status("one").error == "ValueError: my own"


def test_nothing_is_submitted_to_an_application_that_has_ended(spark: FakeSpark) -> None:
    with Scheduler(spark) as jobs:
        spark._jsc = None
        with pytest.raises(RuntimeError, match=r"the application has ended|scheduler has stopped"):
            jobs.submit(job())


def test_a_phase_for_which_spark_looks_for_slots_is_cancelled(spark: FakeSpark) -> None:
    """It has no stage, and its job does not end."""
    spark.hangs = True
    with Scheduler(spark) as jobs:
        jobs.submit(job())
        until(lambda: len(spark.groups) == 1)
        jobs.cancel("one")
        assert jobs.wait(WAIT_S)
        assert spark.cancelled == set(spark.groups)
        spark.hangs = False


def test_an_accelerator_is_free_when_its_task_is_dead(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Scheduler(spark) as jobs:
        jobs.submit(job())
        until(lambda: len(spark.groups) == 1)
        spark.tasks = tasks(running=("0",))
        jobs.cancel("one")
        assert not jobs.wait(0.5)
        spark.tasks = tasks()
        assert jobs.wait(WAIT_S)
        jobs.submit(job("two"))
        until(lambda: len(spark.groups) == 2)
        spark.tasks = tasks(running=("0",))
        jobs.cancel("two")
        assert not jobs.wait(0.5)
        monkeypatch.setattr(phases, "_DEAD_S", 0.0)
        assert jobs.wait(WAIT_S)
    (first, second) = jobs.stays
    assert first.until_s is not None
    assert first.until_s <= second.from_s


def test_tasks_of_an_executor_that_is_gone_are_dead(spark: FakeSpark) -> None:
    spark.executors.append(ExecutorResources(executor="1", host="b", addresses=("0", "1")))
    with Scheduler(spark) as jobs:
        jobs.submit(job(max_restarts=0))
        until(lambda: len(spark.groups) == 1)
        gone = jobs.stays[0].slots[0].executor
        spark.tasks = tasks(running=(gone,))
        spark.executors = [one for one in spark.executors if one.executor != gone]
        assert jobs.wait(WAIT_S)
        assert jobs.status("one").error == f"executor {gone} was lost, 1 times in a row"


def test_a_phase_that_fails_does_not_go_to_an_executor_that_went_with_it(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.executors.append(ExecutorResources(executor="1", host="b", addresses=("0", "1")))
    with Scheduler(spark) as jobs:
        monkeypatch.setattr(scheduler, "_WATCH_S", 10 * WAIT_S)
        jobs.submit(job(max_accelerators=1))
        until(lambda: len(spark.groups) == 1)
        gone = jobs.stays[0].slots[0].executor
        spark.executors = [one for one in spark.executors if one.executor != gone]
        spark.cancelled.update(spark.groups)  # Spark tells of the failure before dagopt looks
        until(lambda: len(spark.groups) == 2)
        assert jobs.stays[1].slots[0].executor != gone


def test_a_lost_task_tells_its_reason(spark: FakeSpark) -> None:
    with Scheduler(spark) as jobs:
        spark.tasks = tasks(attempt=1, why="OSError: no space left")
        jobs.submit(job(max_restarts=0))
        assert jobs.wait(WAIT_S)
        told = "a task was lost: OSError: no space left, 1 times in a row"
        assert jobs.status("one").error == told


def test_accelerators_that_others_have_are_no_fault_of_the_job(spark: FakeSpark) -> None:
    with Scheduler(spark) as jobs:
        spark.tasks = tasks(executors=("9",))
        jobs.submit(job(max_restarts=0, max_accelerators=1))
        until(lambda: len(spark.groups) >= 3)
        assert not jobs.status("one").error
        assert any("its accelerators were taken" in line for line in jobs.logs("one"))


def test_schedulers_of_one_application_share_no_job_group(spark: FakeSpark) -> None:
    for _ in range(2):
        with Scheduler(spark) as jobs:
            jobs.submit(job())
            until(lambda: bool(spark.groups) and spark.groups[-1] not in spark.cancelled)
    assert len(set(spark.groups)) == 2


def test_a_state_that_a_boundary_replaces_meanwhile_is_read_again(
    spark: FakeSpark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Scheduler(spark, checkpoint=str(tmp_path)) as jobs:
        jobs.submit(job())
        store, board = jobs._kept.store("one"), jobs._board
        store.write("states/new", b"\x80\x04K\x07.")
        names = iter(["states/old", "states/new"])
        monkeypatch.setattr(jobs, "_state_of", lambda _: next(names))
        assert jobs.state("one") == 7
        monkeypatch.setattr(jobs, "_state_of", lambda _: "states/gone")
        with pytest.raises(InputError, match="its state is not in checkpoint any longer"):
            jobs.state("one")
        board.record("one").state = "states/new"
    assert not list(tmp_path.iterdir())


def test_executors_by_demand_are_refused(spark: FakeSpark) -> None:
    spark.conf["spark.dynamicAllocation.enabled"] = "true"
    with pytest.raises(InputError, match=r"spark.dynamicAllocation.enabled is true, must be false"):
        Scheduler(spark)


def test_what_cannot_be_pickled_is_an_input_error(spark: FakeSpark) -> None:
    class Bad(Nothing):
        def __reduce__(self) -> Any:
            raise ValueError("not me")

    with Scheduler(spark) as jobs, pytest.raises(InputError, match="cannot be pickled: not me"):
        jobs.submit(TrainJob(name="bad", training=Bad(), num_iterations=1, global_batch=12))


def tasks(
    attempt: int = 0, executors: tuple[str, ...] = (), running: tuple[str, ...] = (), why: str = ""
) -> StageTasks:
    return StageTasks(attempt=attempt, executors=executors, running=running, is_over=True, why=why)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"interval_s": "30"}, "interval_s is '30', must be a number > 0"),
        ({"interval_s": float("nan")}, "interval_s is nan, must be a number > 0"),
        ({"policy": "dagopt"}, "policy str has no method plan"),
        ({"local": 5}, "local is a int, expected a Link"),
        ({"network": "x"}, "network is a str, expected a Link"),
        ({"topology": "cluster.yaml"}, "topology is a str, expected what dagopt.app.topology"),
        ({"checkpoint": 5}, "checkpoint is a int, expected a folder, or None"),
        ({"spool": 5}, "spool is a int, expected a folder, or None"),
    ],
)
def test_a_wrong_argument_is_one_error(spark: FakeSpark, given: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=f"^{told}"):
        Scheduler(spark, **given)


@pytest.mark.parametrize("given", ["one", None, [job()]])
def test_what_is_no_job_is_not_submitted(spark: FakeSpark, given: Any) -> None:
    kind = type(given).__name__
    with Scheduler(spark) as jobs:
        with pytest.raises(InputError, match=f"^job is a {kind}, expected a TrainJob or a Sweep"):
            jobs.submit(given)
        assert jobs.jobs() == []
