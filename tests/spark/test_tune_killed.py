"""Sweeps whose driver is killed at any moment, twice, and goes on: as if nothing had been."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, ScriptResult, run_spark

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def drive(directory: Path, name: str, *when: str) -> ScriptResult:
    (directory / name).mkdir(exist_ok=True)
    return run_spark(
        directory,
        ROOT / "tests" / "spark" / "tune_killed.py",
        str(directory / name),
        *when,
        conf={"spark.master": "local[2]"},
        dagopt=False,
    )


def told(result: ScriptResult) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in result.ok().stdout.splitlines():
        if line.startswith("{"):
            found.update(json.loads(line))
    return found


def test_a_driver_that_is_killed_twice_gives_what_one_gives_that_is_not(tmp_path: Path) -> None:
    whole = told(drive(tmp_path, "whole"))
    chance = random.Random(8)
    for _ in range(2):
        when = str(chance.randrange(3, 9)), str(round(chance.uniform(0, 0.2), 3))
        assert drive(tmp_path, "killed", *when).exit_code == -signal.SIGKILL, when
    after = told(drive(tmp_path, "killed"))
    assert set(after) == {"halving", "median"}
    for pruner, one in after.items():
        assert {"pruned", "complete"} <= set(one["statuses"]), pruner
        assert one["optuna"] == one["statuses"], pruner
        assert one == whole[pruner], pruner
