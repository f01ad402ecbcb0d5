"""Training jobs on a real Spark with fake accelerators: resized, raising, hanging, killed, cancelled."""

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


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each scenario of one application did: two executors with two accelerators each."""
    directory = tmp_path_factory.mktemp("train")
    conf = {
        "spark.master": "local-cluster[2,2,640]",
        "spark.executor.cores": "2",
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        "spark.python.daemon.module": "dagopt.train.daemon",
        **fake_gpus(directory, 2),
    }
    script = ROOT / "tests" / "spark" / "train_scenarios.py"
    result = run_spark(directory, script, str(directory), conf=conf, dagopt=False).ok()
    found: dict[str, Any] = {}
    for line in result.stdout.splitlines():
        if line.startswith("{"):
            found.update(json.loads(line))
    return found


def test_resized_jobs_have_the_losses_of_runs_that_nothing_interrupted(
    scenarios: dict[str, Any],
) -> None:
    found = scenarios["shared"]
    for name, iterations in (("long", 300), ("short", 60)):
        assert (found[name]["status"], found[name]["iteration"]) == ("done", iterations)
        assert found[name]["losses"] <= 1e-4
        assert found[name]["restarts"] == 0
    assert len(found["sizes"]["long"]) > 1
    assert found["moves"]
    assert all(lost_s > 0 for lost_s in found["moves"])
    assert found["state"] == ["v", "w"]


@pytest.mark.parametrize("scenario", ["shared", "hangs", "killed"])
def test_no_accelerator_is_in_two_phases_at_once(scenarios: dict[str, Any], scenario: str) -> None:
    found = scenarios[scenario]
    assert found["overlaps"] == 0
    lost = sum(
        one["restarts"] for one in found.values() if isinstance(one, dict) and "restarts" in one
    )
    assert found["lost"] == lost
    assert (lost > 0) == (scenario != "shared")


def test_a_job_that_raises_fails_alone_with_its_own_traceback(scenarios: dict[str, Any]) -> None:
    found = scenarios["shared"]
    assert "ValueError: no further" in found["raising"]
    assert "in update" in found["raising"]
    assert found["printed"]


def test_a_job_that_hangs_is_stopped_and_goes_on_from_its_boundary_or_fails(
    scenarios: dict[str, Any],
) -> None:
    found = scenarios["hangs"]
    assert found["once"]["status"] == "done"
    assert found["once"]["restarts"] >= 1
    assert found["once"]["losses"] <= 1e-4
    assert found["always"]["status"] == "failed"
    assert "no boundary within its deadline, 2 times in a row" in found["always"]["error"]


def test_a_sweep_shares_accelerators_with_a_training_and_finds_what_it_finds_alone(
    scenarios: dict[str, Any],
) -> None:
    found = scenarios["swept"]
    assert found["sweep"] == ["done", 8 * 600, 8 * 600, ""]
    assert found["losses"] <= 1e-5
    assert found["best"]
    assert found["falls"]
    assert found["overlaps"] == 0
    assert found["beside"]["status"] == "done"
    # It has several when it is alone, and no fewer than beside the training.
    assert found["after"] >= max(2, found["during"])
    assert "phase 2, iteration 0, on" in "\n".join(found["logs"])
    assert found["cancelled"] == ["cancelled", True]


def test_a_straggler_is_seen_and_left(scenarios: dict[str, Any]) -> None:
    found = scenarios["straggles"]
    assert (found["slow"]["status"], found["slow"]["iteration"]) == ("done", 400)
    assert found["slow"]["losses"] <= 1e-4
    assert found["sizes"]["slow"] == [1, 2, 3]
    # Three accelerators measured, one of them slow; in the end the job is where it was fast.
    assert len(found["measured"]) == 3
    assert all(0 < number <= 16 for number in found["measured"].values())
    assert len(found["stragglers"]) == 1
    assert found["first"]


def test_a_killed_executor_costs_a_phase_and_no_iteration(scenarios: dict[str, Any]) -> None:
    found = scenarios["killed"]
    assert found["flag"]
    assert found["killed"]["restarts"] >= 1
    for name, iterations in (("killed", 120), ("other", 60)):
        assert (found[name]["status"], found[name]["iteration"]) == ("done", iterations)
        assert found[name]["losses"] <= 1e-4


def test_jobs_are_handed_in_listed_and_cancelled_from_the_command_line(
    scenarios: dict[str, Any],
) -> None:
    found = scenarios["commands"]
    assert found["submit"] == [0, "submitted tiny\n", ""]
    assert found["again"] == [2, "", "dagopt: job tiny is there already\n"]
    # Of a file's jobs none is there if one is refused; its end is not the application's.
    assert found["half"] == found["again"]
    assert found["exits"][0] == 2
    assert 'job.py", line 2, in <module>: SystemExit: 1' in found["exits"][2]
    assert [code for code, _, _ in (found["nobody"], found["unknown"])] == [2, 2]
    assert "is not there" in found["nobody"][2]
    assert "there is no job nothing; there are endless, tiny" in found["unknown"][2]
    assert "hello 3" in found["logs"][1].splitlines()
    rows = {row["name"]: row for row in found["list"]}
    assert (rows["tiny"]["status"], rows["tiny"]["iteration"]) == ("done", 4)
    assert rows["endless"]["status"] in ("running", "waiting")
    assert found["cancel"][:2] == [0, "cancelled endless\n"]
    assert found["over"][:2] == [0, "tiny was over already\n"]
    assert found["ended"]
    assert found["status"] == "cancelled"
    assert found["next"]["next"]["status"] == "done"
    assert max(found["next"]["sizes"]["next"]) > 1


@pytest.mark.parametrize(
    ("case", "told"),
    [
        ("large", "InfeasibleError: job large asks for 9 accelerators, the cluster has 4"),
        ("pickle", "InputError: job locked cannot be pickled"),
        ("open", "InputError: spool '"),
        ("second", "InputError: spool '"),
    ],
)
def test_bad_input_is_one_clear_error(scenarios: dict[str, Any], case: str, told: str) -> None:
    assert scenarios["commands"][case].startswith(told)


def test_jobs_of_a_stopped_scheduler_or_application_end(
    scenarios: dict[str, Any],
) -> None:
    found = scenarios["left"]
    assert (found["status"], found["error"]) == ("cancelled", "the scheduler was stopped")
    assert found["waited"]
    assert found["files"] == 0
    # What is begun when the application ends fails.
    assert scenarios["ended"]["status"] in ("cancelled", "failed")
    assert scenarios["ended"]["waited"]


def test_without_torch_nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    from dagopt.errors import InputError
    from dagopt.train import Scheduler

    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"needs torch, scipy: pip install 'dagopt\[train\]'"):
        Scheduler(None)
