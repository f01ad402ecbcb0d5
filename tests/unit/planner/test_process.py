"""The planner's loop without a process: lines in, lines out."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest

from dagopt.controller.application import ApplicationController
from dagopt.errors import BridgeError
from dagopt.model.wire import FromJvm, Hello, Ping, Plan, Pong, ReportRequest, TaskSetSubmitted
from dagopt.model.wire_gpu import Form, GpuStage, SliceDone, TaskSums
from dagopt.planner import process
from dagopt.planner.process import MAX_REPORT_BYTES, answer, decode, run
from dagopt.planner.report_body import report_body
from dagopt.reporting.live import MAX_ROWS
from tests.unit.controller import events as ev

HELLO = Hello(app_id="app-1", spark="4.3.0")
FOUR = [{"sa": 100, "sb": 100}] * 4


class UnclosedLog(io.BytesIO):
    """A file whose text can be read after it was closed."""

    def close(self) -> None:
        """Keep it."""


def talk(*messages: FromJvm, log: io.BytesIO | None = None) -> list[dict[str, Any]]:
    out = io.BytesIO()
    run(
        [msgspec.json.encode(message) + b"\n" for message in messages],
        out,
        clock=lambda: 12.5,
        make_controller=lambda _: ev.application(),
        decision_log=lambda _: log,
    )
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_hello_is_answered_by_ready_and_ping_by_its_number() -> None:
    assert talk(HELLO, Ping(seq=7)) == [
        {"type": "ready", "v": 2},
        {"type": "pong", "v": 2, "seq": 7},
    ]


def test_without_hello_there_is_no_conversation() -> None:
    with pytest.raises(BridgeError) as caught:
        talk(Ping(seq=1))
    assert str(caught.value) == "expected hello first, got Ping"


def test_no_lines_are_no_answers() -> None:
    assert talk() == []


def test_a_task_set_is_planned_and_its_groups_launched() -> None:
    out = talk(HELLO, ev.added("1", cores=1), ev.submitted(FOUR))
    assert [line["type"] for line in out] == ["ready", "hold_from", "plan", "launch", "counts"]
    assert out[3]["tasks"] == [0]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"rubbish\n", "not a message of the JVM: JSON is malformed: "),
        (b"\n", "not a message of the JVM: Input data was truncated: b'\\n'"),
        (b'{"type":"dance","v":2}', "not a message of the JVM: Invalid value 'dance'"),
        (b'{"type":"ping","v":2}', "Object missing required field `seq`"),
        (b'{"type":"ping","v":2,"seq":"one"}', "Expected `int`, got `str` - at `$.seq`"),
        (b'{"type":"ping","v":3,"seq":1}', "protocol version 3, expected 2: dagopt's jar and its "),
        (b'{"type":"dance","v":1}', "protocol version 1, expected 2: dagopt's jar and its "),
        (
            b'{"type":"hello","v":3,"app":1}',
            "protocol version 3, expected 2: dagopt's jar and its ",
        ),
    ],
)
def test_a_line_of_another_protocol_is_quoted(line: bytes, message: str) -> None:
    with pytest.raises(BridgeError) as caught:
        decode(line)
    assert message in str(caught.value)


def test_a_long_line_is_quoted_in_part() -> None:
    with pytest.raises(BridgeError) as caught:
        decode(b"x" * 10_000)
    assert len(str(caught.value)) < 400


def test_a_task_set_that_contradicts_itself_is_given_back(caplog: pytest.LogCaptureFixture) -> None:
    message: TaskSetSubmitted = msgspec.structs.replace(ev.submitted(FOUR), num_tasks=5)
    why = "stage 1.0: offsets must be 6 rising numbers from 0"
    assert answer(ev.application(), message, 0.0) == [
        Plan(stage=1, attempt=0, action="pass", reason=f"not understood: {why}")
    ]
    assert caplog.messages == [why]


def test_another_event_that_contradicts_itself_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    live = ev.application()
    live.step(ev.added("1"), 0.0)
    live.step(ev.submitted(FOUR), 0.0)
    assert answer(live, ev.started(4, "1"), 0.0) == []
    assert caplog.messages == ["stage 1.0: task is 4, must be 0 to 3"]


def test_a_ping_needs_no_controller_step() -> None:
    live = ev.application()
    assert answer(live, Ping(seq=3), 5.0) == [Pong(seq=3)]


def played() -> ApplicationController:
    live = ev.application()
    live.step(ev.added("1", cores=1), 1.0)
    live.step(ev.submitted(FOUR), 2.0)
    live.step(ev.started(0, "1"), 2.0)
    live.step(ev.fetched(0, "1"), 4.0)
    live.step(ev.ended(0, "1", from_s=2.0, to_s=6.0, wait_s=2.0), 6.0)
    return live


def test_a_report_shows_executors_bandwidths_and_decisions() -> None:
    body = report_body(played(), ReportRequest(id=1), 7.0)
    assert json.loads(json.dumps(body)).keys() == body.keys()
    assert body["executors"] == [{"executor": "1", "host": "h1", "network": "default", "cores": 1}]
    assert body["bandwidths"][0] == {"reader": "default", "source": "default", "bytes_per_s": 100}
    (record,) = body["host_records"]
    assert (record["host"], record["num_tasks"]) == ("h1", len(FOUR))
    assert record["total_io_s"] == len(FOUR) * record["min_io_s"] > 0
    assert (body["task_sets"], body["recalculations"], body["idle_hold_s"]) == (1, 2, 0.0)
    assert [decision["action"] for decision in body["decisions"]] == ["group", "concurrency"]


def test_a_report_is_answered_with_its_number() -> None:
    out = talk(HELLO, ReportRequest(id=5))
    known = out[1]["body"].pop("bandwidths")
    assert len(known) == len(ev.BANDWIDTHS.learned)
    assert out[1]["type"] == "report"
    assert out[1]["id"] == 5
    assert out[1]["body"] == {
        "time_s": 12.5,
        "decisions": [],
        "totals": {"decisions": 0, "held": 0, "groups": 0, "gpu_stages": 0},
        "held": [],
        "groups": [],
        "gpu_stages": [],
        "gpu_shifts": [],
        "gpu_use": [],
        "task_sets": 0,
        "recalculations": 0,
        "idle_hold_s": 0.0,
        "executors": [],
        "host_records": [],
    }


def test_a_report_says_what_is_held_and_how_long_groups_were_delayed() -> None:
    live = ev.application()
    live.step(ev.added("1", cores=1), 1.0)
    live.step(ev.submitted(FOUR), 2.0)
    body = report_body(live, ReportRequest(id=1), 2.0)
    (held,) = body["held"]
    assert (held["stage"], held["num_tasks"], held["num_held"]) == (1, 4, 4)
    assert body["groups"][0] == {
        "stage": 1,
        "attempt": 0,
        "group": 1,
        "executor": "1",
        "host": "h1",
        "input_host_set": "default",
        "num_tasks": 1,
        "tasks": [0],
        "formed_s": 2.0,
        "launch_s": 2.0,
    }
    after = report_body(played(), ReportRequest(id=1), 7.0)
    assert sum(len(group["tasks"]) for group in after["groups"]) + len(after["held"]) >= 2
    assert all(group["formed_s"] <= group["launch_s"] for group in after["groups"])


def test_a_group_that_is_given_back_is_delayed_no_longer() -> None:
    live = ev.application()
    for executor in ("1", "2"):
        live.step(ev.added(executor, cores=2), 1.0)
    live.step(ev.submitted([{"sa": 1000}] * 8), 2.0)
    delayed = [entry for _, entry in live.grouping.groups if entry.launch_s > 3.0]
    assert delayed
    live.step(ev.removed("1"), 3.0)
    assert all(entry.launch_s <= 3.0 for entry in delayed)


def test_a_view_is_lines_and_tables_of_text() -> None:
    asked = ReportRequest(id=1, view=True, mode="on", gate={"task_sets_seen": 5})
    view = report_body(played(), asked, 7.0)
    assert view["lines"][0] == "dagopt, mode on: 2 grouping decisions, 0 forms of GPU operators"
    assert view["lines"][1].startswith("task sets: 5 seen, 4 too small")
    headings = [table["heading"] for table in view["tables"]]
    assert headings == ["Held now", "Task groups", "Decisions"]
    for table in view["tables"]:
        assert {len(row) for row in table["rows"]} <= {len(table["columns"])}
        assert all(isinstance(text, str) for row in table["rows"] for text in row)
    assert json.loads(json.dumps(view)) == json.loads(msgspec.json.encode(view))


@dataclass(frozen=True, slots=True)
class Counted:
    """A decision that tells when it is made a dictionary."""

    stage: int
    made: list[int]

    def to_dict(self) -> dict[str, Any]:
        self.made.append(self.stage)
        return {"stage": self.stage, "id": self.stage}


def test_a_view_costs_what_it_shows() -> None:
    live = played()
    made: list[int] = []
    many = [Counted(stage, made) for stage in range(10 * MAX_ROWS)]
    live.grouping.decisions.extend(many)  # type: ignore[arg-type]
    live.grouping.num_decisions = 12_345
    live.boundary.decisions.extend(many)  # type: ignore[arg-type]
    view = report_body(live, ReportRequest(id=1, view=True), 7.0)
    assert made == 2 * [each.stage for each in many[-MAX_ROWS:]]
    assert view["lines"][0].startswith("dagopt, mode : 12345 grouping decisions")
    shown = {table["heading"]: table for table in view["tables"]}
    assert shown["Decisions"]["note"] == f"The last {MAX_ROWS} of 12345 decisions."
    assert shown["Decisions"]["rows"][0][0] == str(many[-1].stage)


@pytest.mark.parametrize("is_view", [False, True])
@pytest.mark.parametrize("broken", ["raises", "is no JSON", "is too large"])
def test_a_report_that_cannot_be_made_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, broken: str, *, is_view: bool
) -> None:
    def body(*_: object) -> dict[str, Any]:
        if broken == "raises":
            raise ZeroDivisionError("by nothing")
        return {"lines": np.array([1 + 2j]) if broken == "is no JSON" else "x" * MAX_REPORT_BYTES}

    monkeypatch.setattr(process, "report_body", body)
    _, report, pong = talk(HELLO, ReportRequest(id=5, view=is_view), Ping(seq=7))
    assert (report["id"], pong["seq"]) == (5, 7)
    why = {
        "raises": "ZeroDivisionError: by nothing",
        "is no JSON": "TypeError: ",
        "is too large": "InputError: a report of more than 32 MB",
    }[broken]
    assert why in report["body"]["error"]
    assert why in report["body"]["lines"][0]


class FullDisk(io.BytesIO):
    """A file on it."""

    def flush(self) -> None:
        raise OSError("No space left on device")


def test_a_log_that_cannot_be_written_ends_no_planner(caplog: pytest.LogCaptureFixture) -> None:
    out = talk(HELLO, GPU_STAGE, GPU_STAGE, Ping(seq=7), log=FullDisk())
    assert out[-1]["seq"] == 7
    assert caplog.messages == ["the decision log ends here: No space left on device"]


def test_counts_follow_what_is_decided_and_what_has_ended() -> None:
    out = talk(HELLO, ev.added("1"), Ping(seq=1), ev.submitted(FOUR), Ping(seq=2))
    assert [line["decisions"] for line in out if line["type"] == "counts"] == [1]


def test_every_decision_is_written_to_the_log_once() -> None:
    log = UnclosedLog()
    messages = [ev.submitted(FOUR, stage=stage) for stage in range(3)]
    talk(HELLO, *messages, Ping(seq=1), log=log)
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [line["stage"] for line in lines] == [0, 1, 2]
    assert {line["time_s"] for line in lines} == {12.5}


GPU_STAGE = GpuStage(
    time_ms=0,
    id=3,
    signature="7",
    name="MapInPandas",
    num_partitions=16,
    cores=8,
    gpus=2,
    cpus_per_task=1,
    num_hosts=1,
)


def test_a_gpu_stage_is_answered_by_its_form() -> None:
    out = talk(HELLO, GPU_STAGE)
    assert [line["type"] for line in out] == ["ready", "form", "counts"]
    assert (out[1]["id"], out[1]["slices"], out[1]["ask_again"]) == (3, [4, 12], True)


def test_a_gpu_stage_that_contradicts_itself_stays_fused(caplog: pytest.LogCaptureFixture) -> None:
    message: GpuStage = msgspec.structs.replace(GPU_STAGE, cpus_per_task=-1)
    (form,) = answer(ev.application(), message, 0.0)
    assert isinstance(form, Form)
    assert (form.slices, form.boundary_before, form.boundary_after) == ([16], False, False)
    assert form.reason == f"not understood: {caplog.messages[0]}"


def test_decisions_of_both_kinds_are_written_to_the_log() -> None:
    log = UnclosedLog()
    talk(HELLO, GPU_STAGE, ev.submitted(FOUR, stage=1), GPU_STAGE, Ping(seq=1), log=log)
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [line.get("form", line.get("action")) for line in lines] == ["probe", "pass", "probe"]


def test_what_gpus_did_is_written_to_the_log() -> None:
    log = UnclosedLog()
    tasks = TaskSums(
        num_tasks=4,
        held_ms=4000,
        run_ms=3600,
        start_ms=0,
        read_ms=0,
        write_ms=0,
        bytes_read=0,
        local_bytes_read=0,
        bytes_written=0,
    )
    slice_done = SliceDone(
        time_ms=0,
        id=3,
        slice=0,
        boundary_before=True,
        boundary_after=True,
        cpu=tasks,
        gpu=tasks,
    )
    out = talk(HELLO, GPU_STAGE, slice_done, Ping(seq=1), log=log)
    *_, counted = [line for line in out if line["type"] == "counts"]
    assert (counted["gpu_decisions"], counted["gpu_allocated_s"]) == (1, 4.0)
    assert (counted["gpu_busy_s"], counted["gpu_idle_s"]) == (3.6, pytest.approx(0.4))
    _, use = [json.loads(line) for line in log.getvalue().splitlines()]
    assert (use["id"], use["slice"], use["name"]) == (3, 0, "MapInPandas")
    assert (use["gpu_allocated_s"], use["gpu_busy_s"]) == (4.0, 3.6)
    assert use["gpu_idle_s"] == pytest.approx(0.4)
