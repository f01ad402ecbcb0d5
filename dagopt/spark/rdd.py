"""GPU stages of RDDs: :func:`gpu_stage`."""

from __future__ import annotations

import inspect
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dagopt.errors import InputError
from dagopt.spark.bridge import call
from dagopt.spark.concurrency import is_local_mode
from dagopt.spark.launch import PLUGIN
from dagopt.spark.profiles import check_profile, java_profile, warn_local

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.resource import ResourceProfile

logger = logging.getLogger(__name__)

T = TypeVar("T")

_STAGES = "org.apache.spark.sql.dagopt.GpuStageRDD"
_CALLERS = 4
_LETTERS = str.maketrans("0123456789", "abcdefghij")


def gpu_stage(rdd: RDD[T], profile: ResourceProfile | None) -> RDD[T]:
    """The rows of ``rdd``, such that what is mapped next runs under a resource profile, on GPUs.

    With ``rdd.withResources(profile)`` all that was mapped since the last shuffle runs under the
    profile too, so that decoding holds a GPU. Here a shuffle that moves nothing stands between the
    two where that is predicted to be faster: every row stays in its partition and in its place, and
    no row is unpickled for it. It is decided when an action first needs the result, and holds for
    this RDD from then on. Of a stage not seen before the costs are not known: it runs with the
    shuffle, which measures them. Rows are not cut into slices here, as they are in SQL.

    The profile is in force up to the next shuffle (``repartition``, ``reduceByKey``, ``partitionBy``):
    all that is mapped in between runs under it, and what comes before the shuffle, such as combining
    by key, does too. A union with other RDDs runs under it as a whole; two profiles in one stage are
    an error of Spark's, unless ``spark.scheduler.resource.profileMergeConflicts`` is set. An action on
    a few partitions, such as ``take``, runs what is in front of the shuffle for all of them.

    Where dagopt puts no shuffles (``mode`` is ``off`` or ``explain``, ``boundary`` is ``never``, its
    planner is gone, the session has no dagopt) this is ``rdd.withResources(profile)``.

    Args:
        rdd: the CPU part's result, such as ``files.mapPartitions(decode)``.
        profile: what :func:`dagopt.gpu_profile` gives, or another one of yours. None, as with
            ``local[n]``, gives back ``rdd`` itself.

    Raises:
        InputError: an argument is of a wrong type.
    """
    from pyspark import RDD  # noqa: PLC0415  importing dagopt must not need pyspark

    if not isinstance(rdd, RDD):
        raise InputError(f"gpu_stage: rdd is a {type(rdd).__name__}, expected an RDD")
    check_profile("gpu_stage", profile)
    if profile is None:
        return rdd
    context: Any = rdd.ctx
    if is_local_mode(str(context.master)):
        warn_local(str(context.master))
        return rdd
    java = java_profile(context, profile)
    staged = _staged(context, rdd, java)
    if staged is None:
        return rdd.withResources(profile)
    made: RDD[T] = RDD(staged.withResources(java), context, rdd._jrdd_deserializer)  # noqa: SLF001
    made.has_resource_profile = True
    made.partitioner = rdd.partitioner
    return made


def _staged(context: Any, rdd: Any, profile: Any) -> Any | None:
    """The JVM's RDD behind a boundary; None where there is to be none."""
    if PLUGIN not in (context.getConf().get("spark.plugins") or ""):
        return None
    front = rdd._jrdd.rdd()  # noqa: SLF001  py4j has no other door
    try:
        return call(context, _STAGES, "of", front, profile, _call_site())
    except Exception as error:  # noqa: BLE001  py4j's errors; the job runs as Spark would run it
        logger.warning("dagopt: gpu_stage is rdd.withResources here: %s", error)
        return None


def _call_site() -> str:
    """Where the program asked for the stage, in letters: digits do not count in signatures.

    With its callers, so that stages that one helper function makes are told apart.
    """
    frame = inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("dagopt."):
        frame = frame.f_back
    places: list[str] = []
    while frame is not None and len(places) < _CALLERS:
        code = frame.f_code
        places.append(f"{Path(code.co_filename).name} {code.co_name} {frame.f_lineno}")
        frame = frame.f_back
    return ", ".join(places).translate(_LETTERS)
