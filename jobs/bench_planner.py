"""How long the planner takes to plan a task set, and the gate on Spark's scheduling thread.

Each planning case runs in a process of its own: the message that the JVM would send is decoded, the
controller plans, its answers are encoded. ``plan_s`` is that time, the median of the repetitions;
``peak_rss_bytes`` is what the process had in memory at most. The gate's case runs a real Spark
application with a shuffle of ``num_tasks`` tasks and reads the gate's own counter.

    python -m jobs.bench_planner            writes build/bench/planner.json
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import msgspec
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from dagopt.controller.application import ApplicationController
from dagopt.controller.boundary import BoundaryController
from dagopt.controller.grouping import GroupingController
from dagopt.model.wire import (
    ExecutorAdded,
    OuterInputs,
    ShuffleType,
    SparseInputs,
    TaskEnded,
    TaskSetEnded,
    TaskSetSubmitted,
    TaskStarted,
)
from dagopt.planner.process import answer, calm_gc, decode
from dagopt.planner.settings import controller_settings

REPETITIONS = 5
REPLICAS = 3

CASES: dict[str, tuple[ShuffleType, int, int]] = {
    "shuffle, 10 tasks": ("wide", 10, 2),
    "shuffle, 10,000 tasks": ("wide", 10_000, 100),
    "shuffle, 100,000 tasks": ("wide", 100_000, 1_000),
    "file splits, 100,000 tasks": ("source", 100_000, 1_000),
}
LIMITS: dict[int, tuple[float | None, float | None]] = {
    10: (0.002, None),
    100_000: (0.25, 500e6),
}
"""By number of tasks: seconds and bytes that must not be exceeded."""

GATE_TASKS = 10_000
GATE_LIMIT_S = 0.001


def task_set(kind: ShuffleType, num_tasks: int, num_hosts: int, stage: int) -> bytes:
    """The message of a task set of ``num_tasks`` tasks that read from ``num_hosts`` hosts."""
    rng = np.random.default_rng(stage)
    inputs: SparseInputs | OuterInputs
    if kind == "source":
        hosts = rng.integers(0, num_hosts, size=(num_tasks, REPLICAS))
        inputs = SparseInputs(
            offsets=list(range(0, REPLICAS * num_tasks + 1, REPLICAS)),
            hosts=hosts.ravel().tolist(),
            # Each replica counts for its part of the block.
            bytes=rng.integers(20_000_000, 45_000_000, size=num_tasks).repeat(REPLICAS).tolist(),
        )
    elif num_tasks * num_hosts <= 200_000:
        inputs = SparseInputs(
            offsets=list(range(0, num_tasks * num_hosts + 1, num_hosts)),
            hosts=list(range(num_hosts)) * num_tasks,
            bytes=rng.integers(1_000_000, 90_000_000, size=num_tasks * num_hosts).tolist(),
        )
    else:
        inputs = OuterInputs(
            task_bytes=rng.integers(50_000_000, 400_000_000, size=num_tasks).tolist(),
            host_bytes=rng.integers(10**9, 10**11, size=num_hosts).tolist(),
        )
    return msgspec.json.encode(
        TaskSetSubmitted(
            time_ms=0,
            stage=stage,
            attempt=0,
            num_tasks=num_tasks,
            name="count at bench.py:1",
            scopes=["Exchange" if kind == "wide" else "Scan parquet", "Sort"],
            hosts=[host_name(host) for host in range(num_hosts)],
            inputs=inputs,
            shuffle_types=[kind],
            can_raise=True,
        )
    )


def host_name(host: int) -> str:
    """Hosts stand 40 to a rack."""
    return f"10.{host // 40 // 256}.{host // 40 % 256}.{host % 40 + 1}"


def controller_with(num_hosts: int) -> GroupingController:
    """A controller that knows an executor on each host, and the stage from an earlier run."""
    controller = GroupingController(controller_settings({}))
    cores = 1.0 if num_hosts < 10 else 8.0
    for host in range(num_hosts):
        event = ExecutorAdded(time_ms=0, executor=str(host), host=host_name(host), cores=cores)
        controller.step(event, 1.0)
    for kind in ("wide", "source"):
        learn(controller, kind)
    return controller


def learn(controller: GroupingController, kind: ShuffleType) -> None:
    """One earlier run of the stage, whose tasks waited half of their time."""
    controller.step(decode(task_set(kind, 2, 2, stage=1)), 2.0)
    for task in range(2):
        event = TaskStarted(time_ms=2000, stage=1, attempt=0, task=task, executor="0")
        controller.step(event, 2.0)
    for task in range(2):
        ended = TaskEnded(
            time_ms=6000,
            stage=1,
            attempt=0,
            task=task,
            executor="0",
            ok=True,
            launch_ms=2000,
            finish_ms=6000,
            fetch_wait_ms=2000,
            cpu_ms=2000,
            read_bytes=100_000_000,
        )
        controller.step(ended, 6.0)
    controller.step(TaskSetEnded(time_ms=6000, stage=1, attempt=0, ok=True), 6.0)


def plan_case(kind: ShuffleType, num_tasks: int, num_hosts: int) -> dict[str, Any]:
    """Measure one case in this process."""
    calm_gc()  # as the planner process does
    controller = controller_with(num_hosts)
    application = ApplicationController(grouping=controller, boundary=BoundaryController())
    seconds = []
    num_answers = 0
    for repetition in range(REPETITIONS + 1):
        line = task_set(kind, num_tasks, num_hosts, stage=10 + repetition)
        begin_s = time.perf_counter()
        answers = answer(application, decode(line), 10.0)
        encoded = b"".join(msgspec.json.encode(one) for one in answers)
        seconds.append(time.perf_counter() - begin_s)
        num_answers = len(answers)
        if b'"action":"pass"' in encoded:
            raise AssertionError(f"the case is passed over, not planned: {encoded[:300]!r}")
        ended = TaskSetEnded(time_ms=0, stage=10 + repetition, attempt=0, ok=False)
        controller.step(ended, 10.0)
    # The first one is cold: imports and caches of numpy.
    return {
        "plan_s": statistics.median(seconds[1:]),
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "num_answers": num_answers,
    }


def in_own_process(*args: str) -> dict[str, Any]:
    """This module's ``--one`` in a new process."""
    command = [sys.executable, "-m", "jobs.bench_planner", *args]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    out: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return out


