"""Profiles and devices on a cluster that offers GPUs which are not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import RunSparkScript
from tests.spark.gpu_cluster import gpu_conf

pytestmark = pytest.mark.spark


def test_a_task_with_a_profile_has_its_device(
    run_spark_script: RunSparkScript, tmp_path: Path
) -> None:
    script = """
    import json, os
    from pyspark.sql import SparkSession
    import dagopt
    from dagopt.errors import InfeasibleError

    spark = SparkSession.builder.getOrCreate()
    sc = spark.sparkContext
    profile = dagopt.gpu_profile()
    again = dagopt.gpu_profile(gpus=1, cpus=1)

    def look(rows):
        import numpy
        import dagopt
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        plain = dagopt.device()
        os.environ["CUDA_VISIBLE_DEVICES"] = "7,0"
        yield [plain, dagopt.device(), dagopt.array_module() is numpy, len(list(rows))]

    seen = sc.parallelize(range(4), 2).withResources(profile).mapPartitions(look).collect()
    without = sc.parallelize(range(4), 2).mapPartitions(look).collect()
    errors = []
    for arguments in ({"cpus": 8}, {"gpus": 2}, {"memory": "8g"}):  # the executor is there by now
        try:
            dagopt.gpu_profile(**arguments)
        except InfeasibleError as error:
            errors.append(str(error))
    print("result", json.dumps([profile.id == again.id, seen, without, errors]))
    """
    ended = run_spark_script(script, conf=gpu_conf(tmp_path), dagopt=False).ok()
    (line,) = [line for line in ended.stdout.splitlines() if line.startswith("result ")]
    same, seen, without, errors = json.loads(line.removeprefix("result "))
    assert same
    assert seen == [[0, 1, True, 2]] * 2
    assert without == [[None, None, True, 2]] * 2
    has = "they have 1 GPUs, 2 cores, 512.0 MiB"
    assert len(errors) == 3
    assert all(has in error for error in errors)
    assert "asks for 1 GPUs, 8 cores," in errors[0]
