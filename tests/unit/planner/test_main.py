"""``python -m dagopt.planner`` as the driver plugin starts it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dagopt.model.wire import FromJvm, Hello, Ping
from tests.unit.controller import events as ev

ROOT = Path(__file__).resolve().parents[3]
FOUR = [{"sa": 1 << 28, "sb": 1 << 28}] * 4


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How the planner ended."""

    exit_code: int
    answers: list[dict[str, Any]]
    complaints: list[str]


def hello(**conf: str) -> Hello:
    return Hello(
        app_id="app-1",
        spark="4.3.0",
        conf={f"spark.dagopt.{key}": value for key, value in conf.items()},
    )


def planner(*messages: FromJvm | bytes) -> Ended:
    lines = [
        message if isinstance(message, bytes) else msgspec.json.encode(message)
        for message in messages
    ]
    done = subprocess.run(
        [sys.executable, "-m", "dagopt.planner"],
        input=b"".join(line + b"\n" for line in lines),
        capture_output=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    return Ended(
        exit_code=done.returncode,
        answers=[json.loads(line) for line in done.stdout.splitlines()],
        complaints=done.stderr.decode().splitlines(),
    )


def test_a_conversation_ends_well_when_the_driver_closes_its_end(tmp_path: Path) -> None:
    log = tmp_path / "decisions.jsonl"
    ended = planner(
        hello(decisionLog=str(log)),
        ev.added("1", cores=1),
        ev.submitted(FOUR),
        Ping(seq=1),
    )
    assert (ended.exit_code, ended.complaints) == (0, [])
    types = [line["type"] for line in ended.answers]
    assert types == ["ready", "hold_from", "plan", "launch", "counts", "pong"]
    assert ended.answers[2]["action"] == "group"
    decisions = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert [decision["action"] for decision in decisions] == ["group"]
    assert decisions[0]["reason"] == ended.answers[2]["reason"]


def test_nothing_said_ends_well() -> None:
    assert planner() == Ended(exit_code=0, answers=[], complaints=[])


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"rubbish", "ERROR not a message of the JVM: JSON is malformed"),
        (b'{"type":"ping","v":3,"seq":1}', "ERROR protocol version 3, expected 2: "),
    ],
)
def test_another_protocol_ends_the_process_with_one_line(line: bytes, complaint: str) -> None:
    ended = planner(hello(), line, Ping(seq=1))
    assert ended.exit_code == 4
    assert [answer["type"] for answer in ended.answers] == ["ready"]
    assert len(ended.complaints) == 1
    assert ended.complaints[0].startswith(complaint)


def test_a_wrong_configuration_ends_the_process_with_one_line() -> None:
    ended = planner(hello(slotsPerCore="0"))
    assert (ended.exit_code, ended.answers) == (2, [])
    assert len(ended.complaints) == 1
    assert "spark.dagopt.slotsPerCore" in ended.complaints[0]


def test_a_profile_and_a_log_that_cannot_be_opened_cost_a_warning_each(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "no" / "file")
    ended = planner(hello(profile=nowhere, decisionLog=nowhere), Ping(seq=1))
    assert ended.exit_code == 0
    assert [answer["type"] for answer in ended.answers] == ["ready", "pong"]
    assert len(ended.complaints) == 2
    assert ended.complaints[0].startswith("WARNING starting without the profile: ")
    assert ended.complaints[1].startswith("WARNING no decision log: ")
    assert all(nowhere in complaint for complaint in ended.complaints)
