"""The cases of the overlap benchmark: what an application runs, on which kind of cluster.

A case is prepared once in an application (map outputs written, executors arranged) and then
runs the same measured job as often as asked.

Two physical cores cannot stand for more hosts, so a host's core is a lock by default: a task
that computes takes its host's lock for a quantum of 50 ms, again and again, as a core's time
slices go round. ``real-cpu`` burns real CPU time instead, each host pinned to one core. In
``mixed`` the first stage is real too: a sort that needs memory, on a real core.

Sizes are given as the seconds that a task's fetch and its computing take alone, so that
another link rate or another number of hosts keeps the shape of a case. Map outputs are not
compressed, as their rows carry nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import functions as F  # noqa: N812

from jobs.overlap import work

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, SparkSession

ROW_BYTES = 100_000
"""Size of one shuffled row."""

MAPS_PER_HOST = 4
"""Map tasks that write a shuffle, for each host that holds map outputs."""

TINY_STAGES = 200
"""Stages of the case ``tiny-stages``; each shuffles 16 rows."""

SORT_ROWS_PER_TASK = 1_500_000
"""Rows that a task of the memory-bound stage sorts: about 200 MB as Spark holds them. One such
task fits the execution memory of an executor of 1 GiB, which is 434 MiB; two do not."""

WAIT_S = 60.0
"""Longest wait for executors to come or to go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The cluster that an application runs on, as far as a case needs to know."""

    hosts: tuple[str, ...]
    """Addresses of the hosts whose executors run the measured tasks."""

    sources: tuple[str, ...]
    """Addresses of the hosts that hold the map outputs: other hosts, or the same."""

    link_bytes_per_s: float
    """Rate of every link, each direction."""

    scale: float
    """Factor on the seconds of fetch and computing of a task; 1 is the full size."""

    core_dir: str
    """Folder of the lock files that stand for the hosts' cores."""


class Job(Protocol):
    """The measured job of a prepared case."""

    def __call__(self) -> float:
        """Run it once; the core seconds that its tasks took, as they counted them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One line of the benchmark's table."""

    name: str
    prepare: Callable[[SparkSession, Setting], Job]
    modes: tuple[str, ...] = ("stock-1x", "stock-2x", "stock-4x", "dagopt")
    """Modes that are compared."""

    separate_sources: bool = False
    """Whether map outputs lie on hosts without executors."""

    span: bool = False
    """Whether the time between stages counts too."""

    spark_conf: tuple[tuple[str, str], ...] = ()
    """Spark properties that the case needs, in every mode."""


def balanced_job(
    spark: SparkSession, setting: Setting, *, tasks: int, fetch_s: float, core_s: float, real: bool
) -> Job:
    """A shuffle between all hosts; every task fetches, then computes."""
    num_hosts = len(setting.hosts)
    remote_fraction = (num_hosts - 1) / num_hosts
    task_bytes = fetch_s * setting.scale * setting.link_bytes_per_s / remote_fraction
    num_maps = MAPS_PER_HOST * num_hosts
    rows_each = max(1, round(task_bytes / ROW_BYTES / num_maps))
    rows = spark.range(0, num_maps * tasks * rows_each, 1, num_maps)
    part = F.pmod(F.col("id"), F.lit(tasks)).cast("int")
    function = work.burn_cpu if real else work.hold_core
    data = _shuffle(rows, part, tasks)
    return _collector(_read(data, function(setting.core_dir, core_s * setting.scale)))


def many_waves(spark: SparkSession, setting: Setting) -> Job:
    """16 tasks for 2 hosts, of 0.75 s fetch and 0.8 s computing."""
    tasks = 8 * len(setting.hosts)
    return balanced_job(spark, setting, tasks=tasks, fetch_s=0.75, core_s=0.8, real=False)


def one_wave(spark: SparkSession, setting: Setting) -> Job:
    """8 tasks for 2 hosts, of 1.5 s fetch and 1.6 s computing: as many as slots at 4x."""
    tasks = 4 * len(setting.hosts)
    return balanced_job(spark, setting, tasks=tasks, fetch_s=1.5, core_s=1.6, real=False)


def real_cpu(spark: SparkSession, setting: Setting) -> Job:
    """As ``many_waves``, with real CPU time instead of the lock."""
    tasks = 8 * len(setting.hosts)
    return balanced_job(spark, setting, tasks=tasks, fetch_s=0.75, core_s=0.8, real=True)


def two_sources(spark: SparkSession, setting: Setting) -> Job:
    """Half of the tasks read from one host without executors, half from another.

    At first every host has an executor and gets one map task, which writes rows only if it runs
    on a source. Then the sources' executors are released for good: their map outputs stay, and
    the workers' external shuffle services serve them.
    """
    sources = setting.sources
    tasks = 32 * len(setting.hosts)
    half = tasks // len(sources)
    task_bytes = 0.3 * setting.scale * setting.link_bytes_per_s
    rows_each = max(1, round(task_bytes / ROW_BYTES))
    num_hosts = len({*setting.hosts, *sources})
    await_executors(spark, num_hosts)
    rows = spark.range(0, num_hosts, 1, num_hosts).mapInArrow(
        work.rows_of_source(sources, half, rows_each), "part int"
    )
    data = _shuffle(rows, F.col("part"), tasks)
    result = _read(data, work.hold_core(setting.core_dir, 0.1 * setting.scale))
    release_executors(spark, sources)
    check_sources(spark, result, sources)
    return _collector(result)