def gate_case(num_tasks: int) -> float:
    """Seconds of the gate on Spark's scheduling thread, the worst of several stages."""
    from jobs.gate_time import gate_seconds

    return gate_seconds(num_tasks)


@click.command(help=__doc__)
@click.option("--output", type=click.Path(path_type=Path), default=Path("build/bench/planner.json"))
@click.option("--one", "one", help="measure one case in this process and print it as JSON")
@click.option("--gate/--no-gate", default=True, help="run the case that starts Spark")
def main(output: Path, one: str | None, *, gate: bool) -> None:
    """Measure all cases."""
    if one is not None:
        print(json.dumps(plan_case(*CASES[one])))
        return
    rows: list[dict[str, Any]] = []
    console = Console(stderr=True)
    for name in track(list(CASES), description="planning", console=console):
        _, num_tasks, num_hosts = CASES[name]
        measured = in_own_process("--one", name)
        rows.append(
            {
                "case": name,
                "num_tasks": num_tasks,
                "num_hosts": num_hosts,
                "plan_s": measured["plan_s"],
                "gate_s": None,
                "peak_rss_bytes": measured["peak_rss_bytes"],
            }
        )
    if gate:
        rows.append(
            {
                "case": f"gate, {GATE_TASKS:,} tasks",
                "num_tasks": GATE_TASKS,
                "num_hosts": 1,
                "plan_s": None,
                "gate_s": gate_case(GATE_TASKS),
                "peak_rss_bytes": None,
            }
        )
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    Console().print(table(rows))
    Console().print(f"Wrote {output}")


def table(rows: list[dict[str, Any]]) -> Table:
    """The rows, each against its limit."""
    out = Table("case", "plan ms", "gate ms", "peak MB", "must", "met")
    for row in rows:
        limit_s, limit_bytes = LIMITS.get(row["num_tasks"], (None, None))
        if row["gate_s"] is not None:
            limit_s, limit_bytes = GATE_LIMIT_S, None
        taken_s = row["gate_s"] if row["gate_s"] is not None else row["plan_s"]
        met = (limit_s is None or taken_s <= limit_s) and (
            limit_bytes is None or row["peak_rss_bytes"] <= limit_bytes
        )
        musts = [] if limit_s is None else [f"<= {limit_s * 1000:g} ms"]
        musts += [] if limit_bytes is None else [f"<= {limit_bytes / 1e6:g} MB"]
        must = " and ".join(musts)
        out.add_row(
            row["case"],
            "" if row["plan_s"] is None else f"{row['plan_s'] * 1000:.2f}",
            "" if row["gate_s"] is None else f"{row['gate_s'] * 1000:.3f}",
            "" if row["peak_rss_bytes"] is None else f"{row['peak_rss_bytes'] / 1e6:.0f}",
            must,
            "yes" if met else "no" if must else "",
        )
    return out


if __name__ == "__main__":
    main()
