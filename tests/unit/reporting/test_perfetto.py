from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from dagopt.cli.main import main
from dagopt.reporting.figure import Bar, Panel
from dagopt.reporting.perfetto import trace_events, write_perfetto
from tests.unit.events.event_lines import application_start, log_start, small_log


def panel() -> Panel:
    bars = (
        Bar(stage=0, executor="1", start_s=0.0, read_s=0.5, end_s=2.0),
        Bar(stage=0, executor="1", start_s=0.0, read_s=0.0, end_s=1.0),
        Bar(stage=1, executor="2", start_s=1.0, read_s=1.0, end_s=2.0),
    )
    return Panel(heading="run", bars=bars, stage_names=("a\n b", "c"), num_cores=3.0)


def slices(events: list[dict[str, Any]]) -> list[tuple[str, int, int, int, int]]:
    return [
        (each["name"], each["pid"], each["tid"], each["ts"], each["dur"])
        for each in events
        if each["ph"] == "X"
    ]


def test_tasks_are_slices_of_slots_and_waits_lie_in_them() -> None:
    events = list(trace_events([panel()]))
    assert slices(events) == [
        ("a b", 2, 1, 0, 1_000_000),
        ("a b", 2, 2, 0, 2_000_000),
        ("waits for input", 2, 2, 0, 500_000),
        ("c", 3, 3, 1_000_000, 1_000_000),
    ]
    names = {each["pid"]: each["args"]["name"] for each in events if each["name"] == "process_name"}
    assert names == {1: "run: cores in use", 2: "run: executor 1", 3: "run: executor 2"}


def test_cores_in_use_add_up_to_the_time_of_the_tasks() -> None:
    counters = [each["args"] for each in trace_events([panel()]) if each["ph"] == "C"]
    width_s = 2.0 / len(counters)
    assert sum(each["waiting for I/O"] for each in counters) * width_s == pytest.approx(0.5)
    assert sum(each["CPU and other"] for each in counters) * width_s == pytest.approx(3.5)


def test_panels_share_no_process() -> None:
    first, second = (
        {each["pid"] for each in events if each["ph"] == "X"}
        for events in (list(trace_events([panel()])), list(trace_events([panel(), panel()])))
    )
    assert len(second) == 2 * len(first)


def test_what_is_written_is_one_json_object() -> None:
    for panels in ([], [panel()], [panel(), panel()]):
        out = io.StringIO()
        write_perfetto(panels, out)
        assert json.loads(out.getvalue())["traceEvents"] == list(trace_events(panels))


def test_the_command_writes_the_trace_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, trace = tmp_path / "log", tmp_path / "trace.json"
    log.write_bytes(b"\n".join(small_log()))
    assert main(["advise", str(log), "--perfetto", str(trace)]) == 0
    assert f"Wrote {trace}\n" in capsys.readouterr().err
    found = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    assert {name for name, *_ in slices(found)} == {
        "0: count at /home/me/job.py:12",
        "waits for input",
    }
    assert main(["advise", str(log), "--perfetto", str(trace)]) == 2
    log.write_bytes(b"\n".join([log_start(), application_start()]))
    assert main(["advise", str(log), "--perfetto", str(trace), "--force"]) == 0
    assert json.loads(trace.read_text(encoding="utf-8"))["traceEvents"] == []
