from __future__ import annotations

import json

import pytest

from dagopt.events.spark_events import (
    ApplicationEnd,
    ExecutorAdded,
    LineError,
    LogStart,
    SqlExecutionStart,
    StageSubmitted,
    TaskEnd,
    decode_line,
    event_name,
    is_whole,
)
from tests.unit.events import event_lines as lines


def test_a_task_end_keeps_its_numbers_in_sparks_units() -> None:
    event = decode_line(lines.task_end(3))
    assert isinstance(event, TaskEnd)
    assert event.info is not None
    assert event.metrics is not None
    assert event.metrics.shuffle_read is not None
    assert (event.info.index, event.metrics.cpu_ns) == (3, 1_500_000_000)
    assert event.metrics.shuffle_read.fetch_wait_ms == 1_000


def test_every_field_may_be_missing_or_null() -> None:
    assert decode_line(b'{"Event":"SparkListenerTaskEnd"}') == TaskEnd()
    added = b'{"Event":"SparkListenerExecutorAdded","Executor ID":null,"Executor Info":null}'
    assert decode_line(added) == ExecutorAdded()


def test_a_query_keeps_its_id_and_the_text_of_its_plan() -> None:
    event = decode_line(lines.sql_execution_start(7, "== Physical Plan ==\n* Range (1)"))
    assert event == SqlExecutionStart(execution_id=7, plan="== Physical Plan ==\n* Range (1)")


@pytest.mark.parametrize(
    ("properties", "execution_id"),
    [({"spark.sql.execution.id": "3", "other": "x"}, "3"), ({}, None), (None, None)],
)
def test_of_the_properties_of_a_stage_one_is_kept(
    properties: dict[str, str] | None, execution_id: str | None
) -> None:
    event = decode_line(lines.line("StageSubmitted", Properties=properties))
    assert isinstance(event, StageSubmitted)
    kept = event.properties.execution_id if event.properties is not None else None
    assert kept == execution_id


@pytest.mark.parametrize(
    "line",
    [
        b'{"Event":"SparkListenerUnpersistRDD","RDD ID":1}',
        b'{"Event":"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd","x":{}}',
        b'{"Event":"SparkListenerSqlExecutionStart"}',
        b'{"Event":"com.example.Own"}',
        b'{"Event":"SparkListenerTaskEnd\\u0000"}',
    ],
)
def test_an_event_that_is_not_needed_is_none(line: bytes) -> None:
    assert decode_line(line) is None


def test_the_event_may_stand_anywhere_in_the_line_and_with_blanks() -> None:
    text = json.dumps({"Timestamp": 5, "Event": "SparkListenerApplicationEnd"}, indent=1)
    assert decode_line(text.encode()) == ApplicationEnd(time_ms=5)


def test_the_head_of_a_databricks_log_is_a_log_start() -> None:
    line = b'{"Event":"DBCEventLoggingListenerMetadata","Spark Version":"3.2.1"}'
    assert decode_line(line) == LogStart(spark_version="3.2.1")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"", "truncated"),
        (b"hello", "malformed"),
        (b"[1]", "Expected `object`"),
        (b'{"event":1}', "missing required field `Event`"),
        (b'{"Event":"SparkListenerTaskEnd","Stage ID":"0"}', "Expected `int | null`, got `str`"),
        (b'{"Event":"SparkListenerTaskEnd","Stage ID":0', "truncated"),
        (b'{"Event":"SparkListenerTaskEnd","Stage ID":99999999999999999999}', "<= "),
        (b'{"Event":"SparkListenerTaskEnd","x":' + b"[" * 100_000, "recursion"),
    ],
)
def test_a_broken_line_says_what_is_wrong(line: bytes, said: str) -> None:
    with pytest.raises(LineError) as raised:
        decode_line(line)
    assert said in str(raised.value)


def test_the_name_is_found_without_parsing() -> None:
    assert event_name(b'{"Event":"Own","rest of the line is') == b"Own"


def test_a_line_is_whole_only_to_its_end() -> None:
    line = lines.task_end()
    assert is_whole(line)
    assert not is_whole(line[:-1])
    assert not is_whole(b"{}")
