"""The case ``tpch``: the 22 queries of ``jobs/tpch.py``, stock Spark with one slot a core and dagopt.

A second stock application is the control: what it differs from the first by is not dagopt's doing.
All applications live side by side and only one works at a time: every query runs once unmeasured in
each, then in turn, so that a drift of the machine and how warm a JVM is hit all alike. Else as
a user would run it: compressed shuffles, adaptive execution, Spark's own fetch window. The tables
are read from the local disk of the machine; what crosses the emulated links is shuffles, broadcasts
and results. The rows of every run are compared with those of stock Spark's first.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from jobs.emulated_cluster import EmulatedCluster, HostSpec
from jobs.overlap.modes import DAGOPT, in_turn, spark_properties
from jobs.overlap.runner import start_driver
from jobs.tpch import DATA_ROOT, QUERIES, compare_results, ensure_data

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobs.overlap.runner import Application, Plan

TPCH = "tpch"
STOCK = "stock-1x"
CONTROL = "stock-again"
MODES = (STOCK, DAGOPT, CONTROL)

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
    control_s: float

    @property
    def ratio(self) -> float:
        """Time of dagopt over time of stock."""
        return self.dagopt_s / self.stock_s

    @property
    def control_ratio(self) -> float:
        """Time of stock again over time of stock: 1 but for noise."""
        return self.control_s / self.stock_s


def tpch_steps(plan: Plan) -> int:
    """How often ``run_tpch`` tells of a step."""
    return 1 + len(QUERIES) * (1 + plan.repetitions)


def run_tpch(
    plan: Plan, scale: float, step: Callable[[str], None], failures: list[str]
) -> list[QueryTime]:
    """Times of every query in all modes; writes tpch.json.

    Args:
        plan: hosts, links and repetitions.
        scale: TPC-H scale factor.
        step: told each time something begins.
        failures: gets a line for each query that failed or whose rows differ.
    """
    data = DATA_ROOT / f"sf{scale:g}"
    step("tpch: tables and cluster")
    ensure_data(data, scale)
    num_cores = os.cpu_count() or 1
    hosts = [
        HostSpec(name=f"h{number}", memory_mb=8192, physical_core=(number - 1) % num_cores)
        for number in range(1, plan.num_hosts + 1)
    ]
    with (
        tempfile.TemporaryDirectory(prefix="cluster-", dir=plan.out_dir) as cluster_dir,
        EmulatedCluster(
            hosts,
            link_mbit=plan.link_mbit,
            work_dir=Path(cluster_dir),
            python=sys.executable,
            subnet=plan.subnet,
        ) as cluster,
        ExitStack() as stack,
    ):
        applications = {}
        for mode in MODES:
            applications[mode] = _start(plan, cluster, mode, scale, data)
            stack.callback(applications[mode].kill)
        for application in applications.values():
            application.ask()
        rows_dir = cluster.work_dir / "rows"
        times = [
            _time_query(query, plan.repetitions, applications, rows_dir, step) for query in QUERIES
        ]
        for application in applications.values():
            application.stop()
        first = rows_dir / f"{STOCK}-0"
        for other in sorted(rows_dir.iterdir()):
            failures += [f"tpch, {other.name}: {text}" for text in compare_results(first, other)]
    rows = [
        {
            **asdict(row),
            "ratio": round(row.ratio, 3),
            "control_ratio": round(row.control_ratio, 3),
        }
        for row in times
    ]
    text = json.dumps(rows, indent=1)
    (plan.out_dir / "tpch.json").write_text(f"{text}\n", encoding="utf-8")
    return times


def _time_query(
    query: int,
    repetitions: int,
    applications: dict[str, Application],
    rows_dir: Path,
    step: Callable[[str], None],
) -> QueryTime:
    """Run a query in turn in all applications, once unmeasured."""
    times: dict[str, list[float]] = {mode: [] for mode in MODES}
    for repetition in range(repetitions + 1):
        step(f"tpch: Q{query}, " + (f"repetition {repetition}" if repetition else "warm-up"))
        for mode in in_turn(MODES, query + repetition):
            results = rows_dir / f"{mode}-{repetition}"
            answer = applications[mode].ask({"query": query, "results": str(results)})
            if repetition:
                times[mode].append(answer["elapsed_s"])
    return QueryTime(
        query=query,
        stock_s=statistics.median(times[STOCK]),
        dagopt_s=statistics.median(times[DAGOPT]),
        control_s=statistics.median(times[CONTROL]),
    )


def tpch_table(queries: Sequence[QueryTime]) -> Table:
    """Times and ratios, with those that are too large marked."""
    table = Table(title="TPC-H, median seconds", title_justify="left")
    table.add_column("query")
    for name in ("stock-1x", "dagopt", "ratio", "required", "", "control"):
        table.add_column(name, justify="right")
    lines = [(f"Q{row.query}", row, QUERY_RATIO) for row in queries]
    if queries:
        lines.append(("all", _total(queries), TOTAL_RATIO))
    for name, row, required in lines:
        word = "[green]met[/]" if row.ratio <= required else "[red]not met[/]"
        table.add_row(
            name,
            f"{row.stock_s:.2f}",
            f"{row.dagopt_s:.2f}",
            f"{row.ratio:.2f}",
            f"<= {required:.2f}",
            word,
            f"{row.control_ratio:.2f}",
        )
    return table


def _total(queries: Sequence[QueryTime]) -> QueryTime:
    return QueryTime(
        query=0,
        stock_s=sum(row.stock_s for row in queries),
        dagopt_s=sum(row.dagopt_s for row in queries),
        control_s=sum(row.control_s for row in queries),
    )


def _start(
    plan: Plan, cluster: EmulatedCluster, mode: str, scale: float, data: Path
) -> Application:
    """Start the driver process of one mode."""
    event_logs = plan.out_dir / "eventlogs" / f"tpch-{mode}"
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
        decisions = plan.out_dir / "decisions-tpch.jsonl"
        decisions.unlink(missing_ok=True)
        properties["spark.dagopt.decisionLog"] = str(decisions)
    request = {"mode": mode, "conf": properties, "scale": scale, "data": str(data)}
    log = plan.out_dir / f"driver-tpch-{mode}.log"
    return start_driver("jobs.overlap.tpch_app", mode, request, cluster, log, event_logs)
