"""More slots than cores before Spark 4.3, and what that costs on each cluster manager.

From 4.3 on a task may need a fraction of a core, so an executor that offers its cores is all it
takes. Before, cpus are whole numbers. So an executor offers ``k`` slots a core
(``spark.executor.cores`` = k x cores) and a task takes ``k`` of them (``spark.task.cpus`` = k):
as many tasks run as there are cores, until dagopt lowers what the tasks of one stage take.

The cluster manager sees the larger number, and each deals with it in its own way:

* Kubernetes: ``spark.kubernetes.executor.request.cores`` keeps the request at the cores. Free.
* local-cluster: the master URL gets the larger number. Free.
* YARN: an executor asks for k times the vcores. They count only with the
  DominantResourceCalculator, but the queue's maximum allocation must allow them in any case.
* standalone: workers must offer them, so they are started with ``SPARK_WORKER_CORES`` = k x cores.

On the last two an application whose executors ask too much never starts. So there it is done only
when the number of cores is given on purpose.

Not possible, so never set: ``local[n]``, which has no resource profiles, and dynamic allocation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dagopt.spark.jar import minor_of, numbers_of

LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*([0-9]+)\s*,\s*([0-9]+)\s*,\s*([0-9]+)\s*\]")
"""A master URL with its workers, cores a worker, and MiB a worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisedSlots:
    """What to set so that executors offer more slots than cores, and what that means."""

    conf: Mapping[str, str]
    """Settings; empty where concurrency stays that of Spark alone."""

    note: str
    """One sentence: what it costs here, or why it is not done."""


def is_local_mode(master: str) -> bool:
    """Whether a master URL is ``local[n]``, which has no resource profiles."""
    return master.startswith("local") and not master.startswith("local-cluster")


def allocates_by_demand(conf: Any) -> bool:
    """Whether Spark changes the number of executors while it runs; ``conf`` is a mapping or a SparkConf."""
    return str(conf.get("spark.dynamicAllocation.enabled", "false")).lower() == "true"


def takes_whole_cpus(spark_version: str) -> bool:
    """Whether tasks of that Spark take whole cores only, as before 4.3."""
    return numbers_of(minor_of(spark_version)) < (4, 3)


def raise_slots(
    base: Mapping[str, str], *, master: str, slots_per_core: int, cores: int | None
) -> RaisedSlots:
    """The settings for one application on a Spark before 4.3.

    Args:
        base: what the user set.
        master: Spark's master URL, empty where it is not known.
        slots_per_core: k, at least 2.
        cores: physical cores of an executor, if they were given.
    """
    if is_local_mode(master):
        return _not_raised(f"{master} has no resource profiles")
    if allocates_by_demand(base):
        return _not_raised("dynamic allocation asks for executors by their slots")
    if any(key.startswith("spark.task.resource.") for key in base):
        return _not_raised("tasks have custom resources (spark.task.resource.*)")
    task_cpus = base.get("spark.task.cpus", "1")
    if not task_cpus.isdecimal() or int(task_cpus) < 1:
        return _not_raised(f"spark.task.cpus is {task_cpus}")

    own_cores = base.get("spark.executor.cores")
    if cores is None and own_cores is not None and own_cores.isdecimal():
        given = int(own_cores)
    else:
        given = cores or 0
    k = slots_per_core
    conf = {"spark.task.cpus": str(k * int(task_cpus))}
    # Spark would set it to spark.task.cpus, which no longer is the number of cores of a task.
    conf.setdefault("spark.executorEnv.OMP_NUM_THREADS", task_cpus)
    local = LOCAL_CLUSTER.fullmatch(master)
    if local is not None:
        num_workers, worker_cores, memory = (int(group) for group in local.groups())
        conf["spark.master"] = f"local-cluster[{num_workers},{k * worker_cores},{memory}]"
        if given:
            conf["spark.executor.cores"] = str(k * given)
        total = num_workers * worker_cores
        note = f"executors of local-cluster offer {k} slots a core"
    elif master.startswith("k8s://"):
        given = given or 1
        conf["spark.executor.cores"] = str(k * given)
        conf["spark.kubernetes.executor.request.cores"] = str(given)
        total = given * _count(base.get("spark.executor.instances"), 2)
        note = f"executors offer {k} slots a core and still request {given} cores of Kubernetes"
    elif cores is None:
        return _not_raised(
            "say how many physical cores an executor has (--cores N, or cores=N in Python), once "
            f"YARN's maximum allocation, or SPARK_WORKER_CORES of standalone workers, allows {k}xN"
        )
    else:
        conf["spark.executor.cores"] = str(k * cores)
        total = cores * _count(base.get("spark.executor.instances"), 2) if master == "yarn" else 0
        note = (
            f"executors ask YARN for {k * cores} vcores instead of {cores}"
            if master == "yarn"
            else f"executors need {k * cores} cores of a standalone worker (SPARK_WORKER_CORES)"
            if master
            else f"executors ask for {k * cores} cores, {k} slots for each of {cores} physical cores"
        )
    cores_max = _count(base.get("spark.cores.max"), 0)
    if cores_max and not master.startswith("k8s://") and master != "yarn":
        total = min(total, cores_max) if total else cores_max
        conf["spark.cores.max"] = str(k * cores_max)
    conf.update(_same_partitions(base, total))
    return RaisedSlots(conf={key: conf[key] for key in conf if _may_set(key, base)}, note=note)


def _same_partitions(base: Mapping[str, str], total_cores: int) -> dict[str, str]:
    """Keeps Spark SQL's partition counts those of the cores: their default counts slots.

    Nothing where the application's number of cores is not known before it starts.
    """
    if total_cores < 1 or "spark.default.parallelism" in base:
        return {}
    total = str(max(total_cores, 2))
    return {
        "spark.sql.leafNodeDefaultParallelism": total,
        "spark.sql.adaptive.coalescePartitions.minPartitionNum": total,
    }


#: These are set although the user has a value: it is multiplied.
_MULTIPLIED = {"spark.task.cpus", "spark.executor.cores", "spark.master", "spark.cores.max"}


def _may_set(key: str, base: Mapping[str, str]) -> bool:
    return key in _MULTIPLIED or key not in base


def _not_raised(reason: str) -> RaisedSlots:
    return RaisedSlots(conf={}, note=f"concurrency stays that of Spark alone: {reason}")


def _count(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isdecimal() else default
