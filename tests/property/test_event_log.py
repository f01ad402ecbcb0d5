"""Laws of the event log reader: what holds for every cut, order and addition."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from dagopt.errors import InputError
from dagopt.events.fold import fold
from dagopt.events.log_stream import StreamEnd, read_lines
from dagopt.events.read import LogHealth, find_event_logs, read_trace
from dagopt.events.spark_events import LineError, decode_line
from dagopt.events.trace import ApplicationTrace
from tests.unit.events import event_lines as lines

LOG = [*lines.small_log(), b'{"Event":"own","text":"\xc3\xa9"}']
DATA = b"".join(line + b"\n" for line in LOG)


def read(data: bytes) -> tuple[ApplicationTrace, LogHealth]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.write_bytes(data)
        return read_trace(find_event_logs(path)[0])


def told(value: Any) -> Any:
    """The value as something that compares by equality, NaN and arrays too."""
    if dataclasses.is_dataclass(value):
        return [told(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, tuple):
        return [told(item) for item in value]
    return repr(value.tolist() if isinstance(value, np.ndarray) else value)


@given(st.integers(0, len(DATA)))
@example(DATA.index(b"\xa9"))
def test_a_cut_at_any_byte_loses_only_its_line(cut: int) -> None:
    kept = DATA[:cut]
    whole = LOG[: kept.count(b"\n")]
    # Where the cut took only the line end, the line is still whole.
    if len(whole) < len(LOG) and kept.endswith(LOG[len(whole)]):
        whole = LOG[: len(whole) + 1]
    if not whole:
        try:
            read(kept)
        except InputError:
            return
        raise AssertionError("no line, and no error")
    trace, health = read(kept)
    events = [event for line in whole if (event := decode_line(line)) is not None]
    assert told(trace) == told(fold(events))
    assert health.num_lines - health.num_broken == len(whole)
    assert health.num_broken <= 1
    assert health.is_cut == (health.num_broken == 1)


@given(st.permutations(range(len(LOG))))
def test_the_order_of_lines_changes_nothing_but_the_order_of_tasks(order: list[int]) -> None:
    (stage,) = read(b"\n".join(LOG[place] for place in order))[0].stages
    (expected,) = read(DATA)[0].stages
    by_index = np.argsort(stage.tasks.index)
    np.testing.assert_array_equal(stage.tasks.finish_s[by_index], expected.tasks.finish_s)
    assert told(dataclasses.replace(stage, tasks=expected.tasks)) == told(expected)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
    max_leaves=5,
)


def with_unknown(value: Any, unknown: dict[str, Any], order: Any) -> Any:
    """Every object in the value with more fields, in another order."""
    if isinstance(value, list):
        return [with_unknown(item, unknown, order) for item in value]
    if not isinstance(value, dict):
        return value
    items = {name: with_unknown(item, unknown, order) for name, item in value.items()}
    more = {f"? {name}": item for name, item in unknown.items()}
    return dict(order.sample(sorted({**items, **more}.items()), len(items) + len(more)))


@given(st.dictionaries(st.text(), json_values, max_size=3), st.randoms(use_true_random=False))
def test_unknown_fields_and_their_order_do_not_matter(unknown: dict[str, Any], order: Any) -> None:
    for line in LOG:
        changed = json.dumps(with_unknown(json.loads(line), unknown, order))
        assert decode_line(changed.encode()) == decode_line(line)


@given(st.binary(max_size=200), st.integers(1, len(DATA)))  # at 0 they would tell a compression
def test_bytes_put_in_anywhere_never_raise(noise: bytes, place: int) -> None:
    _, health = read(DATA[:place] + noise + b"\n" + DATA[place:] + b'{"Event":"own"}\n')
    assert health.num_lines == health.num_events + health.num_skipped + health.num_broken


@given(st.binary(max_size=300))
def test_any_line_is_an_event_or_a_line_error(line: bytes) -> None:
    with contextlib.suppress(LineError):
        decode_line(line)


@given(st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line), max_size=20))
def test_lines_are_split_at_line_ends_and_empty_ones_left_out(rows: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.write_bytes(b"x\n" + b"".join(row + b"\n" for row in rows))
        assert list(read_lines(path, StreamEnd())) == [b"x", *filter(None, rows)]


numbers = st.none() | st.integers(-(2**63), 2**63 - 1)


@given(numbers, numbers, numbers, numbers, st.sampled_from(["2.4.0", "4.0.0"]))
def test_no_span_is_negative_and_no_size(
    launch: int | None, finish: int | None, wait: int | None, run: int | None, version: str
) -> None:
    read_metrics = {"Fetch Wait Time": wait, "Remote Bytes Read": run, "Local Bytes Read": finish}
    metrics = lines.metrics(Shuffle_Read_Metrics=read_metrics, Executor_Run_Time=run)
    end = lines.task_end(0, task_metrics=metrics, Launch_Time=launch, Finish_Time=finish)
    requests = {"cpus": {"Amount": 0.5}}
    profile = lines.line(
        "ResourceProfileAdded", Resource_Profile_Id=0, Task_Resource_Requests=requests
    )
    (stage,) = read(b"\n".join([lines.log_start(version), profile, end]))[0].stages
    tasks = stage.tasks
    for column in (tasks.elapsed_s, tasks.fetch_wait_s, tasks.run_s, tasks.read_bytes):
        assert column[0] >= 0 or np.isnan(column[0])
