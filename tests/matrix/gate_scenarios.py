"""Runs a shuffle under many kinds of planner, good and bad, in one JVM, and writes down what happened.

    python gate_scenarios.py RESULT.json DIRECTORY [SCENARIO ...]

Each scenario is a SparkContext of its own, in ``local[4]`` or a local cluster, with ``scripted_planner.py`` as the
planner. It asserts nothing: the tests that read the result do. DAGOPT_JAR in the environment names the jar, which
must be on the driver's class path as well.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PLANNER = Path(__file__).parent / "scripted_planner.py"
TASKS = 8
TASK_S = 0.1


def keyed(numbers: Iterator[int]) -> Iterator[tuple[int, str]]:
    for number in numbers:
        yield number % TASKS, f"{number:0100d}"


def count_slowly(records: Iterator[tuple[int, str]]) -> Iterator[tuple[int, int]]:
    keys = [key for key, _ in records]
    time.sleep(TASK_S)
    yield from sorted((key, keys.count(key)) for key in set(keys))


def shuffle_job(sc: Any) -> Any:
    rows = sc.parallelize(range(800), 4).mapPartitions(keyed)
    return sorted(rows.partitionBy(TASKS, lambda key: key).mapPartitions(count_slowly).collect())


def three_jobs(sc: Any) -> Any:
    return [shuffle_job(sc) for _ in range(3)][-1]


def five_jobs(sc: Any) -> Any:
    return [shuffle_job(sc) for _ in range(5)][-1]


def cancelled_then_again(sc: Any) -> Any:
    """A job that is cancelled while its tasks are held, then one that runs."""

    trace = Path(sc.getConf().get("scenario.trace"))

    def cancel() -> None:
        while '"task_set"' not in trace.read_text():
            time.sleep(0.1)
        time.sleep(0.3)
        sc.cancelAllJobs()

    threading.Thread(target=cancel).start()
    try:
        shuffle_job(sc)
    except Exception as e:  # noqa: BLE001 - py4j's own error; only its text matters
        cancelled = "cancelled" in str(e)
    else:
        cancelled = False
    return [cancelled, sc.parallelize(range(10), 2).count()]


def failing_once(sc: Any) -> Any:
    """Every task of the reading stage fails at its first attempt."""

    def once(records: Iterator[tuple[int, str]]) -> Iterator[tuple[int, int]]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0:
            raise ValueError("first attempt")
        return count_slowly(records)

    rows = sc.parallelize(range(800), 4).mapPartitions(keyed)
    return sorted(rows.partitionBy(TASKS, lambda key: key).mapPartitions(once).collect())


def barrier(sc: Any) -> Any:
    rows = sc.parallelize(range(800), 4).mapPartitions(keyed)
    return sorted(
        rows.partitionBy(4, lambda key: key).barrier().mapPartitions(count_slowly).collect()
    )


def two_pools(sc: Any) -> Any:
    """Two jobs at once, each in its pool."""
    results: list[Any] = []

    def job(pool: str) -> None:
        sc.setLocalProperty("spark.scheduler.pool", pool)
        results.append(shuffle_job(sc))

    threads = [threading.Thread(target=job, args=(pool,)) for pool in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results[0] if results[0] == results[1] else results


def losing_an_executor(sc: Any) -> Any:
    """The first task of the reading stage kills its executor, while others are held or pinned to it."""
    flag = Path(sc.getConf().get("scenario.directory") + ".killed")

    def kill_once(records: Iterator[tuple[int, str]]) -> Iterator[tuple[int, int]]:
        import os
        import signal

        # The worker's parent is pyspark's daemon, and the daemon's parent the executor.
        if not flag.exists():
            flag.touch()
            daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
            os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)
        return count_slowly(records)

    deadline = time.monotonic() + 60
    while sc._jsc.sc().getExecutorMemoryStatus().size() < 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    rows = sc.parallelize(range(800), 4).mapPartitions(keyed)
    return sorted(rows.partitionBy(TASKS, lambda key: key).mapPartitions(kill_once).collect())


def streaming(sc: Any) -> Any:
    from pyspark.sql import SparkSession

    spark = SparkSession(sc)
    frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "100").load()
    query = (
        frame.groupBy((frame.value % 7).alias("k")).count().writeStream.format("memory")
        .queryName("counts").outputMode("complete").trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination(60)
    query.stop()
    return spark.table("counts").count()


def sql(sc: Any) -> Any:
    """Files, a cached table, skewed and coalesced shuffles, a union and a join."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    spark = SparkSession(sc)
    where = sc.getConf().get("scenario.directory")
    spark.range(0, 2000, 1, 3).withColumn("k", F.col("id") % 50).write.mode("overwrite").parquet(
        where
    )
    table = spark.read.parquet(where)
    cached = table.cache()
    cached.count()
    left = cached.groupBy("k").count()
    both = left.join(table.withColumn("x", F.lit(1)), "k").union(
        left.select("k", "count", "k", F.lit(2))
    )
    rows = both.groupBy("k").agg(F.sum("count"), F.max("x")).orderBy("k").collect()
    text = sc.textFile(where, 3).count() >= 0
    return [text, [list(row) for row in rows]]


