"""How the tests start a job: the way a user does, as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import QUICK_START

JOBS = Path(__file__).resolve().parents[2] / "jobs"

#: Many times what the longest takes on two quiet cores: only a hang lasts longer.
LIMIT_S = 600.0

JobRunner = Callable[..., subprocess.CompletedProcess[str]]


def environment() -> dict[str, str]:
    """The environment of a job: this Python, its pyspark, and nothing of the caller's Spark."""
    import pyspark

    own = {key: value for key, value in os.environ.items() if not key.startswith("SPARK_")}
    own["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    own["PYSPARK_PYTHON"] = own["PYSPARK_DRIVER_PYTHON"] = sys.executable
    own["SPARK_LAUNCHER_OPTS"] = QUICK_START
    own["SPARK_LOCAL_IP"] = "127.0.0.1"
    return own


@pytest.fixture
def run_python() -> JobRunner:
    """Runs ``python jobs/NAME.py ARGUMENTS``."""

    def run(job: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(JOBS / f"{job}.py"), *map(str, arguments)]
        return _run(command)

    return run


@pytest.fixture
def submit() -> JobRunner:
    """Runs ``spark-submit jobs/NAME.py ARGUMENTS`` on two local cores."""

    def run(job: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = [f"{environment()['SPARK_HOME']}/bin/spark-submit", "--master", "local[2]"]
        for conf in (
            "spark.ui.enabled=false",
            "spark.sql.shuffle.partitions=4",
            "spark.log.level=ERROR",
            f"spark.driver.extraJavaOptions={QUICK_START}",
        ):
            command += ["--conf", conf]
        return _run([*command, str(JOBS / f"{job}.py"), *map(str, arguments)])

    return run


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, check=False, capture_output=True, text=True, env=environment(), timeout=LIMIT_S
    )
