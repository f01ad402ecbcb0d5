from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dagopt.spark import barrier
from dagopt.spark.barrier import cancel, cause, executors_of, tasks_of
from dagopt.spark.executors import LiveExecutor


def live(executor: str, host: str, cores: int, *addresses: str) -> LiveExecutor:
    return LiveExecutor(
        executor=executor, host=host, cores=cores, profile_id=0, addresses=addresses
    )


def found(
    monkeypatch: pytest.MonkeyPatch, executors: list[LiveExecutor], cpus: float = 1
) -> dict[str, tuple[str, ...]]:
    monkeypatch.setattr(barrier, "live_executors", lambda _: executors)
    profile = SimpleNamespace(taskResources={"cpus": SimpleNamespace(amount=cpus)})
    context = SimpleNamespace(master="spark://host:7077")
    return {each.executor: each.addresses for each in executors_of(context, profile)}


def test_an_executor_has_as_many_accelerators_as_its_cores_run_tasks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    executors = [live("0", "a", 2, "0", "1", "2", "3"), live("1", "b", 8, "0"), live("2", "c", 1)]
    assert found(monkeypatch, executors) == {"0": ("0", "1"), "1": ("0",)}
    assert found(monkeypatch, executors, cpus=2) == {"0": ("0",), "1": ("0",)}
    assert found(monkeypatch, executors, cpus=4) == {"1": ("0",)}


def test_equal_addresses_of_one_host_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    executors = [live("0", "a", 2, "0", "1"), live("1", "a", 2, "0"), live("2", "b", 2, "0")]
    assert found(monkeypatch, executors) == {"0": ("0/0", "0/1"), "1": ("1/0",), "2": ("0",)}


@pytest.mark.parametrize(
    ("version", "method"),
    [("3.5.8", "cancelJobGroup"), ("4.0.0", "cancelJobGroupAndFutureJobs")],
)
def test_jobs_that_are_still_to_come_are_cancelled_where_spark_can(
    version: str, method: str
) -> None:
    called: list[tuple[str, str]] = []

    class Java:
        def __getattr__(self, name: str) -> Any:
            return lambda group: called.append((name, group))

    context: Any = SimpleNamespace(
        version=version,
        cancelJobGroup=lambda group: called.append(("cancelJobGroup", group)),
        _jsc=SimpleNamespace(sc=Java),
    )
    cancel(context, "mine")
    assert called == [(method, "mine")]


class Sequence:
    """Scala's."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def size(self) -> int:
        return len(self.items)

    def apply(self, at: int) -> Any:
        return self.items[at]


def task(executor: str, status: str, message: str | None = None) -> Any:
    said = SimpleNamespace(isDefined=lambda: message is not None, get=lambda: message)
    return SimpleNamespace(
        executorId=lambda: executor, status=lambda: status, errorMessage=lambda: said
    )


def test_tasks_of_earlier_attempts_and_what_failed_them_are_told() -> None:
    attempts = [
        [task("0", "RUNNING"), task("1", "FAILED", "ExecutorLostFailure (executor 1 exited)\nat")],
        [task("2", "RUNNING"), task("0", "KILLED", "another attempt succeeded")],
    ]
    store = SimpleNamespace(
        lastStageAttempt=lambda _: SimpleNamespace(attemptId=lambda: 1),
        taskList=lambda _, attempt, __: Sequence(attempts[attempt]),
    )
    status = ["RUNNING"]
    tracker = SimpleNamespace(
        getJobIdsForGroup=lambda _: [4],
        getJobInfo=lambda _: SimpleNamespace(stageIds=[7], status=status[0]),
    )
    context = SimpleNamespace(
        statusTracker=lambda: tracker,
        _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(statusStore=lambda: store)),
    )
    tasks = tasks_of(context, "mine")
    assert tasks is not None
    assert (tasks.attempt, tasks.executors, tasks.running) == (1, ("0", "2"), ("0", "2"))
    assert tasks.why == "ExecutorLostFailure (executor 1 exited)"
    assert not tasks.is_over
    status[0] = "FAILED"
    tasks = tasks_of(context, "mine")
    assert tasks is not None
    assert tasks.is_over


@pytest.mark.parametrize(
    ("told", "line"),
    [
        ("An error occurred while calling o1.collect.\n: java.lang.X: gone", "java.lang.X: gone"),
        ("Traceback (most recent call last):\n  File\nOSError: full\n", "OSError: full"),
        ("", "no reason was told"),
    ],
)
def test_the_line_that_says_most_is_the_cause(told: str, line: str) -> None:
    assert cause(told) == line
