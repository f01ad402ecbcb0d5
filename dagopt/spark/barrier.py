"""Barrier stages on chosen executors, for jobs whose tasks talk to each other.

A task is bound to its executor by a preferred location. Spark looks at these first, and in one round for
all tasks of a barrier stage, so where the executors have free accelerators, that is where the tasks run.
The caller must know that they are free, and look at :func:`tasks_of` for what happened all the same.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dagopt.model.topology import ExecutorResources
from dagopt.spark.concurrency import LOCAL_CLUSTER
from dagopt.spark.executors import DRIVER, live_executors

_RAISED = re.compile(r"[A-Za-z_][\w.]*(Error|Exception): ")
"""A line by which a Python traceback ends, or Java's begins."""

BarrierFunction = Callable[[Any, list[str]], Any]
"""Called with a payload, and the hosts of all tasks in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTasks:
    """Where a stage of a group runs now."""

    attempt: int
    """From 0; above that, a task was lost and Spark began the stage again."""
    executors: tuple[str, ...]
    """Of the tasks that were launched, ascending."""
    running: tuple[str, ...]
    """Executors of the tasks that run still, those of earlier attempts too."""
    is_over: bool
    """Whether the group's jobs have ended."""
    why: str
    """What failed a task first; empty where none failed."""


def executors_of(context: Any, profile: Any) -> list[ExecutorResources]:
    """The executors that are there now and have accelerators, as many as they run tasks of a profile.

    In ``local-cluster`` each counts as a host of its own, since all run on one.
    """
    is_local = LOCAL_CLUSTER.fullmatch(str(context.master)) is not None
    cpus = float(profile.taskResources["cpus"].amount)
    found = [
        ExecutorResources(
            executor=each.executor,
            host=f"{each.host}/{each.executor}" if is_local else each.host,
            addresses=each.addresses[: int(each.cores / cpus)],
        )
        for each in live_executors(context)
        if each.executor != DRIVER and each.addresses and each.host
    ]
    return _told_apart([each for each in found if each.addresses])


def num_expected(context: Any) -> int:
    """Executors that the application asked for; 1 where that changes while it runs."""
    local = LOCAL_CLUSTER.fullmatch(str(context.master))
    if local is not None:
        return int(local[1])
    return max(1, int(context.getConf().get("spark.executor.instances", "1")))


def run_barrier(
    context: Any,
    function: BarrierFunction,
    payloads: Sequence[tuple[str, Any]],
    profile: Any,
    *,
    group: str,
    told: str,
) -> list[Any]:
    """What the function gives for each payload, in their order.

    Runs in the calling thread, whose Spark jobs belong to ``group`` from then on.

    Args:
        context: the SparkContext.
        function: pickled by value; runs in the executors' Python.
        payloads: executor and argument of each task.
        profile: resource profile of the tasks.
        group: job group, by which the stage can be cancelled.
        told: description of the job in Spark's user interface.
    """
    context.setJobGroup(group, told, interruptOnCancel=True)

    def run(items: Iterator[Any]) -> Iterator[Any]:
        from pyspark import BarrierTaskContext  # noqa: PLC0415  runs in a task

        task = BarrierTaskContext.get()
        # An IPv6 address is in brackets there.
        hosts = [info.address.rpartition(":")[0].strip("[]") for info in task.getTaskInfos()]
        for payload in items:
            yield function(payload, hosts)

    rdd = _placed(context, payloads).withResources(profile)
    return list(rdd.barrier().mapPartitions(run).collect())


def cancel(context: Any, group: str) -> None:
    """Stop what the group runs, and what it is about to: a job may wait for its slots still.

    Before Spark 4 such a job begins as soon as it has them, unless Spark gives up before.
    """
    if int(str(context.version).partition(".")[0]) >= 4:
        context._jsc.sc().cancelJobGroupAndFutureJobs(group)  # noqa: SLF001  no other door
    else:
        context.cancelJobGroup(group)


def has_ended(context: Any) -> bool | None:
    """Whether the application was stopped, so that all that it is asked fails; None if it does not answer."""
    try:
        java = context._jsc  # noqa: SLF001  no other door
        return java is None or bool(java.sc().isStopped())
    except Exception:  # noqa: BLE001  py4j's own
        return None


