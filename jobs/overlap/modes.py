"""Spark properties of the modes that the benchmark compares.

A stock mode offers a fixed number of slots for each core, in every stage. The mode ``dagopt``
asks the cluster for what ``stock-1x`` asks, and leaves concurrency and launching to the plugin.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobs.emulated_cluster import EmulatedCluster

STOCK_SLOTS = {"stock-1x": 1, "stock-2x": 2, "stock-4x": 4}
"""Slots for each core of a host, which has one."""

DAGOPT = "dagopt"
MODES = (*STOCK_SLOTS, DAGOPT)

QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Many JVMs start at a time on few cores: that they start quickly matters, not the best code."""

REPOSITORY = Path(__file__).resolve().parents[2]


class ModeError(Exception):
    """A mode cannot run here; the message says why."""


def spark_properties(
    mode: str,
    cluster: EmulatedCluster,
    *,
    num_executors: int,
    shuffle_service: bool,
    event_log_dir: Path,
) -> dict[str, str]:
    """All properties of one application in this mode.

    Raises:
        ModeError: the mode is ``dagopt`` and its jar has not been built.
    """
    slots = STOCK_SLOTS.get(mode, 1)
    properties = {
        "spark.master": cluster.master_url,
        "spark.driver.host": cluster.driver_address,
        "spark.driver.bindAddress": cluster.driver_address,
        "spark.driver.memory": "1g",
        "spark.executor.memory": "1g",
        "spark.driver.extraJavaOptions": QUICK_START,
        "spark.executor.extraJavaOptions": QUICK_START,
        "spark.executor.cores": str(slots),
        "spark.cores.max": str(slots * num_executors),
        "spark.dynamicAllocation.enabled": "false",
        "spark.shuffle.service.enabled": str(shuffle_service).lower(),
        # Rows carry nothing: compressed, there would be nothing to fetch.
        "spark.shuffle.compress": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.executorEnv.OMP_NUM_THREADS": "1",
        "spark.executorEnv.PYTHONPATH": str(REPOSITORY),
        "spark.python.daemon.module": "jobs.overlap.daemon",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": event_log_dir.resolve().as_uri(),
    }
    return properties | (dagopt_properties() if mode == DAGOPT else {})


def dagopt_properties() -> dict[str, str]:
    """What switches dagopt on for an application."""
    import pyspark

    from dagopt.spark.jar import jar_path

    try:
        jar = Path(jar_path(pyspark.__version__))
    except Exception as error:
        raise ModeError(f"no dagopt jar for Spark {pyspark.__version__}: {error}") from error
    if not jar.exists():
        raise ModeError(f"{jar} is missing: run 'make jar'")
    return {
        "spark.jars": str(jar),
        "spark.driver.extraClassPath": str(jar),
        "spark.plugins": "org.apache.spark.scheduler.dagopt.DagoptPlugin",
        "spark.dagopt.planner.pythonpath": str(REPOSITORY),
        "spark.dagopt.slotsPerCore": "4",
    }


def in_turn(modes: Sequence[str], repetition: int) -> tuple[str, ...]:
    """The modes as one repetition runs them.

    Every mode is first once, so that a drift of the machine hits none alone.
    """
    first = repetition % len(modes)
    return (*modes[first:], *modes[:first])
