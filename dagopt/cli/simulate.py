"""``dagopt simulate``: training jobs on a cluster of accelerators, under several schedulers."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from dagopt.cli.output import check_new, table_console, written
from dagopt.errors import InputError

if TYPE_CHECKING:
    from dagopt.sim.cluster.outcome import Outcome

_FILE_WIDTH = 120

_EPILOG = """
\b
examples:
  dagopt simulate workloads/workload-6.csv --cluster cluster.yaml
  dagopt simulate jobs.csv --cluster cluster.yaml --measurements apps --policies dagopt,sia --html out.html
  dagopt simulate jobs.csv --cluster cluster.yaml --fail host3@7200+600
"""


@click.command(epilog=_EPILOG)
@click.argument("workload", type=click.Path(path_type=Path))
@click.option(
    "--cluster",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The topology, as for dagopt topology.",
)
@click.option(
    "--measurements",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of measured applications; default: the folder above the workload's.",
)
@click.option(
    "--policies",
    default="dagopt,tiresias,sia",
    show_default=True,
    metavar="A,B,...",
    help="dagopt, dagopt-throughput (an early end of all jobs together), dagopt-apart (without "
    "regrouping), fifo, shortest, tiresias, optimus, pollux, sia.",
)
@click.option(
    "--restart",
    "restart_s",
    type=float,
    default=30.0,
    show_default=True,
    metavar="S",
    help="Seconds that a start or a move costs a job.",
)
@click.option(
    "--interval",
    "interval_s",
    type=float,
    default=60.0,
    show_default=True,
    metavar="S",
    help="Seconds between plans.",
)
@click.option(
    "--fail",
    "failures",
    multiple=True,
    metavar="HOST@AT+FOR",
    help="A host stops AT seconds after the start, for FOR seconds; repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.option(
    "--html",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a page with the accelerators' timelines.",
)
@click.option("--force", is_flag=True, help="Overwrite a file that is there.")
def simulate(
    *,
    workload: Path,
    cluster: Path,
    measurements: Path | None,
    policies: str,
    restart_s: float,
    interval_s: float,
    failures: tuple[str, ...],
    as_json: bool,
    html: Path | None,
    force: bool,
) -> None:  # fmt: skip
    """Run the training jobs of WORKLOAD under schedulers, and compare them.

    WORKLOAD is a CSV file with the columns name, time, application, num_replicas and batch_size.
    """
    # scipy and pandas take long to import, and the other commands do without.
    from dagopt.app.simulate import simulate_workload  # noqa: PLC0415
    from dagopt.app.topology import read_topology  # noqa: PLC0415

    check_new(html, force=force)
    topology = read_topology(cluster)
    names = [name.strip() for name in policies.split(",") if name.strip()]
    if not names:
        raise InputError("--policies: expected at least one name")
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total} jobs"),
               TimeElapsedColumn())  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, int] = {}

        def tell(policy: str, done: int, total: int, now_s: float) -> None:
            if policy not in tasks:
                tasks[policy] = bars.add_task(policy, total=total)
            text = f"{policy} at {now_s / 3600:.1f} h"
            bars.update(tasks[policy], completed=done, description=text)  # type: ignore[arg-type]

        found = simulate_workload(
            workload,
            measurements=measurements,
            topology=topology,
            policies=names,
            restart_s=restart_s,
            interval_s=interval_s,
            failures=[_failure(each) for each in failures],
            timer=time.perf_counter,
            progress=tell,
        )
    outcomes = [each.outcome for each in found.results]
    if as_json:
        click.echo(json.dumps([asdict(each) for each in outcomes], indent=2))
    else:
        _print(outcomes)
    if html is not None:
        from dagopt.cli.simulation_page import simulation_page  # noqa: PLC0415
        from dagopt.reporting.page import render  # noqa: PLC0415

        page = render(simulation_page(found, topology, workload=str(workload)))
        with written(html) as file:
            file.write(page)


# Private functions


def _print(outcomes: list[Outcome]) -> None:
    from dagopt.cli.simulation_page import HEADINGS, cells  # noqa: PLC0415

    table = Table(box=None, pad_edge=False)
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading == "policy" else "right", no_wrap=True)
    for outcome in outcomes:
        table.add_row(*cells(outcome))
    table_console(_FILE_WIDTH).print(table)


def _failure(text: str) -> tuple[str, float, float]:
    host, _, when = text.rpartition("@")
    at_s, _, for_s = when.partition("+")
    try:
        found = (host, float(at_s), float(for_s))
    except ValueError as error:
        raise InputError(f"--fail {text}: expected HOST@AT+FOR, in seconds") from error
    if not host or found[1] < 0 or found[2] <= 0:
        raise InputError(f"--fail {text}: expected HOST@AT+FOR, in seconds")
    return found
