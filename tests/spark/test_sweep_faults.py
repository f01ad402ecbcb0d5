"""Sweeps under a scheduler on a real Spark: from the command line, and with faults of all kinds."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import pytest

from jobs.gpu_bench.modes import fake_gpus
from tests.conftest import ROOT, run_spark

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch"),
]

LOST = ("lost", "leaves", "hangs")
"""Scenarios in which a phase of the sweep is lost once."""


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each scenario of one application did: two executors with two accelerators each."""
    directory = tmp_path_factory.mktemp("sweeps")
    conf = {
        "spark.master": "local-cluster[2,2,640]",
        "spark.executor.cores": "2",
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        "spark.python.daemon.module": "dagopt.train.daemon",
        **fake_gpus(directory, 2),
    }
    script = ROOT / "tests" / "spark" / "sweep_faults.py"
    result = run_spark(directory, script, str(directory), conf=conf, dagopt=False).ok()
    found: dict[str, Any] = {}
    for line in result.stdout.splitlines():
        if line.startswith("{"):
            found.update(json.loads(line))
    return found


@pytest.mark.parametrize("scenario", LOST)
def test_a_sweep_that_loses_a_phase_finds_what_it_finds_alone(
    scenarios: dict[str, Any], scenario: str
) -> None:
    found = scenarios[scenario]["sweep"]
    assert (found["status"], found["iteration"], found["error"]) == ("done", 6 * 200, "")
    assert found["restarts"] >= 1
    assert found["losses"] <= 1e-5
    assert found["as alone"]


def test_a_trial_that_raises_fails_alone(scenarios: dict[str, Any]) -> None:
    found = scenarios["raises"]["sweep"]
    assert (found["status"], found["error"], found["restarts"]) == ("done", "", 0)
    assert set(found["statuses"]) == {"complete", "failed"}
    assert found["losses"] <= 1e-5
    assert found["as alone"]


def test_a_sweep_whose_phases_are_lost_again_and_again_fails(scenarios: dict[str, Any]) -> None:
    found = scenarios["always_leaves"]["sweep"]
    assert (found["status"], found["restarts"]) == ("failed", 2)
    assert found["error"].endswith(", 2 times in a row")


@pytest.mark.parametrize("scenario", [*LOST, "raises", "always_leaves"])
def test_faults_of_a_sweep_leave_others_and_accelerators_alone(
    scenarios: dict[str, Any], scenario: str
) -> None:
    found = scenarios[scenario]
    assert found["ended"]
    assert found["overlaps"] == 0
    assert (found["beside"]["status"], found["beside"]["iteration"]) == ("done", 150)
    assert found["beside"]["losses"] <= 1e-4
    if scenario != "lost":  # an executor takes whatever runs on it along
        assert found["beside"]["restarts"] == 0
    # Nothing has leaked: the next job gets all that there is.
    assert found["last"]["last"]["status"] == "done"
    assert max(found["last"]["sizes"]["last"]) == 4
    assert found["last"]["overlaps"] == 0


def test_sweeps_are_handed_in_and_listed_from_the_command_line(scenarios: dict[str, Any]) -> None:
    found = scenarios["commands"]
    assert found["sweep"][:2] == [0, "submitted one\n"]
    assert found["both"][:2] == [0, "submitted two\nsubmitted tiny\n"]
    assert found["ended"]
    rows = {row["name"]: row for row in found["list"]}
    for name, iterations in (("one", 60), ("two", 60), ("tiny", 4)):
        assert (rows[name]["status"], rows[name]["iteration"]) == ("done", iterations)
    assert found["table"][0] == 0
    assert {"one", "two", "tiny"} <= set(found["table"][1].split())
    assert found["logs"][0] == 0
    assert "dagopt: done at iteration 60" in found["logs"][1].splitlines()


@pytest.mark.parametrize(
    ("case", "told"),
    [
        ("space", "job bad-space: space is missing"),
        ("memory", "job bad-memory: memory: expected a size"),
        ("trainable", "job bad-trainable: trainable: NoneType has no method init"),
        ("pickle", "job bad-pickle: trainable cannot be pickled"),
        ("data pickle", "job bad-data-pickle: data cannot be pickled"),
        ("many", "job bad-many asks for 9 accelerators, the cluster has 4"),
        ("batch", "job bad-batch: batch_size is 0, must be"),
        ("callback", "job bad-callback: callback is a int, expected a function"),
    ],
)
def test_a_file_with_a_bad_sweep_is_one_clear_error_and_none_is_submitted(
    scenarios: dict[str, Any], case: str, told: str
) -> None:
    code, out, error = scenarios["commands"][f"bad {case}"]
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert told in error
    assert scenarios["commands"]["names"] == ["one", "two", "tiny"]


def test_a_sweep_that_is_cancelled_in_a_phase_leaves_nothing(scenarios: dict[str, Any]) -> None:
    found = scenarios["commands"]
    assert (found["running"], found["cancel"][0], found["cancelled"]) == ("running", 0, "cancelled")
    assert found["freed"]
    assert max(found["after"]["sizes"]["after"]) == 4
    assert found["after"]["overlaps"] == 0
    assert found["cancelled files"] == []
    kept = {name.split("/")[1] for name in found["left files"]}
    assert kept == {"one", "two", "tiny", "after"}


def test_an_application_that_ends_first_is_the_reason_in_one_sentence(
    scenarios: dict[str, Any],
) -> None:
    found = scenarios["ended"]
    assert found["why"] == "the scheduler has stopped: the application has ended"
    assert found["late"] == "RuntimeError: the scheduler has stopped"
    assert set(found["jobs"]) == {"sweep", "training", "waits"}
    for name, (status, error) in found["jobs"].items():
        assert (status, error) == ("failed", "the application has ended")
        assert not any("back to iteration" in line for line in found["logs"][name])
