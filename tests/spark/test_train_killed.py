"""Training jobs whose driver is killed at any moment, twice, and that others go on with."""

from __future__ import annotations

import importlib.util
import json
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from jobs.gpu_bench.modes import fake_gpus
from tests.conftest import ROOT, ScriptResult, run_spark

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch"),
]


def drive(directory: Path, name: str, *when: str) -> ScriptResult:
    (directory / name).mkdir(exist_ok=True)
    conf = {
        "spark.master": "local-cluster[2,2,640]",
        "spark.executor.cores": "2",
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        "spark.python.daemon.module": "dagopt.train.daemon",
        **fake_gpus(directory, 2),
    }
    script = ROOT / "tests" / "spark" / "train_killed.py"
    return run_spark(directory, script, str(directory / name), *when, conf=conf, dagopt=False)


def told(result: ScriptResult) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.ok().stdout.splitlines()[-1])
    return found


def test_jobs_of_a_driver_that_is_killed_twice_end_as_those_of_one_that_is_not(
    tmp_path: Path,
) -> None:
    whole = told(drive(tmp_path, "whole"))
    chance = random.Random(8)
    for _ in range(2):
        when = str(chance.randrange(3, 7)), str(round(chance.uniform(0, 0.3), 3))
        assert drive(tmp_path, "killed", *when).exit_code == -signal.SIGKILL, when
    after = told(drive(tmp_path, "killed"))
    assert whole["resumed"] == []
    assert {"long", "search"} <= set(after["resumed"])
    for found in (whole, after):
        for name, iterations in (("long", 400), ("short", 150)):
            if name in found:  # else it was done before a driver was killed
                assert found[name]["status"] == ["done", iterations, ""]
                assert found[name]["losses"] <= 1e-4
                assert found[name]["is there"]
        assert found["left"] == found["folders"] == []
    for name in ("long", "search"):
        assert sum("resumed from iteration" in line for line in after[name]["log"]) == 2
    for what in ("losses", "statuses", "best"):
        assert after["search"][what] == whole["search"][what]
