"""The messages between the Spark driver's JVM and the planner process.

One JSON object a line, each with the protocol version ``v`` and a ``type``. Times are epoch
milliseconds on the driver's clock and become seconds when the planner makes an event of the
message. Those about GPU stages stand in :mod:`dagopt.model.wire_gpu`. ``wire.json`` beside this
module is the same contract as a JSON schema; a test keeps the two equal. A change that an older
side would misread raises :data:`dagopt.model.wire_message.PROTOCOL_VERSION`.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from dagopt.model.wire_gpu import CpuOnlyDone, Form, GpuStage, RestDone, SliceDone, Slices, Steps
from dagopt.model.wire_message import Message

ShuffleType: TypeAlias = Literal["wide", "narrow", "source"]
"""What a task set reads: all-to-all map output, few-to-one map output, or blocks of a store."""


class Hello(Message, frozen=True, kw_only=True, tag="hello"):
    """First line of the JVM: who it is and how it is configured."""

    app_id: str
    spark: str
    """Spark's version, for instance ``4.3.0``."""
    conf: dict[str, str] = msgspec.field(default_factory=dict)
    """Every ``spark.dagopt.*`` setting of the application."""
    can_raise: bool = False
    """Whether more tasks than cores can be run at once here."""
    why_not: str = ""
    """Why not, where ``can_raise`` is false."""


class ExecutorAdded(Message, frozen=True, kw_only=True, tag="executor_added"):
    """A new resource allocation reached the driver."""

    time_ms: int
    executor: str
    host: str
    cores: float
    """Tasks of the default resource profile that it runs at once: its physical cores."""


class ExecutorRemoved(Message, frozen=True, kw_only=True, tag="executor_removed"):
    """An executor is gone."""

    time_ms: int
    executor: str


class SparseInputs(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="sparse"):
    """Bytes of every task per source host, compressed by rows."""

    offsets: list[int]
    """``(T + 1,)`` where each task's entries begin in ``hosts`` and ``bytes``."""
    hosts: list[int]
    """Index into the message's host list."""
    bytes: list[int]


class OuterInputs(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="outer"):
    """Bytes of a large all-to-all shuffle by its two margins.

    The bytes that task t reads from host h are taken as ``task_bytes[t] * host_bytes[h] / sum``.
    """

    task_bytes: list[int]
    """``(T,)``."""
    host_bytes: list[int]
    """``(H,)``."""


class TaskSetSubmitted(Message, frozen=True, kw_only=True, tag="task_set"):
    """The gate has seen a task set, and holds it if ``hold``."""

    time_ms: int
    stage: int
    attempt: int
    num_tasks: int
    name: str
    scopes: list[str]
    """Operation scopes of the stage's RDDs, by RDD id."""
    plan: str = ""
    """Number of the SQL query's plan, empty where the stage belongs to none."""
    inputs: SparseInputs | OuterInputs
    hosts: list[str]
    shuffle_types: list[ShuffleType]
    job: int = -1
    pool: str = "default"
    hold: bool = True
    can_raise: bool = False
    partial: bool = False
    """Some input was of a kind that the JVM does not understand."""
    preferred: bool = False
    """Spark has locality preferences for the tasks."""


class TaskStarted(Message, frozen=True, kw_only=True, tag="task_started"):
    """A task of a followed task set was launched."""

    time_ms: int
    stage: int
    attempt: int
    task: int
    executor: str
    speculative: bool = False


class Fetch(Message, frozen=True, kw_only=True, tag="fetch"):
    """How far the reading of running tasks on one executor is."""

    time_ms: int
    executor: str
    tasks: list[tuple[int, int, int, int, bool, int]]
    """``(stage, attempt, task, bytes read so far, reading is done, ms since the bytes last grew)``."""