def mixed(spark: SparkSession, setting: Setting) -> Job:
    """A stage bound by CPU and memory, then the stage of ``many_waves``."""
    tasks = 4 * len(setting.hosts)
    num_rows = round(SORT_ROWS_PER_TASK * tasks)
    text = F.sha2(F.col("id").cast("string"), 256)
    data = spark.range(0, num_rows, 1, tasks).select(F.xxhash64("id").alias("key"), text.alias("text"))
    sort = data.sortWithinPartitions("key")._jdf.queryExecution().toRdd()
    read = many_waves(spark, setting)

    def job() -> float:
        if sort.count() != num_rows:
            raise AssertionError("the sort lost rows")
        return read()

    return job


def compute_only(spark: SparkSession, setting: Setting) -> Job:
    """Tasks that read nothing and compute for 0.8 s."""
    tasks = 8 * len(setting.hosts)
    rows = spark.range(0, tasks, 1, tasks).select(F.lit(1).alias("bytes"))
    function = work.hold_core(setting.core_dir, 0.8 * setting.scale)
    return _collector(rows.mapInArrow(function, work.RESULT))


def tiny_stages(spark: SparkSession, setting: Setting) -> Job:
    """200 stages of two tasks a host, one after another, each reading a few rows of another.

    Jobs of four stages: one of 200 overflows Spark's stack.
    """
    tasks = 2 * len(setting.hosts)

    def job() -> float:
        for _ in range(TINY_STAGES // 4):
            chain = spark.range(0, 16, 1, tasks)._jdf.queryExecution().toRdd().toJavaRDD()
            for _ in range(3):
                chain = chain.repartition(tasks)
            if chain.count() != 16:
                raise AssertionError("the chain lost rows")
        return 0.0

    return job


CASES: dict[str, Case] = {
    case.name: case
    for case in (
        Case(name="balanced-many-waves", prepare=many_waves),
        Case(name="balanced-one-wave", prepare=one_wave, modes=("stock-1x", "stock-4x", "dagopt")),
        Case(name="two-sources", prepare=two_sources, separate_sources=True),
        Case(name="mixed", prepare=mixed),
        Case(name="compute-only", prepare=compute_only, modes=("stock-1x", "dagopt")),
        Case(name="tiny-stages", prepare=tiny_stages, modes=("stock-1x", "dagopt"), span=True),
        Case(name="real-cpu", prepare=real_cpu),
    )
}


# Executors and map outputs


def await_executors(spark: SparkSession, number: int) -> None:
    """Wait until the application has exactly this many executors."""
    tracker = spark.sparkContext._jsc.sc().statusTracker()
    deadline_s = time.monotonic() + WAIT_S
    while len(tracker.getExecutorInfos()) - 1 != number:  # the driver is one of them
        if time.monotonic() > deadline_s:
            found = len(tracker.getExecutorInfos()) - 1
            raise RuntimeError(f"{found} executors after {WAIT_S:.0f} s, expected {number}")
        time.sleep(0.05)


def release_executors(spark: SparkSession, addresses: tuple[str, ...]) -> None:
    """Give back the executors on these hosts, and do not ask for others."""
    context = spark.sparkContext._jsc.sc()
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    infos = context.statusStore().executorList(True)
    ids = [
        info.id()
        for info in (infos.apply(index) for index in range(infos.size()))
        if info.hostPort().split(":")[0] in addresses and info.id() != "driver"
    ]
    left = len(context.statusTracker().getExecutorInfos()) - 1 - len(ids)
    context.killExecutors(jvm.PythonUtils.toSeq(ids))
    await_executors(spark, left)


def check_sources(spark: SparkSession, result: DataFrame, sources: tuple[str, ...]) -> None:
    """Fail unless Spark's map output tracker places each task's input on its source alone."""
    rdd = result._jdf.queryExecution().toRdd()
    num_tasks = rdd.getNumPartitions()
    for task in range(num_tasks):
        places = spark.sparkContext._jsc.sc().getPreferredLocs(rdd, task)
        held = [places.apply(index).host() for index in range(places.size())]
        if held != [sources[task * len(sources) // num_tasks]]:
            raise RuntimeError(f"the input of task {task} lies on {held}, expected one source")


# Data


def _shuffle(rows: DataFrame, part: Column, tasks: int) -> DataFrame:
    """Rows of ROW_BYTES, moved so that partition ``part`` of ``tasks`` gets its own."""
    # Made from a column: the optimizer would compute a constant's length, and shuffle nothing.
    payload = F.lpad(F.col("part").cast("string"), ROW_BYTES, "x").alias("payload")
    parts = rows.select(part.alias("part"))
    moved = parts.select("part", payload).repartitionById(tasks, "part")
    return moved.select(F.length("payload").alias("bytes"))


def _read(data: DataFrame, function: work.Function) -> DataFrame:
    """What the tasks make of a shuffle; its map outputs are written here, once."""
    result = data.mapInArrow(function, work.RESULT)
    # One task of the reading stage, so that every map task has run.
    result._jdf.queryExecution().toRdd().toJavaRDD().take(1)
    return result


def _collector(result: DataFrame) -> Job:
    def job() -> float:
        # The same plan object again: Spark skips its map stages, whose outputs are there.
        return float(sum(row.core_s for row in result.collect()))

    return job
