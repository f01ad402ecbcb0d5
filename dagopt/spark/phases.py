"""Runs functions as tasks of a Spark job, one a payload, for engines that work in phases.

Also the pieces of Spark that such an engine needs: pickles by value for what a notebook defines, the
number of slots, and partitions of a DataFrame as Arrow files.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

from dagopt.errors import InputError
from dagopt.spark.concurrency import LOCAL_CLUSTER, is_local_mode
from dagopt.spark.devices import RESOURCE


def context_of(spark: Any) -> Any:
    """The SparkContext of a session.

    Raises:
        InputError: it is no session, or one of Spark Connect, which runs no RDD jobs.
    """
    try:
        context = spark.sparkContext
    except Exception as error:
        raise InputError(
            f"spark is a {type(spark).__name__}, expected a SparkSession with a SparkContext"
            " (a Spark Connect client has none)"
        ) from error
    return context


def is_on_this_host(context: Any) -> bool:
    """Whether all tasks see the driver's files: local modes."""
    master = str(context.master)
    return is_local_mode(master) or LOCAL_CLUSTER.fullmatch(master) is not None


def num_slots(context: Any, profile: Any) -> int:
    """Tasks that run at once: CPU slots, or with a profile its accelerators."""
    if profile is None:
        return max(1, int(context.defaultParallelism))
    held = profile.taskResources[RESOURCE].amount if RESOURCE in profile.taskResources else 1
    summaries = context._jsc.sc().statusStore().executorList(True)  # noqa: SLF001  no other door
    found = 0
    for index in range(summaries.size()):
        resource = summaries.apply(index).resources().get(RESOURCE)
        found += len(resource.get().addresses()) if resource.isDefined() else 0
    return max(1, int(found / held))


def run_tasks(
    context: Any, function: Callable[[Any], Any], payloads: Sequence[Any], profile: Any, told: str
) -> list[Any]:
    """What the function gives for each payload, each computed by a task of its own.

    Args:
        context: the SparkContext.
        function: pickled by value; runs in the executors' Python.
        payloads: what it is called with; tasks are started in this order.
        profile: resource profile of the tasks; None for the default.
        told: description of the job in Spark's user interface.
    """
    context.setLocalProperty("spark.job.description", told)
    try:
        rdd = context.parallelize(payloads, max(1, len(payloads)))
        if profile is not None:
            rdd = rdd.withResources(profile)
        return list(rdd.map(function).collect())
    finally:
        context.setLocalProperty("spark.job.description", None)


def dumps(value: Any) -> bytes:
    """A pickle that holds classes and functions of scripts and notebooks by value."""
    from pyspark import cloudpickle  # noqa: PLC0415  importing dagopt must not need pyspark

    return bytes(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]


def load_by_value(name: str, source: str, file: str) -> ModuleType:
    """Run a file's text as a module of that name, whose classes are then pickled by value."""
    from pyspark import cloudpickle  # noqa: PLC0415

    module = ModuleType(name)
    module.__file__ = file
    sys.modules[name] = module
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    exec(compile(source, file, "exec"), module.__dict__)  # noqa: S102  what the caller wants
    return module


def python_daemon() -> None:
    """Be the daemon that forks Spark's Python workers; they have what was imported before."""
    from pyspark import daemon  # noqa: PLC0415

    daemon.manager()


def task_attempt() -> str:
    """Names this attempt of a task, unlike any other of the application; ``driver`` outside of tasks."""
    from pyspark import TaskContext  # noqa: PLC0415

    context = TaskContext.get()
    return "driver" if context is None else str(context.taskAttemptId())


def is_frame(data: Any) -> bool:
    """Whether it is a DataFrame of Spark."""
    return type(data).__module__.startswith("pyspark.") and hasattr(data, "mapInArrow")


def each_partition(frame: Any, write: Callable[[int, Iterable[Any]], int]) -> list[tuple[int, int]]:
    """Hand each partition's Arrow batches to a function, in tasks.

    Args:
        frame: the DataFrame.
        write: gets the partition's number and its record batches; gives the number of rows.

    Returns:
        Number and rows of each partition, in order.
    """

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa  # noqa: PLC0415  runs in a task
        from pyspark import TaskContext  # noqa: PLC0415

        context = TaskContext.get()
        assert context is not None  # runs in a task  # noqa: S101
        number = context.partitionId()
        rows = write(number, batches)
        yield pa.RecordBatch.from_arrays(
            [pa.array([number], pa.int32()), pa.array([rows], pa.int64())],
            ["partition", "num_rows"],
        )

    found = frame.mapInArrow(run, "partition int, num_rows long").collect()
    return sorted((int(row["partition"]), int(row["num_rows"])) for row in found)
