"""A local cluster that offers GPUs which are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.gpu_bench.modes import fake_gpus
from tests.conftest import spark_submit

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