def nonsense(kind: str, **fields: Any) -> str:
    """The policy that answers a task set with this message, about the set unless ``stage`` is given."""
    message = {"v": 2, "type": kind, "stage": "STAGE", "attempt": 0, **fields}
    return "nonsense answer=" + json.dumps(message, separators=(",", ":")).replace(
        '"STAGE"', "STAGE"
    )


Scenario = tuple[str, Callable[[Any], Any], dict[str, str]]
LONG = {"spark.dagopt.planner.timeout": "5s"}
CLUSTER = {
    "spark.master": "local-cluster[2,1,640]",
    "spark.executor.memory": "512m",
    "spark.executor.extraClassPath": os.environ.get("DAGOPT_JAR", ""),
}

SCENARIOS: dict[str, Scenario] = {
    "off": ("", shuffle_job, {}),
    "pass": ("pass", shuffle_job, {}),
    "reverse": ("reverse", shuffle_job, {}),
    "group": ("group size=2 delay_ms=400", shuffle_job, LONG),
    "capped": ("group size=4 delay_ms=60000", shuffle_job, {"spark.dagopt.maxDelay": "1s", **LONG}),
    "raise_local": ("pass raise=4", shuffle_job, {}),
    "pin": ("group size=2 delay_ms=100 pin=1", shuffle_job, LONG),
    "stuck": ("stuck size=2", shuffle_job, {}),
    "silent": ("silent", five_jobs, {}),
    "mute": ("mute", shuffle_job, {}),
    "deaf": ("deaf", five_jobs, {}),
    "slow": ("slow late_ms=1500", shuffle_job, {}),
    "mode_off": ("", shuffle_job, {"spark.dagopt.mode": "off"}),
    "die": ("die", shuffle_job, {}),
    "shout": ("shout", shuffle_job, {}),
    "die_held": ("die_held size=2", shuffle_job, LONG),
    "explain": ("reverse", shuffle_job, {"spark.dagopt.mode": "explain"}),
    "small": ("reverse", shuffle_job, {"spark.dagopt.minInputBytes": "16m"}),
    "cancel": ("slow late_ms=20000", cancelled_then_again, {"spark.dagopt.planner.timeout": "10s"}),
    "fail_once": (
        "group size=2 delay_ms=200",
        failing_once,
        {"spark.master": "local[4,3]", **LONG},
    ),
    "executor_loss": ("group size=2 delay_ms=800 pin=1", losing_an_executor, {**CLUSTER, **LONG}),
    "dynamic": (
        "group size=2 delay_ms=200 raise=4",
        shuffle_job,
        {
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.initialExecutors": "1",
            "spark.dynamicAllocation.maxExecutors": "2",
            **CLUSTER,
            **LONG,
        },
    ),
    "barrier": ("reverse", barrier, {}),
    "fair": ("group size=2 delay_ms=200", two_pools, {"spark.scheduler.mode": "FAIR", **LONG}),
    "few": (f"group size=2 from={TASKS + 1}", shuffle_job, LONG),
    "enough": (f"group size=2 from={TASKS}", shuffle_job, LONG),
    "streaming": ("reverse", streaming, {"spark.sql.shuffle.partitions": "3"}),
    "sql": (
        "group size=1 delay_ms=20",
        sql,
        {"spark.sql.autoBroadcastJoinThreshold": "-1", **LONG},
    ),
    "speculation": (
        "group size=2 delay_ms=300",
        shuffle_job,
        {"spark.speculation": "true", **LONG},
    ),
    "missing": (
        "",
        shuffle_job,
        {"spark.dagopt.planner.command": "/nowhere/python3 -m dagopt.planner"},
    ),
    "bad_conf": ("pass", shuffle_job, {"spark.dagopt.slotsPerCore": "17"}),
    "bad_json": ("nonsense answer=so_long", shuffle_job, LONG),
    "bad_version": ('nonsense answer={"v":3,"type":"ready"}', shuffle_job, LONG),
    "bad_type": ('nonsense answer={"v":2,"type":"shrug"}', shuffle_job, LONG),
    "bad_stage": (nonsense("release", stage=999, reason=""), shuffle_job, LONG),
    "bad_task": (nonsense("launch", group=0, tasks=[0, 8], delay_ms=0), shuffle_job, LONG),
    "bad_executor": (
        nonsense("launch", group=0, tasks=[0], executor="17", delay_ms=0),
        shuffle_job,
        LONG,
    ),
    "bad_order": (
        nonsense("plan", action="order", tasks_per_core=1, order=[0, 0, 1, 2, 3, 4, 5, 6]),
        shuffle_job,
        LONG,
    ),
}


