"""A local cluster that offers GPUs which are not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.gpu_bench.modes import fake_gpus
from tests.conftest import ROOT, run_spark, spark_submit

needs_profiles_in_sql = pytest.mark.skipif(
    next((spark_submit().parents[1] / "jars").glob("spark-core_*-3.5*.jar"), None) is not None,
    reason="operators take no profile before Spark 4.0",
)


def gpu_conf(directory: Path, *, num_gpus: int = 1, cores: int = 2) -> dict[str, str]:
    """Settings for one executor with cores and GPUs."""
    return {
        "spark.master": f"local-cluster[1,{cores},640]",
        "spark.executor.cores": str(cores),
        **fake_gpus(directory, num_gpus),
    }


def run_scenarios(
    directory: Path, script: str, *names: str, conf: dict[str, str], cores: int = 3
) -> dict[str, Any]:
    """What a script of ``tests/matrix`` wrote of these scenarios, or of all of them.

    Args:
        directory: for its files.
        script: its name.
        names: of scenarios.
        conf: keys behind ``spark.dagopt.``, and values.
        cores: of the executor, which has one GPU.
    """
    result = directory / "result.json"
    options = {f"spark.dagopt.{key}": value for key, value in conf.items()}
    settings = {
        **gpu_conf(directory, cores=cores),
        "spark.dagopt.planner.timeout": "60s",
        **options,
    }
    path = ROOT / "tests" / "matrix" / script
    run_spark(directory, path, str(result), *names, conf=settings).ok()
    found: dict[str, Any] = json.loads(result.read_text())
    return found