def start_thread(function: Callable[[], None], name: str) -> threading.Thread:
    """Run a function in a daemon thread whose Spark properties, such as its job group, are its own."""
    from pyspark import InheritableThread  # noqa: PLC0415  importing dagopt must not need pyspark

    thread: threading.Thread = InheritableThread(target=function)
    thread.name, thread.daemon = name, True
    thread.start()
    return thread


def tasks_of(context: Any, group: str) -> StageTasks | None:
    """The newest stage of a group; None before there is one."""
    tracker = context.statusTracker()
    infos = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(group)]
    jobs = [info for info in infos if info is not None]
    stages = [stage for info in jobs for stage in info.stageIds]
    if not stages:
        return None
    store, newest = context._jsc.sc().statusStore(), max(stages)  # noqa: SLF001  no other door
    try:
        attempt = int(store.lastStageAttempt(newest).attemptId())
        attempts = [_tasks(store, newest, number) for number in range(attempt + 1)]
    except Exception as error:
        if "NoSuchElement" in str(error):  # not written down yet
            return None
        raise
    tasks = [task for each in attempts for task in each]
    failures = [str(task.errorMessage().get()) for task in tasks if _has_failed(task)]
    return StageTasks(
        attempt=attempt,
        executors=tuple(sorted(str(task.executorId()) for task in attempts[-1])),
        running=tuple(str(task.executorId()) for task in tasks if task.status() == "RUNNING"),
        is_over=all(info.status != "RUNNING" for info in jobs),
        why=cause(failures[0]) if failures else "",
    )


def cause(told: str) -> str:
    """The line of Spark's error that says most: what Python raised in the task, or the first one."""
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    found = [line for line in lines if _RAISED.match(line) and not line.endswith("call last):")]
    found = [line for line in found if not line.startswith(("org.", "java."))] or found
    # py4j's own first line only says which method was called.
    rest = lines[1:] if lines and lines[0].startswith("An error occurred while calling") else lines
    return (found or rest or lines or ["no reason was told"])[0].lstrip(": ")


# Private functions


def _tasks(store: Any, stage: int, attempt: int) -> list[Any]:
    tasks = store.taskList(stage, attempt, 1 << 20)
    return [tasks.apply(at) for at in range(tasks.size())]


def _has_failed(task: Any) -> bool:
    return task.status() == "FAILED" and bool(task.errorMessage().isDefined())


def _told_apart(executors: Sequence[ExecutorResources]) -> list[ExecutorResources]:
    """Addresses that several executors of a host were given, each with its executor's name."""
    seen = Counter((each.host, address) for each in executors for address in each.addresses)
    shared = {host for (host, _), number in seen.items() if number > 1}
    return [
        replace(each, addresses=tuple(f"{each.executor}/{one}" for one in each.addresses))
        if each.host in shared
        else each
        for each in executors
    ]


def _placed(context: Any, payloads: Sequence[tuple[str, Any]]) -> Any:
    """An RDD with a partition for each payload, at its executor."""
    from pyspark import RDD  # noqa: PLC0415  importing dagopt must not need pyspark
    from pyspark.serializers import CPickleSerializer  # noqa: PLC0415

    jvm, scala_context = context._jvm, context._jsc.sc()  # noqa: SLF001  no other door
    serializer = CPickleSerializer()
    hosts = {each.executor: each.host for each in live_executors(context)}
    rows = jvm.java.util.ArrayList()
    for executor, payload in payloads:
        places = jvm.java.util.ArrayList()
        places.add(f"executor_{hosts.get(executor, 'gone')}_{executor}")
        content = serializer.dumps(payload)  # type: ignore[no-untyped-call]
        rows.add(jvm.scala.Tuple2(content, jvm.PythonUtils.toSeq(places)))
    tags = getattr(getattr(jvm.scala.reflect, "ClassTag$"), "MODULE$")
    placed = scala_context.makeRDD(jvm.PythonUtils.toSeq(rows), tags.AnyRef())
    return RDD(placed.toJavaRDD(), context, serializer)
