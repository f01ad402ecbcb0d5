"""The gate under planners good and bad, each on real Spark (tests/matrix/gate_scenarios.py runs them)."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import QUICK_START

pytestmark = pytest.mark.spark

SCRIPT = Path(__file__).parents[1] / "matrix" / "gate_scenarios.py"
ROWS = [[key, 100] for key in range(8)]
TIMEOUT_S = 1500
"""For some thirty small applications in one JVM: a minute or two, more on a busy machine."""


@pytest.fixture(scope="module")
def seen(spark_jar: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each scenario did: ``rows``, ``wall_s``, ``report`` and the planner's ``trace``."""
    directory = tmp_path_factory.mktemp("gate")
    result = directory / "result.json"
    environment = {
        **os.environ,
        "PYSPARK_SUBMIT_ARGS": shlex.join(
            [
                *("--driver-class-path", str(spark_jar), "--driver-java-options", QUICK_START),
                *("--conf", f"spark.executor.extraJavaOptions={QUICK_START}", "pyspark-shell"),
            ]
        ),
        "DAGOPT_JAR": str(spark_jar),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(result), str(directory)],
        env=environment,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(result.read_text())
    found["log"] = done.stderr
    return found


def gate(scenario: dict[str, Any]) -> dict[str, Any]:
    assert "error" not in scenario, scenario["error"]
    counters: dict[str, Any] = scenario["report"]["gate"]
    return counters


def told(scenario: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """Messages of one kind that the planner got."""
    messages = (line["message"] for line in scenario["trace"] if line["way"] == "in")
    return [message for message in messages if message["type"] == kind]


def said(scenario: dict[str, Any], kind: str) -> list[tuple[float, dict[str, Any]]]:
    """(epoch ms, message) of one kind that the planner sent."""
    lines = ((line["at_ms"], line["message"]) for line in scenario["trace"] if line["way"] == "out")
    messages = ((at_ms, json.loads(text)) for at_ms, text in lines if text.startswith("{"))
    return [(at_ms, message) for at_ms, message in messages if message["type"] == kind]


@pytest.mark.parametrize(
    "name",
    [
        "off", "pass", "reverse", "group", "capped", "raise_local", "pin", "stuck", "silent", "mute",
        "deaf", "slow", "mode_off", "die", "die_held", "shout", "explain", "small", "fail_once", "fair", "speculation",
        "executor_loss", "few", "enough", "dynamic", "missing", "bad_conf", "bad_json", "bad_version", "bad_type", "bad_stage", "bad_task",
        "bad_executor", "bad_order",
    ],
)  # fmt: skip
def test_the_rows_are_those_of_plain_spark(seen: dict[str, Any], name: str) -> None:
    assert "error" not in seen[name], seen[name]["error"]
    assert seen[name]["rows"] == ROWS


@pytest.mark.parametrize(
    "name", ["pass", "reverse", "group", "capped", "pin", "fail_once", "fair", "speculation", "sql"]
)
def test_a_good_planner_is_followed_to_the_end(seen: dict[str, Any], name: str) -> None:
    counters = gate(seen[name])
    assert counters["task_sets_held"] >= 1
    assert counters["fallbacks"] == counters["pins_expired"] == counters["messages_dropped"] == 0
    assert counters["off_reason"] == ""
    assert len(told(seen[name], "task_set_ended")) == counters["task_sets_held"]


def test_only_the_stage_that_reads_is_told(seen: dict[str, Any]) -> None:
    (task_set,) = told(seen["pass"], "task_set")
    assert task_set["num_tasks"] == 8
    assert task_set["shuffle_types"] == ["wide"]
    assert task_set["partial"] is False
    assert task_set["hosts"] == [told(seen["pass"], "executor_added")[0]["host"]]
    assert task_set["inputs"]["offsets"] == list(range(9))
    # What a task was said to read is what it read: Spark keeps block sizes to 10 %.
    for end in told(seen["pass"], "task_ended"):
        expected = task_set["inputs"]["bytes"][end["task"]]
        assert end["read_bytes"] == pytest.approx(expected, rel=0.1)


def test_an_order_is_the_order_of_the_starts(seen: dict[str, Any]) -> None:
    starts = [start["task"] for start in told(seen["reverse"], "task_started")]
    assert starts == list(reversed(range(8)))


@pytest.mark.parametrize("name", ["group", "pin", "capped", "fair"])
def test_no_task_starts_before_its_delay(seen: dict[str, Any], name: str) -> None:
    cap_ms = 1000 if name == "capped" else float("inf")
    starts = {(s["stage"], s["task"]): s["time_ms"] for s in told(seen[name], "task_started")}
    for at_ms, launch in said(seen[name], "launch"):
        for task in launch["tasks"]:
            delay_ms = min(launch["delay_ms"], cap_ms)
            assert starts[launch["stage"], task] >= at_ms + delay_ms - 2


def test_a_delay_above_the_longest_is_cut(seen: dict[str, Any]) -> None:
    assert seen["capped"]["wall_s"] < 55  # the planner asked for 60 s


def test_concurrency_is_not_raised_where_spark_cannot(seen: dict[str, Any]) -> None:
    (hello,) = told(seen["raise_local"], "hello")
    assert hello["can_raise"] is False
    assert hello["why_not"]


def test_a_planner_that_launches_no_more_loses_the_rest(seen: dict[str, Any]) -> None:
    counters = gate(seen["stuck"])
    assert (counters["groups_launched"], counters["fallbacks"]) == (1, 1)
    assert counters["off_reason"] == ""


@pytest.mark.parametrize("name", ["silent", "deaf"])
def test_a_silent_planner_is_given_up_after_three_times(seen: dict[str, Any], name: str) -> None:
    counters = gate(seen[name])
    assert counters["fallbacks"] == counters["task_sets_held"] == 3
    assert "did not answer 3 times in a row" in counters["off_reason"]


def test_a_planner_that_is_not_ready_holds_nothing(seen: dict[str, Any]) -> None:
    assert gate(seen["mute"])["task_sets_held"] == 0


def test_a_late_plan_is_too_late_and_harmless(seen: dict[str, Any]) -> None:
    counters = gate(seen["slow"])
    assert (counters["task_sets_held"], counters["fallbacks"]) == (1, 1)
    assert counters["off_reason"] == ""


@pytest.mark.parametrize("name", ["die", "die_held"])
def test_a_dead_planner_ends_dagopt(seen: dict[str, Any], name: str) -> None:
    assert gate(seen[name])["off_reason"] == "the planner process ended (exit code 3)"


def test_what_a_planner_shouts_is_cut(seen: dict[str, Any]) -> None:
    counters = gate(seen["shout"])
    said = "x" * 300
    assert counters["off_reason"] == (
        f"the planner process ended (exit code 3, last line on stderr: {said})"
    )
    logged = [line for line in seen["log"].splitlines() if "dagopt planner: x" in line]
    assert [line.count("x" * 1024) for line in logged] == [8]
    assert not re.search("x{8193}", logged[0])


def test_mode_off_says_so(seen: dict[str, Any]) -> None:
    assert seen["mode_off"]["report"]["mode"] == "off"
    assert gate(seen["mode_off"])["off_reason"] == "spark.dagopt.mode is off"


def test_the_report_names_the_mode(seen: dict[str, Any]) -> None:
    assert seen["explain"]["report"]["mode"] == "explain"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing", 'Cannot run program "/nowhere/python3"'),
        ("bad_conf", "spark.dagopt.slotsPerCore is '17': allowed is a whole number from 1 to 16"),
        ("bad_json", "not JSON: so_long"),
        ("bad_version", "protocol version 3, expected 2: dagopt's jar and its"),
        ("bad_type", "message type 'shrug'"),
        ("bad_stage", "stage 999.0 was never told"),
        ("bad_task", "task 8 of stage 1.0, which has 8"),
        ("bad_executor", "executor '17'"),
        ("bad_order", "an order of 8 tasks, expected each of 8 once"),
    ],
)
def test_nonsense_ends_dagopt_with_one_line(seen: dict[str, Any], name: str, reason: str) -> None:
    off_reason = gate(seen[name])["off_reason"]
    assert reason in off_reason
    assert "\n" not in off_reason
    assert seen["log"].count(f"dagopt is off for this application: {off_reason}.") == 1


