"""Runs functions as tasks of a Spark job, one a payload, for engines that work in phases.

Also the pieces of Spark that such an engine needs: pickles by value for what a notebook defines, the
number of slots, and partitions of a DataFrame as Arrow files.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from dagopt.errors import InputError
from dagopt.spark.concurrency import LOCAL_CLUSTER, allocates_by_demand, is_local_mode
from dagopt.spark.devices import RESOURCE
from dagopt.spark.executors import live_executors
from dagopt.spark.profiles import java_profile, spark_memory_bytes


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


_DESCRIPTION = "spark.job.description"
_INSTANCES = "spark.executor.instances"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """Tasks that can run at once, as executors are now."""

    total: int
    """At least 1; those of executors that are still to come too, where the configuration says how many."""
    on_a_host: int
    """Of the host that has most, at least 1."""
    heap_bytes: int
    """What the JVMs of that host may take."""


def gpus_held(profile: Any) -> float:
    """Accelerators that a task of a profile holds: a fraction, a whole number, or 0."""
    asked = {} if profile is None else profile.taskResources
    return float(asked[RESOURCE].amount) if RESOURCE in asked else 0.0


def slots_now(context: Any, profile: Any) -> Slots:
    """The slots of tasks, under a profile or without one."""
    conf = context.getConf()
    asked = {} if profile is None else profile.taskResources
    cpus = float(asked["cpus"].amount if "cpus" in asked else conf.get("spark.task.cpus", "1"))
    held = gpus_held(profile)
    own = profile is not None and bool(profile.executorResources)
    wanted = int(java_profile(context, profile).id()) if own else 0
    hosts: dict[str, list[int]] = {}
    for one in live_executors(context):
        if one.cores and one.profile_id == wanted:  # not a driver without tasks
            count = int(one.cores / cpus)
            if held:
                gpus = len(one.addresses)
                count = min(count, int(gpus // held) if held >= 1 else gpus * int(1 / held))
            hosts.setdefault(one.host, []).append(count)
    total = sum(map(sum, hosts.values()))
    most = max(hosts.values(), key=sum, default=[1])
    by_demand = allocates_by_demand(conf)
    number = conf.get("spark.dynamicAllocation.maxExecutors" if by_demand else _INSTANCES, "0")
    if number.isdecimal():  # the default of the former is infinity
        total = max(total, max(most) * int(number))
    return Slots(
        total=max(1, total),
        on_a_host=max(1, sum(most)),
        heap_bytes=len(most) * _heap_bytes(str(context.master), conf),
    )


def _heap_bytes(master: str, conf: Any) -> int:
    role = "driver" if is_local_mode(master) else "executor"
    return spark_memory_bytes(conf.get(f"spark.{role}.memory", "1g"))


def run_tasks(
    context: Any, function: Callable[[Any], Any], payloads: Sequence[Any], profile: Any, told: str
) -> list[Any]:
    """What the function gives for each payload, each computed by a task of its own.

    Args:
        context: the SparkContext.
        function: pickled by value; runs in the executors' Python.
        payloads: what it is called with; tasks are started in this order.
        profile: resource profile of the tasks; None for the default.
        told: description of the job in Spark's user interface; the user's own one is back afterwards.
    """
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, told)
    try:
        rdd = context.parallelize(payloads, max(1, len(payloads)))
        if profile is not None:
            java_profile(context, profile)
            rdd = rdd.withResources(profile)
        return list(rdd.map(function).collect())
    finally:
        with contextlib.suppress(Exception):  # a context that is gone is not what went wrong
            context.setLocalProperty(_DESCRIPTION, before)


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
    """Names this attempt of a task, unlike any other of its application; ``driver`` outside of tasks."""
    from pyspark import TaskContext  # noqa: PLC0415

    context = TaskContext.get()
    return "driver" if context is None else str(context.taskAttemptId())


@dataclass(frozen=True, slots=True)
class PastFrame:
    """What is known of a DataFrame whose application has ended."""

    dtypes: tuple[tuple[str, str], ...]
    """Names and types of its columns."""


def is_frame(data: Any) -> bool:
    """Whether it is a DataFrame of Spark, or was one."""
    if isinstance(data, PastFrame):
        return True
    return type(data).__module__.startswith("pyspark.") and hasattr(data, "mapInArrow")


def frame_columns(frame: Any) -> str:
    """Names and types of a DataFrame's columns."""
    return ", ".join(f"{name} {kind}" for name, kind in frame.dtypes)


def each_partition(
    frame: Any, write: Callable[[int, Iterable[Any]], tuple[str, int]]
) -> list[tuple[str, int]]:
    """Hand each partition's Arrow batches to a function, in tasks.

    Args:
        frame: the DataFrame.
        write: gets the partition's number and its record batches; gives a name and the number of rows.

    Returns:
        Name and rows of each partition, in order, as the attempt of the task gave them that counts.
    """

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa  # noqa: PLC0415  runs in a task
        from pyspark import TaskContext  # noqa: PLC0415

        context = TaskContext.get()
        assert context is not None  # runs in a task  # noqa: S101
        number = context.partitionId()
        name, rows = write(number, batches)
        yield pa.RecordBatch.from_arrays(
            [pa.array([number], pa.int32()), pa.array([name]), pa.array([rows], pa.int64())],
            ["partition", "name", "num_rows"],
        )

    found = frame.mapInArrow(run, "partition int, name string, num_rows long").collect()
    ordered = sorted(found, key=lambda row: int(row["partition"]))
    return [(str(row["name"]), int(row["num_rows"])) for row in ordered]
