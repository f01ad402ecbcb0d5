"""The events of Spark's log that dagopt needs, as Spark writes them.

Units are Spark's here (ms, ns) and nowhere else; :mod:`dagopt.events.fold` converts. Every field
is optional, since versions from 1.3 to 4.3 and other vendors' builds leave out one or another,
and what Spark adds is skipped without being parsed. Numbers are bounded to 64 bits.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta, field

from dagopt.errors import InputError

#: What Spark writes as a long.
Long: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class LogStart(msgspec.Struct, frozen=True, gc=False):
    """First line of a log."""

    spark_version: str | None = field(name="Spark Version", default=None)


class ApplicationStart(msgspec.Struct, frozen=True, gc=False):
    """The application exists."""

    app_id: str | None = field(name="App ID", default=None)
    name: str | None = field(name="App Name", default=None)
    time_ms: Long | None = field(name="Timestamp", default=None)


class ApplicationEnd(msgspec.Struct, frozen=True, gc=False):
    """The application ended in order."""

    time_ms: Long | None = field(name="Timestamp", default=None)


class ResourceAddresses(msgspec.Struct, frozen=True, gc=False):
    """Which of a resource an executor has."""

    addresses: list[str] | None = None


class ExecutorInfo(msgspec.Struct, frozen=True, gc=False):
    """Where an executor runs."""

    host: str | None = field(name="Host", default=None)
    cores: Long | None = field(name="Total Cores", default=None)
    resources: dict[str, ResourceAddresses] | None = field(name="Resources", default=None)
    """By name, such as ``gpu``; from 3.0."""


class SparkProperties(msgspec.Struct, frozen=True, gc=False):
    """The one setting of the application that is needed."""

    shuffle_manager: str | None = field(name="spark.shuffle.manager", default=None)


class EnvironmentUpdate(msgspec.Struct, frozen=True, gc=False):
    """How the application was configured."""

    properties: SparkProperties | None = field(name="Spark Properties", default=None)


class ExecutorAdded(msgspec.Struct, frozen=True, gc=False):
    """An executor registered."""

    executor: str | None = field(name="Executor ID", default=None)
    time_ms: Long | None = field(name="Timestamp", default=None)
    info: ExecutorInfo | None = field(name="Executor Info", default=None)


class ExecutorRemoved(msgspec.Struct, frozen=True, gc=False):
    """An executor is gone."""

    executor: str | None = field(name="Executor ID", default=None)
    time_ms: Long | None = field(name="Timestamp", default=None)
    reason: str | None = field(name="Removed Reason", default=None)


class TaskRequest(msgspec.Struct, frozen=True, gc=False):
    """How much of one resource a task takes."""

    amount: float | None = field(name="Amount", default=None)


class ResourceProfileAdded(msgspec.Struct, frozen=True):
    """A resource profile, the default one (id 0) too; from 3.1."""

    profile_id: Long | None = field(name="Resource Profile Id", default=None)
    task_requests: dict[str, TaskRequest] | None = field(
        name="Task Resource Requests", default=None
    )


class RddInfo(msgspec.Struct, frozen=True):
    """One RDD that a stage computes."""

    rdd_id: Long | None = field(name="RDD ID", default=None)
    name: str | None = field(name="Name", default=None)
    scope: str | None = field(name="Scope", default=None)
    """JSON in a string: ``{"id":"5","name":"Exchange"}``; from 1.4."""
    parent_ids: list[Long] | None = field(name="Parent IDs", default=None)
    """From 1.4."""
    barrier: bool | None = field(name="Barrier", default=None)


class Accumulable(msgspec.Struct, frozen=True, gc=False):
    """A metric summed over the tasks of a stage."""

    number: Long | None = field(name="ID", default=None)
    name: str | None = field(name="Name", default=None)
    value: Any = field(name="Value", default=None)
    """A number, as text where it is of SQL; of any form where the user made it."""


class StageInfo(msgspec.Struct, frozen=True):
    """What is known of a stage attempt when it is submitted or completed."""

    stage_id: Long | None = field(name="Stage ID", default=None)
    attempt: Long | None = field(name="Stage Attempt ID", default=None)
    name: str | None = field(name="Stage Name", default=None)
    num_tasks: Long | None = field(name="Number of Tasks", default=None)
    rdds: list[RddInfo] | None = field(name="RDD Info", default=None)
    parent_ids: list[Long] | None = field(name="Parent IDs", default=None)
    submitted_ms: Long | None = field(name="Submission Time", default=None)
    completed_ms: Long | None = field(name="Completion Time", default=None)
    failure: str | None = field(name="Failure Reason", default=None)
    profile_id: Long | None = field(name="Resource Profile Id", default=None)
    accumulables: list[Accumulable] | None = field(name="Accumulables", default=None)


class StageProperties(msgspec.Struct, frozen=True, gc=False):
    """The one local property of a stage attempt that is needed."""

    execution_id: str | None = field(name="spark.sql.execution.id", default=None)
    """SQL execution that the stage belongs to."""


class StageSubmitted(msgspec.Struct, frozen=True):
    """A stage attempt is about to run."""

    info: StageInfo | None = field(name="Stage Info", default=None)
    properties: StageProperties | None = field(name="Properties", default=None)


class StageCompleted(msgspec.Struct, frozen=True):
    """A stage attempt ended, well or not."""

    info: StageInfo | None = field(name="Stage Info", default=None)


class JobStart(msgspec.Struct, frozen=True):
    """A job was submitted, with the stages it may need."""

    job_id: Long | None = field(name="Job ID", default=None)
    time_ms: Long | None = field(name="Submission Time", default=None)
    stages: list[StageInfo] | None = field(name="Stage Infos", default=None)
    stage_ids: list[Long] | None = field(name="Stage IDs", default=None)


class JobEnd(msgspec.Struct, frozen=True, gc=False):
    """A job ended, well or not."""

    job_id: Long | None = field(name="Job ID", default=None)
    time_ms: Long | None = field(name="Completion Time", default=None)


class SqlExecutionStart(msgspec.Struct, frozen=True, gc=False):
    """A SQL query starts."""

    execution_id: Long | None = field(name="executionId", default=None)
    plan: str | None = field(name="physicalPlanDescription", default=None)
    """Text of the physical plan before adaptive execution changes it; may be MBs long."""


class TaskInfo(msgspec.Struct, frozen=True, gc=False):
    """Identity, place and times of one task attempt."""

    task_id: Long | None = field(name="Task ID", default=None)
    index: Long | None = field(name="Index", default=None)
    attempt: Long | None = field(name="Attempt", default=None)
    launch_ms: Long | None = field(name="Launch Time", default=None)
    getting_result_ms: Long | None = field(name="Getting Result Time", default=None)
    finish_ms: Long | None = field(name="Finish Time", default=None)
    executor: str | None = field(name="Executor ID", default=None)
    host: str | None = field(name="Host", default=None)
    speculative: bool | None = field(name="Speculative", default=None)


class ShuffleReadMetrics(msgspec.Struct, frozen=True, gc=False):
    """What a task fetched of map outputs."""

    fetch_wait_ms: Long | None = field(name="Fetch Wait Time", default=None)
    remote_bytes: Long | None = field(name="Remote Bytes Read", default=None)
    local_bytes: Long | None = field(name="Local Bytes Read", default=None)
    remote_blocks: Long | None = field(name="Remote Blocks Fetched", default=None)
    local_blocks: Long | None = field(name="Local Blocks Fetched", default=None)


class ShuffleWriteMetrics(msgspec.Struct, frozen=True, gc=False):
    """What a task left as map output."""

    written_bytes: Long | None = field(name="Shuffle Bytes Written", default=None)
    write_ns: Long | None = field(name="Shuffle Write Time", default=None)


class InputMetrics(msgspec.Struct, frozen=True, gc=False):
    """What a task read from files and cached blocks."""

    read_bytes: Long | None = field(name="Bytes Read", default=None)


class OutputMetrics(msgspec.Struct, frozen=True, gc=False):
    """What a task wrote to files."""

    written_bytes: Long | None = field(name="Bytes Written", default=None)


class TaskMetrics(msgspec.Struct, frozen=True, gc=False):
    """What an executor measured of one task attempt."""

    deserialize_ms: Long | None = field(name="Executor Deserialize Time", default=None)
    run_ms: Long | None = field(name="Executor Run Time", default=None)
    """From 4.0 on ``elapsed * cpus of the task - deserialize``, before without the cpus."""
    cpu_ns: Long | None = field(name="Executor CPU Time", default=None)
    """From 2.1; without Python workers."""
    gc_ms: Long | None = field(name="JVM GC Time", default=None)
    serialize_ms: Long | None = field(name="Result Serialization Time", default=None)
    spilled_bytes: Long | None = field(name="Disk Bytes Spilled", default=None)
    peak_memory_bytes: Long | None = field(name="Peak Execution Memory", default=None)
    """From 3.0."""
    shuffle_read: ShuffleReadMetrics | None = field(name="Shuffle Read Metrics", default=None)
    shuffle_write: ShuffleWriteMetrics | None = field(name="Shuffle Write Metrics", default=None)
    input: InputMetrics | None = field(name="Input Metrics", default=None)
    output: OutputMetrics | None = field(name="Output Metrics", default=None)


class TaskEndReason(msgspec.Struct, frozen=True, gc=False):
    """Any reason is accepted; only ``Success`` is one."""

    reason: str | None = field(name="Reason", default=None)


class TaskStart(msgspec.Struct, frozen=True, gc=False):
    """A task attempt was launched."""

    stage_id: Long | None = field(name="Stage ID", default=None)
    attempt: Long | None = field(name="Stage Attempt ID", default=None)
    info: TaskInfo | None = field(name="Task Info", default=None)


class TaskEnd(msgspec.Struct, frozen=True, gc=False):
    """A task attempt ended, well or not."""

    stage_id: Long | None = field(name="Stage ID", default=None)
    attempt: Long | None = field(name="Stage Attempt ID", default=None)
    reason: TaskEndReason | None = field(name="Task End Reason", default=None)
    info: TaskInfo | None = field(name="Task Info", default=None)
    metrics: TaskMetrics | None = field(name="Task Metrics", default=None)


Event: TypeAlias = (
    LogStart
    | ApplicationStart
    | ApplicationEnd
    | EnvironmentUpdate
    | ExecutorAdded
    | ExecutorRemoved
    | ResourceProfileAdded
    | JobStart
    | JobEnd
    | StageSubmitted
    | StageCompleted
    | SqlExecutionStart
    | TaskStart
    | TaskEnd
)


class _Head(msgspec.Struct, frozen=True, gc=False):
    event: str = field(name="Event")


_HEAD: Final = msgspec.json.Decoder(_Head)
_PREFIX: Final = b'{"Event":"'
_DECODERS: Final[dict[bytes, msgspec.json.Decoder[Event]]] = {
    f"SparkListener{kind.__name__}".encode(): msgspec.json.Decoder(kind)
    for kind in (
        LogStart,
        ApplicationStart,
        ApplicationEnd,
        EnvironmentUpdate,
        ExecutorAdded,
        ExecutorRemoved,
        ResourceProfileAdded,
        JobStart,
        JobEnd,
        StageSubmitted,
        StageCompleted,
        TaskStart,
        TaskEnd,
    )
}
_DECODERS[b"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"] = (
    msgspec.json.Decoder(SqlExecutionStart)
)
# The first line of a Databricks log.
_DECODERS[b"DBCEventLoggingListenerMetadata"] = _DECODERS[b"SparkListenerLogStart"]


class LineError(InputError):
    """A line is not an event; the message says why, and the reader knows where."""


def decode_line(line: bytes) -> Event | None:
    """The event of one line, or None for an event that dagopt does not need.

    The body of an event that is not needed is not looked at, so it may be broken.

    Raises:
        LineError: the line is no JSON object with an ``Event``, or one of the wrong types.
    """
    try:
        decoder = _DECODERS.get(event_name(line))
        return None if decoder is None else decoder.decode(line)
    except msgspec.DecodeError as error:  # includes wrong types
        raise LineError(str(error)) from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise LineError(f"not a line of JSON: {error}") from error


def event_name(line: bytes) -> bytes:
    """The event's name, without parsing the line where Spark's own form allows it.

    Raises:
        msgspec.DecodeError: the line is no JSON object with an ``Event``.
    """
    if line.startswith(_PREFIX):
        end = line.find(b'"', len(_PREFIX))
        if end > 0 and b"\\" not in line[len(_PREFIX) : end]:
            return line[len(_PREFIX) : end]
    return _HEAD.decode(line).event.encode("utf-8", "replace")


def is_whole(line: bytes) -> bool:
    """Whether the line is one JSON object with an ``Event``, to its very end."""
    try:
        _HEAD.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