def run(name: str, directory: Path) -> dict[str, Any]:
    from pyspark import SparkConf, SparkContext

    policy, job, conf = SCENARIOS[name]
    trace = directory / f"{name}.trace"
    settings = SparkConf().setMaster("local[4]").setAppName(name)
    settings.set("spark.ui.enabled", "false").set("spark.driver.host", "127.0.0.1")
    settings.set("spark.ui.showConsoleProgress", "false")
    settings.set("scenario.directory", str(directory / "parquet")).set("scenario.trace", str(trace))
    if name != "off":
        settings.set("spark.plugins", "org.apache.spark.scheduler.dagopt.DagoptPlugin")
        settings.set("spark.dagopt.minInputBytes", "0")
        settings.set("spark.dagopt.planner.command", f"{sys.executable} {PLANNER} {trace} {policy}")
    for key, value in conf.items():
        settings.set(key, value)
    sc = SparkContext(conf=settings)
    try:
        level = "INFO" if name == "shout" else "ERROR" if job is failing_once else "WARN"
        sc.setLogLevel(level)
        # The planner is a Python process too: on a busy machine it is not there at once.
        deadline = time.monotonic() + 30
        while policy and not trace.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5 if policy else 0)
        started_s = time.monotonic()
        rows = job(sc)
        wall_s = time.monotonic() - started_s
        time.sleep(0.3)  # the last events reach the planner
        assert sc._jvm is not None
        report = json.loads(sc._jvm.org.apache.spark.scheduler.dagopt.Dagopt.reportJson())
    finally:
        sc.stop()
    lines = trace.read_text().splitlines() if trace.exists() else []
    return {
        "rows": rows,
        "wall_s": wall_s,
        "report": report,
        "trace": [json.loads(line) for line in lines],
    }


def main(result: Path, directory: Path, names: list[str]) -> None:
    found = {}
    for name in names or list(SCENARIOS):
        try:
            found[name] = run(name, directory)
        except Exception as e:  # noqa: BLE001 - one scenario that breaks must not hide the others
            found[name] = {"error": f"{type(e).__name__}: {e}"}
        result.write_text(json.dumps(found))
        print(f"{name}: {found[name].get('wall_s', found[name].get('error'))}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
