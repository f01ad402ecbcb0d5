"""dagopt in a PySpark program or notebook: :func:`configure` a builder, :func:`report` on a session.

A notebook's JVM starts with its first session, and then its class path is fixed. So where a JVM is
already running without dagopt's jar, the jar is handed to the class loader that Spark uses there.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from dagopt.errors import BridgeError
from dagopt.spark.bridge import call, class_loader, jvm_class
from dagopt.spark.conf import PREFIX, check_driver_files, option_values
from dagopt.spark.home import SparkHome, pyspark_home
from dagopt.spark.launch import PLUGIN, find_jar, launch_conf, why_no_extension
from dagopt.spark.report import Report, off_report, parse_report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

BuilderT = TypeVar("BuilderT")

#: Where a builder keeps the user's own settings and dagopt's, so that configuring it twice is
#: configuring it once.
_REMEMBERED = "_dagopt_remembered"

_TIMELINE = PLUGIN.replace("DagoptPlugin", "Timeline")

_MOST_TASKS = 20_000
"""Tasks of a report's timeline."""

_SINGLETON = PLUGIN.replace("DagoptPlugin", "Dagopt")


def configure(builder: BuilderT, *, cores: int | None = None, **options: Any) -> BuilderT:
    """Switch dagopt on for the session that ``builder`` will build.

    What the builder, Spark's configuration or its defaults file set already stays as it is. Calling
    it again replaces the options of the call before. Where dagopt cannot work (an unsupported Spark,
    Spark Connect, a session that runs already) one warning says so and the builder is unchanged.

    Args:
        builder: ``SparkSession.builder``, with any settings.
        cores: physical cores of an executor; only needed before Spark 4.3 on YARN and standalone,
            see :mod:`dagopt.spark.concurrency`.
        **options: dagopt's keys without their prefix, such as ``slots_per_core=2`` or, through a
            dict, ``**{"planner.timeout": "1s"}``. None leaves a key alone.

    Returns:
        The same builder.

    Raises:
        InputError: an option is unknown, or as a ConfError its value is wrong.
    """
    option_values(options)
    held: dict[str, Any] = getattr(builder, "_options", {})
    refusal = _refusal(held)
    if refusal is not None:
        logger.warning("dagopt: %s", refusal)
        return builder

    before: tuple[dict[str, str], dict[str, str]] | None = getattr(builder, _REMEMBERED, None)
    users_own, ours = before or ({}, {})
    # What differs from what dagopt wrote last time was set by the user since.
    own = {key: str(held[key]) for key in held if ours.get(key) != held[key]}
    own = {**users_own, **own}
    jvm = _running_jvm()
    spark = pyspark_home(os.environ)
    base = {**_known_conf(jvm, spark), **own}
    version = spark.version() if jvm is None else str(jvm.org.apache.spark.package.SPARK_VERSION())
    launch = launch_conf(version, cores=cores, options=options, base=base)
    check_driver_files({**base, **launch.conf})
    if PLUGIN in launch.conf.get("spark.plugins", "") and jvm is not None:
        unloadable = _load_jar(jvm, version)
        if unloadable is not None:
            logger.warning("dagopt: %s", unloadable)
            return builder
    for key in ours:
        held.pop(key, None)
    held.update(own)
    held.update(launch.conf)
    for note in launch.notes:
        # Nothing set is worth a warning; what concurrency costs is for whoever asks.
        logger.log(logging.INFO if launch.conf else logging.WARNING, "dagopt: %s", note)
    setattr(builder, _REMEMBERED, (own, dict(launch.conf)))
    return builder


