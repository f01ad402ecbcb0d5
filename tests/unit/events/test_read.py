from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from dagopt.errors import InputError
from dagopt.events.read import LogHealth, find_event_logs, read_trace
from tests.unit.events import event_lines as lines

if TYPE_CHECKING:
    from pathlib import Path

    from dagopt.events.trace import ApplicationTrace


def read(path: Path, data: bytes | None = None) -> tuple[ApplicationTrace, LogHealth]:
    if data is not None:
        path.write_bytes(data)
    return read_trace(find_event_logs(path)[0])


def joined(log: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in log)


def test_a_good_log(tmp_path: Path) -> None:
    log = [*lines.small_log(), lines.line("UnpersistRDD"), b'{"Event":"own"}']
    trace, health = read(tmp_path / "log", joined(log))
    assert trace.stages[0].coverage == 1.0
    assert health == LogHealth(
        num_lines=11,
        num_events=9,
        num_skipped=2,
        num_broken=0,
        num_replaced=0,
        problems=(),
        is_cut=False,
        is_compacted=False,
        has_first_part=True,
    )


def test_a_cut_last_line_loses_only_itself(tmp_path: Path) -> None:
    trace, health = read(tmp_path / "log", joined(lines.small_log())[:-9])
    assert trace.stages[0].coverage == 1.0
    assert not trace.is_complete
    assert (health.num_broken, health.num_events, health.is_cut) == (1, 8, True)
    assert health.problems == (f"{tmp_path / 'log'}:9: Input data was truncated",)


def test_a_cut_event_that_is_not_needed_is_seen_too(tmp_path: Path) -> None:
    _, health = read(tmp_path / "log", joined(lines.small_log()) + b'{"Event":"own","x":[1,')
    assert (health.num_broken, health.num_skipped, health.is_cut) == (1, 0, True)
    assert health.problems == (f"{tmp_path / 'log'}:10: the line is cut",)


def test_a_last_line_without_its_end_is_not_cut(tmp_path: Path) -> None:
    _, health = read(tmp_path / "log", joined(lines.small_log())[:-1])
    assert (health.num_broken, health.is_cut) == (0, False)


def test_broken_lines_in_the_middle_are_counted_and_the_first_named(tmp_path: Path) -> None:
    log = lines.small_log()
    log[2:2] = [b"what is this", b'{"Event":"SparkListenerTaskEnd","Stage ID":"x"}', b"{}"]
    trace, health = read(tmp_path / "log", joined(log))
    assert trace.stages[0].coverage == 1.0
    assert health.num_broken == 3
    (problem,) = health.problems
    assert problem.startswith(f"{tmp_path / 'log'}:3: JSON is malformed")


def test_bytes_that_are_not_utf_8_are_replaced(tmp_path: Path) -> None:
    log = joined(lines.small_log()).replace(b'"etl"', b'"\xe9tl \xff"').replace(b"host-a", b"h\x80")
    trace, health = read(tmp_path / "log", log)
    assert trace.name == "\N{REPLACEMENT CHARACTER}tl \N{REPLACEMENT CHARACTER}"
    assert trace.host_names == ("h\N{REPLACEMENT CHARACTER}",)
    assert (health.num_broken, health.num_replaced) == (0, 5)


def test_a_rolling_log_is_one_log(tmp_path: Path) -> None:
    log = lines.small_log()
    for number, part in enumerate((log[:4], log[4:]), 1):
        (tmp_path / f"events_{number}_app-1").write_bytes(joined(part))
    trace, health = read(tmp_path)
    assert (trace.stages[0].coverage, health.num_lines) == (1.0, 9)


def test_every_part_names_its_own_problem(tmp_path: Path) -> None:
    log = lines.small_log()
    for number, part in enumerate((log[:4], log[4:]), 1):
        (tmp_path / f"events_{number}_app-1").write_bytes(b"x\n" + joined(part))
    _, health = read(tmp_path)
    assert [problem.split(": ")[0] for problem in health.problems] == [
        f"{tmp_path}/events_1_app-1:1",
        f"{tmp_path}/events_2_app-1:1",
    ]


@pytest.mark.parametrize("data", [b"hello\n", b"a,b\n" * 1_000, b"\x00" * 10_000, b'{"a":1}\n'])
def test_what_is_no_event_log_is_an_input_error_of_one_line(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        read(tmp_path / "notes.txt", data)
    path = tmp_path / "notes.txt"
    assert str(raised.value) == f"{path}: not a Spark event log: no line of it is an event"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "it is empty"),
        (b"\n\n", "it is empty"),
        (gzip.compress(b"x")[:6], "no line of it can be read: Compressed file ended"),
        (b"LZ4Block" + b"x" * 99, "no line of it can be read: a block of "),
    ],
)
def test_a_file_without_lines_says_why(data: bytes, problem: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"notes.txt: not a Spark event log: {problem}"):
        read(tmp_path / "notes.txt", data)
