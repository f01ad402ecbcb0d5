"""The cases of the overlap benchmark: what an application runs, on which kind of cluster.

A case is prepared once in an application (map outputs written, executors arranged) and then
runs the same measured job as often as asked.

Two physical cores cannot stand for more hosts, so a host's core is a lock by default: a task
that computes takes its host's lock for a quantum of 50 ms, again and again, as a core's time
slices go round. ``real-cpu`` burns real CPU time instead, each host pinned to one core. In
``mixed`` the first stage is real too: a sort that needs memory, on a real core.

Sizes are given as the seconds that a task's fetch and its computing take alone, so that
another link rate or another number of hosts keeps the shape of a case. Tasks are short, so they
fetch 2 to 10 MB where a real task fetches 100 to 200 MB, several times Spark's window of 48 MB
(``spark.reducer.maxSizeInFlight``). The window is scaled down too, to a part of a task's fetch:
with 48 MB every task would request all it needs at once, the shuffle's one connection per pair
of executors would serve the tasks one after another, and they would stagger by themselves, as
real tasks do not. Map outputs are not compressed, as their rows carry nothing.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import functions as F

from jobs.overlap import work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

ROW_BYTES = 100_000
"""Size of one shuffled row."""

MAPS_PER_HOST = 4
"""Map tasks that write a shuffle, on each host that holds map outputs."""

MOST_SLOTS = 4
"""Slots that a host has at most."""

TINY_STAGES = 200
"""Stages of the case ``tiny-stages``; each shuffles 16 rows."""

SORT_ROWS_PER_TASK = 2_000_000
"""Rows of 13 numbers that a task of the memory-bound stage sorts: about 290 MB as Spark holds
them. One such task fits the execution memory of an executor of 1 GiB, which is 434 MiB; two
do not, and must spill."""

SORTS_PER_HOST = 3
"""Tasks of the memory-bound stage for each host."""

WAIT_S = 300.0
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
    prepare: Callable[[SparkSession, Setting, Case], Job]
    tasks_per_host: int = 8
    """Tasks of the reading stage (or of the only one) for each host with executors."""

    fetch_s: float = 0.0
    """Seconds that a task's remote bytes take on a link alone, at scale 1."""

    core_s: float = 0.0
    """Seconds that a task computes, alone on a core, at scale 1."""

    is_real_cpu: bool = False
    """Whether computing takes real CPU time instead of the lock."""

    modes: tuple[str, ...] = ("stock-1x", "stock-2x", "stock-4x", "dagopt")
    """Modes that are compared."""

    separate_sources: bool = False
    """Whether map outputs lie on hosts without executors."""

    span: bool = False
    """Whether the time between stages counts too."""

    def modes_of(self, modes: Sequence[str]) -> list[str]:
        """Those of ``modes`` that are compared, in their order."""
        return [mode for mode in modes if mode in self.modes]

    def fetch_bytes(self, scale: float, link_bytes_per_s: float) -> float:
        """Bytes that a task fetches from other hosts."""
        return self.fetch_s * scale * link_bytes_per_s


def prepare_balanced(spark: SparkSession, setting: Setting, case: Case) -> Job:
    """A shuffle between all hosts; every task fetches, then computes."""
    num_hosts = len(setting.hosts)
    tasks = case.tasks_per_host * num_hosts
    fetch_bytes = case.fetch_bytes(setting.scale, setting.link_bytes_per_s)
    parts_of = dict.fromkeys(setting.hosts, range(tasks))
    data = _shuffle(spark, setting, parts_of, tasks, fetch_bytes / (num_hosts - 1))
    return _collector(_read(data, _computing(setting, case)))


def prepare_two_sources(spark: SparkSession, setting: Setting, case: Case) -> Job:
    """The first half of the tasks reads from one host without executors, the rest from another.

    At first every host has executors, and map tasks write rows on the sources alone. Then the
    sources' executors are released for good: their map outputs stay, and the workers' external
    shuffle services serve them.
    """
    sources = setting.sources
    tasks = case.tasks_per_host * len(setting.hosts)
    half = tasks // len(sources)
    parts_of = {
        source: range(number * half, (number + 1) * half) for number, source in enumerate(sources)
    }
    fetch_bytes = case.fetch_bytes(setting.scale, setting.link_bytes_per_s)
    data = _shuffle(spark, setting, parts_of, tasks, fetch_bytes)
    result = _read(data, _computing(setting, case))
    release_executors(spark, sources)
    check_sources(spark, result, sources)
    return _collector(result)