def report(spark: SparkSession) -> Report:
    """What dagopt decided in this session so far, and why; that it is off where it was switched off.

    A notebook shows it as a page with a timeline of the tasks; ``to_html()`` is that page, for a file.

    Raises:
        BridgeError: dagopt is not in this session; the message says why, if it is known.
    """
    context = getattr(spark, "_jsparkSession", None) and spark.sparkContext
    if not context:
        raise BridgeError(
            "dagopt is not active in this session: it is a Spark Connect client, and the report "
            "lies with the server"
        )
    jvm = context._jvm  # noqa: SLF001  py4j has no other door
    conf = context.getConf()
    if PLUGIN not in (conf.get("spark.plugins", "") or ""):
        if conf.get(f"{PREFIX}mode", "") == "off":  # then nothing loads the plugin
            return off_report("spark.dagopt.mode is off")
        raise BridgeError(
            "dagopt is not active in this session: spark.plugins does not name it; start the session "
            "with dagopt.configure(builder), dagopt submit, or the settings that dagopt conf prints"
        )
    try:
        text = jvm_class(jvm, _SINGLETON).getMethod("reportJson", None).invoke(None, None)
    except Exception as error:  # py4j's own errors share no useful base
        raise BridgeError(
            f"dagopt is not active in this session: its JVM side does not answer ({error})"
        ) from error
    found = parse_report(str(text))
    missing = why_no_extension(conf.get("spark.sql.extensions"))
    body = {**found.body, "no_extension": missing} if missing else found.body
    return dataclasses.replace(found, body=body, take_timeline=cache(lambda: _timeline(context)))


def _timeline(context: Any) -> Mapping[str, Any]:
    """When and where tasks ran; nothing once the session was stopped."""
    try:
        told = call(context, _TIMELINE, "json", context._jsc.sc(), _MOST_TASKS)  # noqa: SLF001
        found: dict[str, Any] = json.loads(str(told))
    except Exception as error:  # noqa: BLE001  py4j's errors share no base; the report goes without
        logger.debug("no timeline of the tasks: %s", error)
        return {}
    return found


def _refusal(held: Mapping[str, Any]) -> str | None:
    """Why this builder's session cannot have dagopt, or None."""
    if (
        "spark.remote" in held
        or "SPARK_REMOTE" in os.environ
        or "SPARK_CONNECT_MODE_ENABLED" in os.environ
    ):
        return "this is a Spark Connect client; dagopt's settings belong where the server starts"
    context = _active_context()
    if context is not None and PLUGIN not in (context.getConf().get("spark.plugins") or ""):
        return "a Spark session without dagopt is running; stop it, then build a new one"
    return None


def _active_context() -> Any | None:
    from pyspark import SparkContext  # noqa: PLC0415  importing dagopt must not need pyspark

    return SparkContext._active_spark_context  # noqa: SLF001  getOrCreate would start one


def _running_jvm() -> Any | None:
    """The JVM of this Python process, if one runs, as it does under spark-submit."""
    from pyspark import SparkContext  # noqa: PLC0415

    if "PYSPARK_GATEWAY_PORT" in os.environ:
        SparkContext._ensure_initialized()  # noqa: SLF001
    return SparkContext._jvm  # noqa: SLF001


def _known_conf(jvm: Any | None, spark: SparkHome) -> dict[str, str]:
    """What is set before this builder: by spark-submit, or by the defaults file."""
    if jvm is None:
        return spark.defaults(os.environ)
    from pyspark import SparkConf  # noqa: PLC0415

    return dict(SparkConf(_jvm=jvm).getAll())


def _load_jar(jvm: Any, version: str) -> str | None:
    """Make the plugin's class known to a JVM that runs already; else say why it cannot be."""
    try:
        jvm_class(jvm, PLUGIN)
    except Exception:  # noqa: BLE001  py4j wraps the ClassNotFoundException
        logger.debug("%s is not on the class path of the running JVM", PLUGIN)
    else:
        return None
    jar = find_jar(version)
    try:
        class_loader(jvm).addURL(jvm.java.io.File(str(jar)).toURI().toURL())
        jvm_class(jvm, PLUGIN)
    except Exception as error:  # noqa: BLE001  whatever it is, the session starts without dagopt
        return (
            f"the JVM that runs already cannot load {jar.name} ({error}); start the application with "
            "dagopt submit, or configure the builder before the first session"
        )
    return None