class TaskEnded(Message, frozen=True, kw_only=True, tag="task_ended"):
    """A task of a followed task set ended, well or not."""

    time_ms: int
    stage: int
    attempt: int
    task: int
    executor: str
    ok: bool
    launch_ms: int
    finish_ms: int
    speculative: bool = False
    fetch_wait_ms: int = 0
    cpu_ms: int = 0
    gc_ms: int = 0
    read_bytes: int = 0
    spilled_bytes: int = 0
    peak_memory_bytes: int = 0


class TaskSetEnded(Message, frozen=True, kw_only=True, tag="task_set_ended"):
    """A followed task set is over: completed, failed or cancelled."""

    time_ms: int
    stage: int
    attempt: int
    ok: bool


class ReportRequest(Message, frozen=True, kw_only=True, tag="report"):
    """Somebody asks what was decided."""

    id: int
    view: bool = False
    """Whether the answer's body is to be the lines and tables of the tab in Spark's user interface."""
    mode: str = ""
    """``spark.dagopt.mode``; for a view."""
    gate: dict[str, int] = msgspec.field(default_factory=dict)
    """The driver's counters; for a view."""


class Ping(Message, frozen=True, kw_only=True, tag="ping"):
    """The JVM asks whether the planner is alive."""

    seq: int


FromJvm: TypeAlias = (
    Hello
    | ExecutorAdded
    | ExecutorRemoved
    | TaskSetSubmitted
    | TaskStarted
    | Fetch
    | TaskEnded
    | TaskSetEnded
    | GpuStage
    | SliceDone
    | CpuOnlyDone
    | Slices
    | RestDone
    | ReportRequest
    | Ping
)
"""Any line of the JVM."""


class Ready(Message, frozen=True, kw_only=True, tag="ready"):
    """First line of the planner."""


class HoldFrom(Message, frozen=True, kw_only=True, tag="hold_from"):
    """Task sets with fewer tasks are told and not held: their plan would be to pass."""

    num_tasks: int


class Plan(Message, frozen=True, kw_only=True, tag="plan"):
    """The answer to a task set.

    ``pass`` puts all tasks back in Spark's order, ``order`` in the order given, ``group`` keeps
    them held because launches follow.
    """

    stage: int
    attempt: int
    action: Literal["pass", "order", "group"]
    tasks_per_core: int = 1
    order: list[int] | None = None
    reason: str = ""


class Concurrency(Message, frozen=True, kw_only=True, tag="concurrency"):
    """From now on this many tasks of the set share a core."""

    stage: int
    attempt: int
    tasks_per_core: int


class Launch(Message, frozen=True, kw_only=True, tag="launch"):
    """Release one task group after a delay.

    The same group again, before its delay has passed, replaces tasks and delay.
    """

    stage: int
    attempt: int
    group: int
    tasks: list[int]
    executor: str | None = None
    """The only executor that may run it; None leaves the choice to Spark."""
    delay_ms: int = 0


class Release(Message, frozen=True, kw_only=True, tag="release"):
    """Put back everything that is left, in Spark's order."""

    stage: int
    attempt: int
    reason: str = ""


class Report(Message, frozen=True, kw_only=True, tag="report"):
    """What was decided so far."""

    id: int
    body: dict[str, Any]


class Counts(Message, frozen=True, kw_only=True, tag="counts"):
    """What there was so far, for Spark's metrics system; sent when something was decided or has ended."""

    decisions: int
    """About task sets."""
    gpu_decisions: int
    """Forms of GPU operators."""
    gpu_shifts: int
    idle_hold_s: float
    """Core seconds in which a core idled while tasks were held."""
    gpu_allocated_s: float
    gpu_busy_s: float
    """Of stages whose CPU operators ran apart."""
    gpu_idle_s: float
    """Likewise."""


class Pong(Message, frozen=True, kw_only=True, tag="pong"):
    """The planner is alive."""

    seq: int


FromPlanner: TypeAlias = (
    Ready | HoldFrom | Plan | Concurrency | Launch | Release | Form | Steps | Report | Counts | Pong
)
"""Any line of the planner."""
