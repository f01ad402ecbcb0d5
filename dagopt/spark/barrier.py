"""Barrier stages on chosen executors, for jobs whose tasks talk to each other.

A task is bound to its executor by a preferred location. Spark looks at these first, and in one round for
all tasks of a barrier stage, so where the executors have free accelerators, that is where the tasks run.
The caller must know that they are free, and look at :func:`tasks_of` for what happened all the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dagopt.model.topology import ExecutorResources
from dagopt.spark.concurrency import LOCAL_CLUSTER
from dagopt.spark.executors import DRIVER, live_executors

BarrierFunction = Callable[[Any, str], Any]
"""Called with a payload, and the host of the first task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTasks:
    """Where a stage of a group runs now."""

    attempt: int
    """From 0; above that, a task was lost and Spark began the stage again."""
    executors: tuple[str, ...]
    """Of the tasks that were launched, ascending."""


def executors_of(context: Any) -> list[ExecutorResources]:
    """The executors that are there now and have accelerators.

    In ``local-cluster`` each counts as a host of its own, since all run on one.
    """
    is_local = LOCAL_CLUSTER.fullmatch(str(context.master)) is not None
    return [
        ExecutorResources(
            executor=each.executor,
            host=f"{each.host}/{each.executor}" if is_local else each.host,
            addresses=each.addresses,
        )
        for each in live_executors(context)
        if each.executor != DRIVER and each.addresses and each.host
    ]


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
        host = task.getTaskInfos()[0].address.rpartition(":")[0]
        for payload in items:
            yield function(payload, host)

    rdd = _placed(context, payloads).withResources(profile)
    return list(rdd.barrier().mapPartitions(run).collect())


def cancel(context: Any, group: str) -> None:
    """Stop what the group runs."""
    context.cancelJobGroup(group)


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
    stages = [stage for info in infos if info is not None for stage in info.stageIds]
    if not stages:
        return None
    store = context._jsc.sc().statusStore()  # noqa: SLF001  no other door
    try:
        attempt = int(store.lastStageAttempt(max(stages)).attemptId())
        tasks = store.taskList(max(stages), attempt, 1 << 20)
    except Exception as error:
        if "NoSuchElement" in str(error):  # not written down yet
            return None
        raise
    executors = sorted(str(tasks.apply(at).executorId()) for at in range(tasks.size()))
    return StageTasks(attempt=attempt, executors=tuple(executors))


# Private functions


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
