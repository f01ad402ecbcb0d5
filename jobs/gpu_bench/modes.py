"""The modes that the benchmark compares, and Spark's properties of each.

``fused`` is Spark alone; ``hand`` the same with ``repartition`` written in front of the GPU step; ``dagopt``
the program of ``fused`` with dagopt; ``ray`` Ray Data. The first run of a case in the mode ``dagopt`` is
reported as ``dagopt-first``: it knows nothing of the case, the others what the runs before took.
"""

from __future__ import annotations

import json
from pathlib import Path

from jobs.overlap.modes import REPOSITORY, ModeError

FUSED = "fused"
HAND = "hand"
DAGOPT = "dagopt"
FIRST = "dagopt-first"
RAY = "ray"
MODES = (FUSED, HAND, DAGOPT, RAY)
STOCK = (FUSED, HAND)
FORMS = {FUSED: "fused", HAND: "repartition", RAY: "streaming"}
"""What runs in the modes in which nothing is chosen."""

EXECUTOR_MB = 2048
DECISIONS = "decisions.jsonl"
QUICK_START = "-XX:TieredStopAtLevel=1"
"""Many JVMs start at a time on few cores: that they start quickly matters, not the best code."""


def fake_gpus(directory: Path, num_gpus: int = 1) -> dict[str, str]:
    """Spark properties by which each worker and executor has GPUs that are not there.

    A discovery script in ``directory`` tells Spark of them.
    """
    script = directory / "discover_fake_gpus.sh"
    found = json.dumps({"name": "gpu", "addresses": [str(index) for index in range(num_gpus)]})
    script.write_text(f"#!/bin/sh\necho '{found}'\n", encoding="utf-8")
    script.chmod(0o755)
    properties = {}
    for who in ("worker", "executor"):
        properties[f"spark.{who}.resource.gpu.amount"] = str(num_gpus)
        properties[f"spark.{who}.resource.gpu.discoveryScript"] = str(script)
    return properties


def spark_properties(
    mode: str, *, num_cores: int, batch_rows: int | None, work_dir: Path
) -> dict[str, str]:
    """All properties of one application: one executor with cores and a fake GPU.

    Raises:
        ModeError: the mode is ``dagopt``, which does not work with the installed Spark.
    """
    # Applications that start in the same second have the same id.
    event_log_dir = work_dir / f"events-{mode}"
    event_log_dir.mkdir()
    properties = {
        "spark.master": f"local-cluster[1,{num_cores},{EXECUTOR_MB}]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.executor.memory": f"{EXECUTOR_MB}m",
        "spark.executor.cores": str(num_cores),
        "spark.driver.extraJavaOptions": QUICK_START,
        "spark.executor.extraJavaOptions": QUICK_START,
        "spark.executorEnv.PYTHONPATH": str(REPOSITORY),
        "spark.python.daemon.module": "jobs.overlap.daemon",
        # A file of images is a partition.
        "spark.sql.files.openCostInBytes": "128m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(work_dir / f"scratch-{mode}"),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": event_log_dir.as_uri(),
        **fake_gpus(work_dir),
    }
    if batch_rows is not None:
        properties["spark.sql.execution.arrow.maxRecordsPerBatch"] = str(batch_rows)
    if mode == DAGOPT:
        properties["spark.dagopt.decisionLog"] = str(work_dir / DECISIONS)
        properties |= dagopt_properties(properties)
    return properties


def dagopt_properties(base: dict[str, str]) -> dict[str, str]:
    """What switches dagopt on, as ``dagopt submit`` does it, with its defaults.

    Raises:
        ModeError: it does not work with the installed Spark.
    """
    import pyspark

    from dagopt.errors import DagoptError
    from dagopt.spark.launch import launch_conf

    try:
        launch = launch_conf(pyspark.__version__, master=base["spark.master"], base=base)
    except DagoptError as error:
        raise ModeError(str(error)) from error
    if not launch.conf:
        raise ModeError("; ".join(launch.notes))
    return dict(launch.conf)
