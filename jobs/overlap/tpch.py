"""The case ``tpch``: all 22 queries by ``jobs/tpch.py``, stock Spark with one slot a core and dagopt.

Each run is an application of its own, started by spark-submit with a properties file, as a user
would start it: compressed shuffles, adaptive execution, Spark's own fetch window. The tables are
read from the local disk of the machine; what crosses the emulated links is shuffles, broadcasts
and results. Every run's rows are compared with those of the first stock run.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from jobs.emulated_cluster import EmulatedCluster, HostSpec, hand_on_priority
from jobs.overlap.modes import DAGOPT, REPOSITORY, spark_properties

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobs.overlap.runner import Plan

TPCH = "tpch"
STOCK = "stock-1x"
MODES = (STOCK, DAGOPT)

QUERY_RATIO = 1.1
"""dagopt's time of a query over stock's, at most."""

TOTAL_RATIO = 1.0
"""The same of all queries together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTime:
    """Medians of one query over repetitions."""

    query: int
    stock_s: float
    dagopt_s: float

    @property
    def ratio(self) -> float:
        """Time of dagopt over time of stock."""
        return self.dagopt_s / self.stock_s


def tpch_steps(plan: Plan) -> int:
    """How often ``run_tpch`` tells of a step."""
    return 1 + len(MODES) * plan.repetitions


def run_tpch(
    plan: Plan, scale: float, step: Callable[[str], None], failures: list[str]
) -> list[QueryTime]:
    """Times of every query in both modes; writes tpch.json.

    Args:
        plan: hosts, links and repetitions.
        scale: TPC-H scale factor.
        step: told each time something begins.
        failures: gets a line for each run that failed or whose rows differ.
    """
    out_dir = plan.out_dir / TPCH
    out_dir.mkdir(parents=True, exist_ok=True)
    times: dict[str, list[dict[int, float]]] = {mode: [] for mode in MODES}
    num_cores = os.cpu_count() or 1
    hosts = [
        HostSpec(name=f"h{number}", physical_core=(number - 1) % num_cores)
        for number in range(1, plan.num_hosts + 1)
    ]
    step("tpch: cluster")
    with (
        tempfile.TemporaryDirectory(prefix="cluster-", dir=plan.out_dir) as cluster_dir,
        EmulatedCluster(
            hosts,
            link_mbit=plan.link_mbit,
            work_dir=Path(cluster_dir),
            python=sys.executable,
            subnet=plan.subnet,
        ) as cluster,
    ):
        for repetition in range(1, plan.repetitions + 1):
            # Stock is first in the first repetition, as its rows are what others must equal.
            for mode in MODES if repetition % 2 else MODES[::-1]:
                step(f"tpch: {mode}, repetition {repetition}")
                name = f"{mode}-{repetition}"
                problem = _run_once(plan, cluster, mode, scale, out_dir, name)
                if problem:
                    failures.append(f"tpch, {name}: {problem}")
                else:
                    text = (out_dir / f"{name}.json").read_text(encoding="utf-8")
                    queries = json.loads(text)["queries"]
                    times[mode].append({row["query"]: row["elapsed_s"] for row in queries})
    found = _medians(times)
    rows = [{**asdict(row), "ratio": round(row.ratio, 3)} for row in found]
    text = json.dumps(rows, indent=1)
    (plan.out_dir / "tpch.json").write_text(f"{text}\n", encoding="utf-8")
    return found


def tpch_table(queries: Sequence[QueryTime]) -> Table:
    """Times and ratios, with those that are too large marked."""
    table = Table(title="TPC-H, median seconds", title_justify="left")
    table.add_column("query")
    for name in ("stock-1x", "dagopt", "ratio", "required", ""):
        table.add_column(name, justify="right")
    lines = [(f"Q{row.query}", row.stock_s, row.dagopt_s, QUERY_RATIO) for row in queries]
    if queries:
        stock_s, dagopt_s = (
            sum(row.stock_s for row in queries),
            sum(row.dagopt_s for row in queries),
        )
        lines.append(("all", stock_s, dagopt_s, TOTAL_RATIO))
    for name, stock_s, dagopt_s, required in lines:
        ratio = dagopt_s / stock_s
        word = "[green]met[/]" if ratio <= required else "[red]not met[/]"
        table.add_row(
            name, f"{stock_s:.2f}", f"{dagopt_s:.2f}", f"{ratio:.2f}", f"<= {required:.2f}", word
        )
    return table


def _run_once(
    plan: Plan, cluster: EmulatedCluster, mode: str, scale: float, out_dir: Path, name: str
) -> str:
    """Run all queries once; what went wrong, or nothing."""
    event_logs = plan.out_dir / "eventlogs" / f"tpch-{name}"
    event_logs.mkdir(parents=True, exist_ok=True)
    properties = spark_properties(
        mode,
        cluster,
        num_executors=plan.num_hosts,
        shuffle_service=False,
        event_log_dir=event_logs,
    )
    properties |= {
        "spark.executor.memory": "2g",
        "spark.driver.memory": "2g",
        "spark.shuffle.compress": "true",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.shuffle.partitions": str(16 * plan.num_hosts),
        "spark.sql.warehouse.dir": (cluster.work_dir / "warehouse").as_uri(),
    }
    if mode == DAGOPT:
        properties["spark.dagopt.decisionLog"] = str(out_dir / f"decisions-{name}.jsonl")
    file = cluster.work_dir / f"{name}.properties"
    file.write_text("".join(f"{key} {value}\n" for key, value in properties.items()), "utf-8")
    baseline = out_dir / "rows-stock-1x-1"
    command = [
        *(str(cluster.spark_home / "bin" / "spark-submit"), "--properties-file", str(file)),
        *(str(REPOSITORY / "jobs" / "tpch.py"), "--scale", f"{scale:g}"),
        *("--data", str(REPOSITORY / "build" / "data" / "tpch" / f"sf{scale:g}")),
        *("--results", str(out_dir / f"rows-{name}"), "--json", str(out_dir / f"{name}.json")),
    ]
    if name != "stock-1x-1":
        command += ["--baseline", str(baseline)]
    environment: dict[str, Any] = cluster.environment() | {"PYSPARK_DRIVER_PYTHON": sys.executable}
    with (out_dir / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=cluster.work_dir,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        hand_on_priority(process.pid)
        try:
            code = process.wait()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if code == 0:
        return ""
    lines = (out_dir / f"{name}.log").read_text(encoding="utf-8", errors="replace").splitlines()
    said = [line for line in lines if line.startswith("tpch: ")] or lines[-1:] or ["nothing"]
    return f"exit code {code}: {said[-1]}"


def _medians(times: dict[str, list[dict[int, float]]]) -> list[QueryTime]:
    if not all(times.values()):
        return []
    numbers = sorted(set.intersection(*(set(run) for runs in times.values() for run in runs)))
    return [
        QueryTime(
            query=number,
            stock_s=statistics.median(run[number] for run in times[STOCK]),
            dagopt_s=statistics.median(run[number] for run in times[DAGOPT]),
        )
        for number in numbers
    ]
