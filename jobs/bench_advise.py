"""How fast event logs are read and advised on, and how much memory that takes.

Each case runs in a process of its own, on the same made-up log: one stage of 100,000 tasks that wait for
shuffle blocks and compute, 150 MB as JSON, compressed with zstd. ``elapsed_s`` is CPU time of one core, the
median of the repetitions for reading; ``peak_rss_bytes`` is what the process had in memory at most.

    python -m jobs.bench_advise            writes build/bench/advise.json
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from dagopt.app.advise import advise
from dagopt.events.read import find_event_logs, read_trace

NUM_TASKS = 100_000
NUM_HOSTS = 100
CORES = 8
REPETITIONS = 3

MIN_BYTES_PER_S = 60e6
MAX_RSS_BYTES = 400e6

_METRICS = (
    "shuffle.read.localBlocksFetched", "shuffle.read.remoteBlocksFetched", "resultSize",
    "executorCpuTime", "executorRunTime", "peakExecutionMemory", "shuffle.write.bytesWritten",
)  # fmt: skip


def log_lines() -> Iterator[bytes]:
    """The log's lines; tasks start in waves, each on the slot that is free first."""
    rng = np.random.default_rng(1)
    wait_ms = rng.integers(100, 600, NUM_TASKS).tolist()
    cpu_ms = rng.integers(200, 1500, NUM_TASKS).tolist()
    start_ms = 1_700_000_000_000
    yield _line("LogStart", **{"Spark Version": "4.3.0"})
    yield _line("ApplicationStart", **{"App Name": "bench", "App ID": "a", "Timestamp": start_ms})
    for host in range(NUM_HOSTS):
        info = {"Host": f"host-{host}", "Total Cores": CORES, "Log Urls": {}}
        yield _line(
            "ExecutorAdded",
            **{"Timestamp": start_ms, "Executor ID": str(host), "Executor Info": info},
        )
    stage = {
        "Stage ID": 0,
        "Stage Attempt ID": 0,
        "Stage Name": "count at bench.py:1",
        "Number of Tasks": NUM_TASKS,
        "RDD Info": [
            {"RDD ID": 1, "Name": "ShuffledRowRDD", "Scope": '{"id":"1","name":"Exchange"}'}
        ],
        "Submission Time": start_ms,
    }
    yield _line("StageSubmitted", **{"Stage Info": stage, "Properties": {}})
    free_ms = [start_ms] * (NUM_HOSTS * CORES)
    for task in range(NUM_TASKS):
        slot = task % len(free_ms)
        launch_ms = free_ms[slot]
        free_ms[slot] = launch_ms + wait_ms[task] + cpu_ms[task]
        info = {
            "Task ID": task,
            "Index": task,
            "Attempt": 0,
            "Launch Time": launch_ms,
            "Executor ID": str(slot % NUM_HOSTS),
            "Host": f"host-{slot % NUM_HOSTS}",
            "Locality": "ANY",
            "Speculative": False,
            "Getting Result Time": 0,
            "Finish Time": 0,
            "Accumulables": [],
        }
        yield _line("TaskStart", **{"Stage ID": 0, "Stage Attempt ID": 0, "Task Info": info})
        yield _task_end(info, free_ms[slot], wait_ms[task], cpu_ms[task])
    stage["Completion Time"] = max(free_ms)
    yield _line("StageCompleted", **{"Stage Info": stage})
    yield _line("ApplicationEnd", Timestamp=max(free_ms))


