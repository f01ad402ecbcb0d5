"""What one application did, as values: stages, executors, and a column per task measurement.

Times are seconds since the epoch on the driver's clock, spans are seconds. A number that the log
does not hold is NaN, never 0: an old Spark without CPU times, a task that died without metrics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from dagopt.model.stage_profile import has_python, stage_signature, works_outside_jvm

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dagopt.events.python_operators import PythonOperator

    Column = NDArray[np.float64]


_SPARK_SHUFFLES: Final = frozenset(
    {
        "",
        "sort",
        "tungsten-sort",
        "hash",
        "org.apache.spark.shuffle.sort.SortShuffleManager",
        "org.apache.spark.shuffle.hash.HashShuffleManager",
    }
)
"""Values of ``spark.shuffle.manager`` that are Spark's, of all versions."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskColumns:
    """The T task attempts of a stage attempt that ended, in the order of their ends.

    Every array is ``(T,)`` and read-only.
    """

    index: NDArray[np.int64]
    """Place in the task set, 0-based; -1 where the log does not say."""

    attempt: NDArray[np.int64]
    """How often this index was tried before."""

    executor: NDArray[np.int64]
    """Index into ``ApplicationTrace.executor_names``."""

    host: NDArray[np.int64]
    """Index into ``ApplicationTrace.host_names``."""

    ok: NDArray[np.bool_]
    """Whether the attempt succeeded."""

    speculative: NDArray[np.bool_]
    """Whether it was a speculative copy."""

    launch_s: Column
    """When it was given its slot."""

    finish_s: Column
    """When it left its slot: before the fetching of a result too large to be sent along."""

    run_s: Column
    """Executor run time, once per task: divided by the task's cpus where Spark multiplied."""

    deserialize_s: Column
    """Unpacking the task and its function, before the run time."""

    serialize_s: Column
    """Packing the result, in the run time."""

    fetch_wait_s: Column
    """Time blocked on shuffle reads. Before Spark 4.1 without connecting and first requests."""

    cpu_s: Column
    """JVM CPU time; NaN before Spark 2.1. Python workers are not in it."""

    gc_s: Column
    """Garbage collection of the executor while the task ran."""

    shuffle_write_s: Column
    """Time spent writing map output."""

    remote_read_bytes: Column
    """Map output fetched from other executors."""

    local_read_bytes: Column
    """Map output read from its own executor or host."""

    read_blocks: Column
    """Blocks of map output that were read, from anywhere."""

    input_bytes: Column
    """Bytes of files and cached blocks."""

    shuffle_written_bytes: Column
    """Map output left behind."""

    output_bytes: Column
    """Bytes written to files."""

    spilled_bytes: Column
    """Bytes spilled to disk."""

    peak_memory_bytes: Column
    """Peak execution memory; NaN where this Spark does not report it."""

    @property
    def num_ends(self) -> int:
        """T."""
        return int(self.index.size)

    @property
    def elapsed_s(self) -> Column:
        """``(T,)`` time each attempt held its slot."""
        return self.finish_s - self.launch_s

    @property
    def read_bytes(self) -> Column:
        """``(T,)`` all bytes read: map output and input."""
        return self.remote_read_bytes + self.local_read_bytes + self.input_bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageTrace:
    """One stage attempt that ran, whole or in part."""

    stage_id: int
    """Spark's ``Stage ID``."""

    attempt: int
    """Spark's ``Stage Attempt ID``: 0, or how often the stage was submitted before."""

    name: str
    """Spark's stage name, a call site; empty where the log does not say."""

    scopes: tuple[str, ...]
    """Of every RDD, sorted by RDD id: the scope's name, or the RDD's own."""

    gpu_parts: tuple[str, ...]
    """Which parts of GPU stages it is, as dagopt named its RDDs: behind one may stand another."""

    plan: str
    """Number of the plan of its SQL query; empty where it belongs to none that the log holds."""

    rdd_ids: tuple[int, ...]
    """The RDDs it computes, sorted. The same in another stage id that would compute them again."""

    parent_stage_ids: tuple[int, ...]
    """Stages that ran and whose map output this one reads, joined on RDD ids."""

    num_tasks: int
    """Tasks of the task set; 0 where the log does not say."""

    submitted_s: float
    """When the attempt was submitted; NaN where the log does not say."""

    completed_s: float
    """When it ended; NaN while it runs or where the log does not say."""

    failure: str | None
    """Why it failed; None where it did not."""

    resource_profile_id: int
    """0 is the default profile."""

    task_cpus: float
    """Cores that one task takes, by its resource profile; 1 where the log does not say."""

    task_gpus: float
    """GPUs, or the part of one, that a task holds, by its resource profile; 0 where it holds none."""

    python_operators: tuple[PythonOperator, ...]
    """What is known of its Python operators, each above those before it."""

    is_barrier: bool
    """Whether its tasks start together or not at all."""

    num_unfinished: int
    """Task attempts whose start is in the log and whose end is not."""

    tasks: TaskColumns
    """What is known of each task attempt that ended."""

    @property
    def signature(self) -> str:
        """What this stage is called in every run of its program."""
        return stage_signature(self.name, self.scopes, self.plan)

    @property
    def has_python(self) -> bool:
        """Whether Python workers run in it, so that its CPU time says nothing."""
        return has_python(self.scopes)

    @property
    def works_outside_jvm(self) -> bool:
        """Whether Python workers or a GPU work in it."""
        return works_outside_jvm(self.scopes)

    @property
    def coverage(self) -> float:
        """Tasks whose successful end was seen over tasks, 0..1; 0 where ``num_tasks`` is unknown."""
        if self.num_tasks < 1:
            return 0.0
        seen = np.unique(self.tasks.index[self.tasks.ok]).size
        return min(1.0, seen / self.num_tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorTrace:
    """One executor, from the event that added it to the one that removed it."""

    executor: str
    """Spark's executor id."""

    host: str
    """Host name, as Spark writes it; empty where the log does not say."""

    cores: int
    """Cores that Spark was told it has; 0 where the log does not say."""

    gpus: int
    """GPUs that it has; 0 where it has none or the log does not say."""

    added_s: float
    """NaN where the log does not say."""

    removed_s: float
    """NaN where it stayed to the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTrace:
    """One job and the stages it was submitted with, skipped ones included."""

    job_id: int
    """Spark's ``Job ID``."""

    stage_ids: tuple[int, ...]
    """Sorted; a stage may belong to several jobs."""

    submitted_s: float
    """NaN where the log does not say."""

    completed_s: float
    """NaN while it runs or where the log does not say."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ApplicationTrace:
    """One application, as far as its log goes."""

    app_id: str
    """Spark's application id; empty where the log does not say."""

    name: str
    """The application's name; empty where the log does not say."""

    spark_version: str
    """As Spark or its vendor writes it; empty where the log does not say."""

    shuffle_manager: str
    """``spark.shuffle.manager``; empty where it is not set or the log does not say."""

    start_s: float
    """When it started, else the first event that has a time; NaN where none has."""

    end_s: float
    """When it ended, else the last event that has a time; NaN where none has."""

    is_complete: bool
    """Whether the end of the application is in the log."""

    executor_names: tuple[str, ...]
    """(E,) executor ids that tasks ran on, in the order of their first task end."""

    host_names: tuple[str, ...]
    """(H,) hosts that tasks ran on, in the order of their first task end."""

    executors: tuple[ExecutorTrace, ...]
    """In the order in which they were added."""

    jobs: tuple[JobTrace, ...]
    """Sorted by id."""

    stages: tuple[StageTrace, ...]
    """Stage attempts that ran, sorted by id and attempt."""

    num_impossible: int = 0
    """Task ends and stage attempts with times that cannot be, which were left out."""

    @property
    def has_own_shuffle(self) -> bool:
        """Whether another shuffle than Spark's ran, so that its service says what fetch wait is."""
        return self.shuffle_manager not in _SPARK_SHUFFLES

    @property
    def fetch_wait_includes_connecting(self) -> bool:
        """Whether fetch wait counts connecting and first requests: from Spark 4.1."""
        return spark_line(self.spark_version) >= (4, 1)


def spark_line(version: str) -> tuple[int, int]:
    """Major and minor number of a Spark version, such as ``3.0.1-amzn-0``; (0, 0) if it has none."""
    parts = version.split(".")
    try:
        return int(parts[0]), int(parts[1])
    except (IndexError, ValueError):
        return 0, 0