def prepare_mixed(spark: SparkSession, setting: Setting, case: Case) -> Job:
    """A stage bound by CPU and memory, then one that fetches and computes."""
    tasks = SORTS_PER_HOST * len(setting.hosts)
    num_rows = round(SORT_ROWS_PER_TASK * tasks)
    rows = spark.range(0, num_rows, 1, tasks)
    values = [(F.col("id") * number).alias(f"value_{number}") for number in range(1, 13)]
    keyed = rows.select(F.xxhash64("id").alias("key"), *values)
    sort = keyed.sortWithinPartitions("key")._jdf.queryExecution().toRdd()
    read = prepare_balanced(spark, setting, case)

    def job() -> float:
        if sort.count() != num_rows:
            raise AssertionError("the sort lost rows")
        return read()

    return job


def prepare_compute_only(spark: SparkSession, setting: Setting, case: Case) -> Job:
    """Tasks that read nothing and compute."""
    tasks = case.tasks_per_host * len(setting.hosts)
    rows = spark.range(0, tasks, 1, tasks).select(F.lit(1).alias("bytes"))
    return _collector(rows.mapInArrow(_computing(setting, case), work.RESULT))


def prepare_tiny_stages(spark: SparkSession, setting: Setting, case: Case) -> Job:
    """200 stages, one after another, each reading a few rows of the one before.

    In jobs of four stages: one job of 200 would overflow Spark's stack.
    """
    tasks = case.tasks_per_host * len(setting.hosts)

    def job() -> float:
        for _ in range(TINY_STAGES // 4):
            chain = spark.range(0, 16, 1, tasks)._jdf.queryExecution().toRdd().toJavaRDD()
            for _ in range(3):
                chain = chain.repartition(tasks)
            if chain.count() != 16:
                raise AssertionError("the chain lost rows")
        return 0.0

    return job


TWO_MODES = ("stock-1x", "dagopt")

CASES: dict[str, Case] = {
    case.name: case
    for case in (
        Case(name="balanced-many-waves", prepare=prepare_balanced, fetch_s=0.75, core_s=0.8),
        Case(
            name="balanced-one-wave",
            prepare=prepare_balanced,
            tasks_per_host=4,  # as many as slots at 4x
            fetch_s=1.5,
            core_s=1.6,
            modes=("stock-4x", "dagopt"),
        ),
        Case(
            name="two-sources",
            prepare=prepare_two_sources,
            tasks_per_host=12,
            fetch_s=0.5,
            core_s=0.15,
            separate_sources=True,
        ),
        Case(name="mixed", prepare=prepare_mixed, tasks_per_host=5, fetch_s=1.0, core_s=1.1),
        Case(
            name="compute-only",
            prepare=prepare_compute_only,
            tasks_per_host=4,
            core_s=1.6,
            modes=TWO_MODES,
        ),
        Case(
            name="tiny-stages",
            prepare=prepare_tiny_stages,
            tasks_per_host=2,
            modes=TWO_MODES,
            span=True,
        ),
        Case(
            name="real-cpu",
            prepare=prepare_balanced,
            tasks_per_host=5,
            fetch_s=1.5,
            core_s=1.6,
            is_real_cpu=True,
        ),
    )
}

DEFAULT_CASES = tuple(name for name in CASES if name != "real-cpu")
"""What fits two cores and ten minutes."""


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
    if jvm is None:
        raise RuntimeError("the session has no JVM")
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


# Data and work


def _computing(setting: Setting, case: Case) -> work.Function:
    function = work.burn_cpu if case.is_real_cpu else work.hold_core
    return function(setting.core_dir, case.core_s * setting.scale)


def _shuffle(
    spark: SparkSession, setting: Setting, parts_of: dict[str, range], tasks: int, bytes_each: float
) -> DataFrame:
    """A shuffle to ``tasks`` partitions.

    Each partition gets ``bytes_each`` from every host that has it in ``parts_of``.
    """
    rows_each = max(1, round(bytes_each / MAPS_PER_HOST / ROW_BYTES))
    claim_dir = tempfile.mkdtemp(prefix="claims-", dir=setting.core_dir)
    all_hosts = {*setting.hosts, *setting.sources}
    num_maps = MAPS_PER_HOST * len(parts_of) + MOST_SLOTS * len(all_hosts)
    function = work.map_rows(claim_dir, parts_of, MAPS_PER_HOST, rows_each)
    parts = spark.range(0, num_maps, 1, num_maps).mapInArrow(function, "part int")
    # Made from a column: the optimizer would compute a constant's length, and shuffle nothing.
    digit = F.right(F.col("part").cast("string"), F.lit(1))
    payload = F.repeat(digit, F.lit(ROW_BYTES)).alias("payload")
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