def _task_end(info: dict[str, Any], finish_ms: int, wait_ms: int, cpu_ms: int) -> bytes:
    metrics = {
        "Executor Deserialize Time": 5,
        "Executor Run Time": wait_ms + cpu_ms - 5,
        "Executor CPU Time": cpu_ms * 900_000,
        "Peak Execution Memory": 67_108_864,
        "JVM GC Time": 10,
        "Result Serialization Time": 1,
        "Disk Bytes Spilled": 0,
        "Shuffle Read Metrics": {
            "Fetch Wait Time": wait_ms,
            "Remote Bytes Read": 10_000 * wait_ms,
            "Local Bytes Read": 100 * wait_ms,
        },
        "Shuffle Write Metrics": {"Shuffle Bytes Written": 50_000, "Shuffle Write Time": 900_000},
        "Input Metrics": {"Bytes Read": 0, "Records Read": 0},
        "Output Metrics": {"Bytes Written": 0, "Records Written": 0},
    }
    sums = [
        {
            "ID": number,
            "Name": f"internal.metrics.{name}",
            "Update": 1,
            "Value": 1,
            "Internal": True,
        }
        for number, name in enumerate(_METRICS)
    ]
    ended = {**info, "Finish Time": finish_ms, "Accumulables": sums}
    return _line(
        "TaskEnd",
        **{
            "Stage ID": 0,
            "Stage Attempt ID": 0,
            "Task Type": "ResultTask",
            "Task End Reason": {"Reason": "Success"},
            "Task Info": ended,
            "Task Metrics": metrics,
        },
    )


def _line(event: str, **fields: Any) -> bytes:
    text = json.dumps({"Event": f"SparkListener{event}", **fields}, separators=(",", ":"))
    return text.encode() + b"\n"


def write_log(path: Path) -> int:
    """Write the log, and return its bytes before compression."""
    size = 0
    with pa.CompressedOutputStream(pa.OSFile(str(path), "wb"), "zstd") as out:
        for line in log_lines():
            size += len(line)
            out.write(line)
    return size


def measure(case: str, log: Path) -> dict[str, Any]:
    """Measure one case in this process."""
    seconds = []
    for _ in range(REPETITIONS if case == "read" else 1):
        begin_s = time.process_time()
        if case == "read":
            trace, _ = read_trace(find_event_logs(log)[0])
            is_whole = trace.stages[0].tasks.num_ends == NUM_TASKS
        else:
            is_whole = advise(log).gain is not None
        if not is_whole:
            raise AssertionError(f"{case}: part of the log was not used")
        seconds.append(time.process_time() - begin_s)
    return {
        "elapsed_s": statistics.median(seconds),
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


@click.command(help=__doc__)
@click.option("--output", type=click.Path(path_type=Path), default=Path("build/bench/advise.json"))
@click.option("--one", nargs=2, help="measure this case on this log and print it as JSON")
def main(output: Path, one: tuple[str, str] | None) -> None:
    """Measure all cases."""
    if one is not None:
        print(json.dumps(measure(one[0], Path(one[1]))))
        return
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="dagopt-bench-") as folder:
        log = Path(folder) / "log.zstd"
        size = write_log(log)
        for case in ("read", "advise"):
            command = [sys.executable, "-m", "jobs.bench_advise", "--one", case, str(log)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            measured = json.loads(done.stdout.splitlines()[-1])
            rows.append({"case": case, "uncompressed_bytes": size, **measured})
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    Console().print(table(rows))
    Console().print(f"Wrote {output}")


def table(rows: list[dict[str, Any]]) -> Table:
    """The rows, each against its limit."""
    out = Table("case", "MB", "s", "MB/s", "peak MB", "must", "met")
    for row in rows:
        rate = row["uncompressed_bytes"] / row["elapsed_s"]
        is_read = row["case"] == "read"
        is_met = row["peak_rss_bytes"] <= MAX_RSS_BYTES and (not is_read or rate >= MIN_BYTES_PER_S)
        must = f"<= {MAX_RSS_BYTES / 1e6:g} MB"
        out.add_row(
            row["case"],
            f"{row['uncompressed_bytes'] / 1e6:.0f}",
            f"{row['elapsed_s']:.2f}",
            f"{rate / 1e6:.0f}",
            f"{row['peak_rss_bytes'] / 1e6:.0f}",
            f">= {MIN_BYTES_PER_S / 1e6:g} MB/s and {must}" if is_read else must,
            "yes" if is_met else "no",
        )
    return out


if __name__ == "__main__":
    main()