def test_explain_tells_and_touches_nothing(seen: dict[str, Any]) -> None:
    (task_set,) = told(seen["explain"], "task_set")
    assert task_set["hold"] is False
    assert gate(seen["explain"])["task_sets_held"] == 0
    starts = [start["task"] for start in told(seen["explain"], "task_started")]
    assert starts == list(range(8))  # although the planner asked for the reverse


def test_what_would_be_passed_anyway_is_told_and_not_held(seen: dict[str, Any]) -> None:
    held = {name: gate(seen[name])["task_sets_held"] for name in ("few", "enough")}
    assert held == {"few": 0, "enough": 1}
    (task_set,) = told(seen["few"], "task_set")
    assert task_set["hold"] is False
    assert len(told(seen["few"], "task_ended")) == 8


def test_tasks_pinned_to_a_lost_executor_run_elsewhere(seen: dict[str, Any]) -> None:
    counters = gate(seen["executor_loss"])
    assert counters["task_sets_held"] >= 1
    assert counters["off_reason"] == ""
    assert len(told(seen["executor_loss"], "executor_removed")) >= 1


def test_dynamic_allocation_keeps_sparks_concurrency(seen: dict[str, Any]) -> None:
    counters = gate(seen["dynamic"])
    assert (counters["task_sets_held"], counters["fallbacks"]) == (1, 0)
    (hello,) = told(seen["dynamic"], "hello")
    assert (hello["can_raise"], hello["why_not"]) == (False, "dynamic allocation is on")


@pytest.mark.parametrize("name", ["small", "barrier", "streaming"])
def test_what_is_never_held_is_never_told(seen: dict[str, Any], name: str) -> None:
    counters = gate(seen[name])
    assert counters["task_sets_seen"] >= 2
    assert counters["task_sets_held"] == 0
    assert told(seen[name], "task_set") == []


def test_a_job_cancelled_while_it_is_held_is_forgotten(seen: dict[str, Any]) -> None:
    counters = gate(seen["cancel"])
    assert seen["cancel"]["rows"] == [True, 10]
    assert (counters["task_sets_held"], counters["fallbacks"]) == (1, 0)
    (ended,) = told(seen["cancel"], "task_set_ended")
    assert ended["ok"] is False


def test_files_and_cached_blocks_are_inputs(seen: dict[str, Any]) -> None:
    kinds = [kind for message in told(seen["sql"], "task_set") for kind in message["shuffle_types"]]
    assert {"source", "narrow"} <= set(kinds)
    assert not any(message["partial"] for message in told(seen["sql"], "task_set"))
