"""The wire's messages, and the JSON schema of them that is in the tree for other languages.

After a change of a message: ``python tests/unit/model/test_wire.py`` writes the schema anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from dagopt.model import wire
from dagopt.model.wire_gpu import Form
from dagopt.model.wire_message import PROTOCOL_VERSION, Message

SCHEMA = Path(wire.__file__).with_suffix(".json")


def schema() -> dict[str, Any]:
    """What ``wire.json`` must say."""
    (from_jvm, from_planner), definitions = msgspec.json.schema_components(
        [wire.FromJvm, wire.FromPlanner], ref_template="#/$defs/{name}"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"dagopt wire protocol {PROTOCOL_VERSION}: one JSON object a line",
        "$defs": {**definitions, "FromJvm": from_jvm, "FromPlanner": from_planner},
    }


def text_of(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2, sort_keys=True) + "\n"


def test_the_schema_in_the_tree_is_that_of_the_messages() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == text_of(schema()), (
        "wire.py and wire.json differ; run: python tests/unit/model/test_wire.py"
    )


def test_the_schema_defines_every_message() -> None:
    names = {message.__name__ for message in get_args(wire.FromJvm) + get_args(wire.FromPlanner)}
    assert names < schema()["$defs"].keys()


@pytest.mark.parametrize("message", get_args(wire.FromJvm), ids=lambda message: message.__name__)
def test_a_message_of_the_jvm_needs_its_type(message: type[Message]) -> None:
    definition = schema()["$defs"][message.__name__]
    assert "type" in definition["required"]
    assert definition["properties"]["v"]["default"] == PROTOCOL_VERSION


def test_another_type_of_message_is_another_version() -> None:
    tags = {
        str(message.__struct_config__.tag)
        for message in get_args(wire.FromJvm) + get_args(wire.FromPlanner)
    }
    types = {
        2: "concurrency counts cpu_only_done executor_added executor_removed fetch form gpu_stage hello"
        " hold_from launch ping plan pong ready release report rest_done slice_done slices steps"
        " task_ended task_set task_set_ended task_started"
    }
    assert " ".join(sorted(tags)) == types[PROTOCOL_VERSION]


def test_both_sides_have_the_same_version() -> None:
    (path,) = (Path(wire.__file__).parents[1] / "jvm").rglob("Wire.scala")
    assert f"  val Version = {PROTOCOL_VERSION}\n" in path.read_text(encoding="utf-8")


def test_types_are_told_apart_by_their_tags() -> None:
    for side in (wire.FromJvm, wire.FromPlanner):
        tags = [message.__struct_config__.tag for message in get_args(side)]
        assert len(tags) == len(set(tags))


def test_a_message_says_all_its_fields_even_defaults() -> None:
    line = msgspec.json.encode(wire.Plan(stage=1, attempt=0, action="pass"))
    assert json.loads(line) == {
        "type": "plan",
        "v": 2,
        "stage": 1,
        "attempt": 0,
        "action": "pass",
        "tasks_per_core": 1,
        "order": None,
        "reason": "",
    }


@pytest.mark.parametrize(
    "message",
    [
        wire.Ready(),
        wire.HoldFrom(num_tasks=3),
        wire.Concurrency(stage=1, attempt=0, tasks_per_core=2),
        wire.Launch(stage=1, attempt=0, group=3, tasks=[4, 5], executor="1", delay_ms=20),
        wire.Release(stage=1, attempt=0, reason="why"),
        Form(id=1, slices=[4, 12], boundary_before=True, ask_again=True, reason="why"),
        wire.Report(id=1, body={"decisions": []}),
        wire.Pong(seq=9),
    ],
    ids=lambda message: type(message).__name__,
)
def test_what_the_planner_says_can_be_read_back(message: wire.FromPlanner) -> None:
    line = msgspec.json.encode(message)
    assert b"\n" not in line
    decoded: wire.FromPlanner = msgspec.json.decode(line, type=wire.FromPlanner)
    assert decoded == message


def test_a_task_set_takes_either_kind_of_inputs() -> None:
    head = (
        '{"type":"task_set","v":2,"time_ms":1,"stage":2,"attempt":0,"num_tasks":2,"name":"n",'
        '"scopes":[],"hosts":["a"],"shuffle_types":["wide"],"inputs":'
    )
    sparse: wire.FromJvm = msgspec.json.decode(
        head + '{"kind":"sparse","offsets":[0,1,2],"hosts":[0,0],"bytes":[1,2]}}', type=wire.FromJvm
    )
    outer: wire.FromJvm = msgspec.json.decode(
        head + '{"kind":"outer","task_bytes":[1,2],"host_bytes":[3]}}', type=wire.FromJvm
    )
    assert isinstance(sparse, wire.TaskSetSubmitted)
    assert sparse.inputs == wire.SparseInputs(offsets=[0, 1, 2], hosts=[0, 0], bytes=[1, 2])
    assert isinstance(outer, wire.TaskSetSubmitted)
    assert outer.inputs == wire.OuterInputs(task_bytes=[1, 2], host_bytes=[3])


def test_a_field_of_a_newer_jvm_is_passed_over() -> None:
    line = '{"type":"ping","v":2,"seq":4,"mood":"fine"}'
    decoded: wire.FromJvm = msgspec.json.decode(line, type=wire.FromJvm)
    assert decoded == wire.Ping(seq=4)


if __name__ == "__main__":
    SCHEMA.write_text(text_of(schema()), encoding="utf-8")
