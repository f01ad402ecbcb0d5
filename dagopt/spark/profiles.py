"""Resource profiles for GPU operators, checked when they are made.

:func:`gpu_profile` gives what Spark's own ``profile=`` arguments take. Spark itself takes two equal
profiles for different ones and keeps both for ever, and it waits without a word for an executor that
can never come; so equal requests get the same profile here, and such a request fails at once.

The profile is a task-only one: it asks nothing of the cluster manager, and works with dynamic
allocation off. Not possible: ``local[n]``, which has no resource profiles at all.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dagopt.errors import InfeasibleError, InputError
from dagopt.spark.concurrency import LOCAL_CLUSTER, is_local_mode, takes_whole_cpus
from dagopt.spark.conf import PREFIX, value_of
from dagopt.spark.devices import RESOURCE
from dagopt.spark.executors import DRIVER, live_executors
from dagopt.spark.launch import PLUGIN
from dagopt.units import format_bytes, parse_bytes

if TYPE_CHECKING:
    from pyspark.resource import ResourceProfile

logger = logging.getLogger(__name__)

#: Where a SparkContext keeps the profiles that were made for it.
_INTERNED = "_dagopt_profiles"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRequest:
    """What one task asks for."""

    gpus: float
    """GPUs; one GPU is shared by tasks that ask for 0.5 or less."""

    cpus: float
    """Cores."""

    memory_bytes: int | None
    """Memory that its executor must have at least; None for any."""

    def __post_init__(self) -> None:
        # Spark's own rule: a task gets whole addresses, or shares one.
        if not (0 < self.gpus <= 0.5 or (self.gpus >= 1 and self.gpus == int(self.gpus))):
            raise InputError(f"gpus is {self.gpus:g}, must be 0.5 or less, or a whole number")
        if not self.cpus > 0:
            raise InputError(f"cpus is {self.cpus:g}, must be > 0")

    def __str__(self) -> str:
        parts = [f"{self.gpus:g} GPUs", f"{self.cpus:g} cores"]
        if self.memory_bytes is not None:
            parts.append(f"an executor of {format_bytes(self.memory_bytes)}")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorSize:
    """What an executor has; None for what is not known."""

    gpus: float | None
    cores: float | None
    memory_bytes: int | None

    def fits(self, request: GpuRequest) -> bool:
        """Whether it can ever run a task with that request."""
        return (
            (self.gpus is None or self.gpus >= request.gpus)
            and (self.cores is None or self.cores >= request.cpus)
            and (
                self.memory_bytes is None
                or request.memory_bytes is None
                or self.memory_bytes >= request.memory_bytes
            )
        )

    def __str__(self) -> str:
        parts = [
            "? GPUs" if self.gpus is None else f"{self.gpus:g} GPUs",
            "? cores" if self.cores is None else f"{self.cores:g} cores",
        ]
        if self.memory_bytes is not None:
            parts.append(format_bytes(self.memory_bytes))
        return ", ".join(parts)


def gpu_profile(
    gpus: float = 1, cpus: float = 1, memory: str | None = None
) -> ResourceProfile | None:
    """The resource profile of a GPU operator, for ``mapInPandas(..., profile=...)`` and the like.

    Equal requests in one application give the same profile. With Spark Connect the profile is made,
    and nothing is checked: the client does not see executors.

    Args:
        gpus: GPUs that a task holds: 0.5 or less, or a whole number. Executors offer them by
            ``spark.executor.resource.gpu.amount``.
        cpus: cores that it holds; before Spark 4.3 a whole number.
        memory: what its executor must have at least, such as ``4g``; default: any.

    Returns:
        The profile; None with ``local[n]``, where the operator then runs as it would without one.

    Raises:
        InputError: an argument is wrong, or no Spark session is running.
        InfeasibleError: no executor of this application can ever run such a task; the message says
            what was asked and what there is.
    """
    memory_bytes = None if memory is None else parse_bytes(memory)
    request = GpuRequest(gpus=gpus, cpus=cpus, memory_bytes=memory_bytes)
    if is_connect():
        return _build(request, cpus)
    context = _context()
    master = str(context.master)
    if is_local_mode(master):
        warn_local(master)
        return None
    conf = dict(context.getConf().getAll())
    factor = slots_of_a_core(conf, str(context.version))
    asked_cpus = cpus * factor
    if takes_whole_cpus(str(context.version)) and asked_cpus != int(asked_cpus):
        raise InputError(f"cpus is {cpus:g}, must be a whole number before Spark 4.3")
    executors = _live_executors(context, conf, factor) or [configured_size(conf, master, factor)]
    check(request, executors)
    interned: dict[tuple[float, float], ResourceProfile]
    interned = context.__dict__.setdefault(_INTERNED, {})
    key = (float(gpus), float(asked_cpus))
    if key not in interned:
        interned[key] = _build(request, asked_cpus)
    return interned[key]


def warn_local(master: str) -> None:
    """Say that profiles do nothing there, in one line."""
    logger.warning(
        "dagopt: %s has no stage-level scheduling, so the plan runs unchanged; local-cluster[1,4,2048]"
        " is a cluster manager that has it",
        master,
    )


def check_profile(where: str, profile: object) -> None:
    """Check that it is a profile, or None.

    Raises:
        InputError: it is neither; ``where`` is the function that it was handed to.
    """
    from pyspark.resource import ResourceProfile  # noqa: PLC0415

    if profile is not None and not isinstance(profile, ResourceProfile):
        raise InputError(
            f"{where}: profile is a {type(profile).__name__}, expected a ResourceProfile, such as"
            " dagopt.gpu_profile() gives, or None"
        )


def java_profile(context: Any, profile: ResourceProfile) -> Any:
    """The JVM's profile, the same one each time.

    A profile that was built before the session has none; Spark would make a new one, with a number
    of its own, at each use.
    """
    if profile._java_resource_profile is None:  # noqa: SLF001  no other door
        from pyspark.resource import (  # noqa: PLC0415
            ExecutorResourceRequests,
            TaskResourceRequests,
        )

        jvm = context._jvm  # noqa: SLF001
        builder = jvm.org.apache.spark.resource.ResourceProfileBuilder()
        executor = ExecutorResourceRequests(jvm, profile.executorResources)
        task = TaskResourceRequests(jvm, profile.taskResources)
        builder.require(executor._java_executor_resource_requests)  # noqa: SLF001
        builder.require(task._java_task_resource_requests)  # noqa: SLF001
        profile._java_resource_profile = builder.build()  # noqa: SLF001
    return profile._java_resource_profile  # noqa: SLF001


def check(request: GpuRequest, executors: Sequence[ExecutorSize]) -> None:
    """Check that some executor can run a task.

    Raises:
        InfeasibleError: none can ever.
    """
    if any(size.fits(request) for size in executors):
        return
    there = "; ".join(sorted({str(size) for size in executors}))
    raise InfeasibleError(
        f"gpu_profile: a task asks for {request}, and no executor can ever run it: they have {there}"
        f" (spark.executor.resource.{RESOURCE}.amount, spark.executor.cores, spark.executor.memory)"
    )


def configured_size(conf: Mapping[str, str], master: str, factor: int = 1) -> ExecutorSize:
    """What executors will have, by the configuration.

    Args:
        conf: of the application.
        master: Spark's master URL.
        factor: CPU slots that executors offer for each core.
    """
    cores = conf.get("spark.executor.cores")
    local = LOCAL_CLUSTER.fullmatch(master)
    if cores is None and local is not None:
        cores = local[2]
    if cores is None and (master == "yarn" or master.startswith("k8s://")):
        cores = "1"
    return ExecutorSize(
        gpus=float(conf.get(f"spark.executor.resource.{RESOURCE}.amount", "0")),
        cores=None if cores is None else int(cores) / factor,
        memory_bytes=_memory_bytes(conf),
    )


def slots_of_a_core(conf: Mapping[str, str], spark_version: str) -> int:
    """CPU slots that executors offer for each core; above 1 where dagopt raised them before 4.3."""
    k = int(value_of(conf, PREFIX + "slotsPerCore") or 1)
    task_cpus = conf.get("spark.task.cpus", "1")
    raised = (
        PLUGIN in conf.get("spark.plugins", "")
        and takes_whole_cpus(spark_version)
        and task_cpus.isdecimal()
        and int(task_cpus) % k == 0
    )
    return k if raised else 1


def _memory_bytes(conf: Mapping[str, str]) -> int | None:
    return spark_memory_bytes(conf.get("spark.executor.memory", "1g"))


def spark_memory_bytes(text: str) -> int:
    """Bytes of a memory setting such as ``spark.executor.memory``, where a bare number is MiB."""
    return parse_bytes(f"{text}m" if text.isdecimal() else text)


def is_connect() -> bool:
    """Whether this Python is a client of a Spark Connect server."""
    from pyspark.sql.utils import is_remote  # noqa: PLC0415  importing dagopt must not need pyspark

    return bool(is_remote())


def _context() -> Any:
    from pyspark import SparkContext  # noqa: PLC0415

    context = SparkContext._active_spark_context  # noqa: SLF001  getOrCreate would start one
    if context is None:
        raise InputError("gpu_profile: expected a running Spark session, got none")
    return context


def _live_executors(context: Any, conf: Mapping[str, str], factor: int) -> list[ExecutorSize]:
    """What the executors that run now have; the driver is none of them."""
    return [
        ExecutorSize(
            gpus=float(len(each.addresses)),
            cores=each.cores / factor,
            memory_bytes=_memory_bytes(conf),
        )
        for each in live_executors(context)
        if each.executor != DRIVER
    ]


def _build(request: GpuRequest, cpus: float) -> ResourceProfile:
    from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests  # noqa: PLC0415

    whole = int(cpus) if cpus == int(cpus) else cpus
    requests = TaskResourceRequests().cpus(whole).resource(RESOURCE, request.gpus)
    return ResourceProfileBuilder().require(requests).build
