"""``dagopt train``: hands training jobs to a running application, and looks at them."""

from __future__ import annotations

import tokenize
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from dagopt.cli.output import show_json, show_table
from dagopt.errors import InputError, last_line
from dagopt.train.spool import ask

_EPILOG = """
\b
example:
  dagopt train submit digits.py --spool ~/training
  dagopt train list --spool ~/training
  dagopt train logs digits --spool ~/training
"""


def _spool(function: Callable[..., None]) -> Callable[..., None]:
    """The options that all commands have."""
    wait = click.option(
        "--timeout",
        type=click.FloatRange(min=0),
        default=30.0,
        show_default=True,
        help="Seconds to wait for the application.",
    )
    spool = click.option(
        "--spool",
        required=True,
        envvar="DAGOPT_TRAIN_SPOOL",
        metavar="DIR",
        help="Folder that the application's Scheduler has as spool.",
    )
    return spool(wait(function))


@click.group(epilog=_EPILOG)
def train() -> None:
    """Hand training jobs to a running application, and look at them."""


@train.command(epilog=_EPILOG)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_spool
def submit(*, file: Path, spool: str, timeout: float) -> None:
    """Submit the jobs in FILE: Python with ``job = TrainJob(...)`` or ``SweepJob``, which the application runs."""
    try:
        with tokenize.open(file) as stream:  # in the encoding that it says it has
            source = stream.read()
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read: {error}") from error
    request = {"do": "submit", "file": str(file.resolve()), "source": source}
    for name in ask(spool, request, timeout):
        click.echo(f"submitted {name}")


@train.command("list", epilog=_EPILOG)
@_spool
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array, a job an object.")
def show(*, spool: str, timeout: float, as_json: bool) -> None:
    """List all jobs, in the order in which they came."""
    rows: list[dict[str, Any]] = ask(spool, {"do": "list"}, timeout)
    if as_json:
        show_json(rows)
        return
    table = Table(box=None)
    for column in ("job", "status", "iterations", "loss", "accelerators", "moves", "error"):
        table.add_column(column)
    for row in rows:
        loss = f"{row['losses'][-1]:.6g}" if row["losses"] else ""
        done = f"{row['iteration']}/{row['num_iterations']}"
        counts = (str(row["num_accelerators"]), str(row["num_moves"]))
        error = last_line(row["error"])
        table.add_row(row["name"], row["status"], done, loss, *counts, error)
    show_table(table)


@train.command(epilog=_EPILOG)
@click.argument("name")
@_spool
def cancel(*, name: str, spool: str, timeout: float) -> None:
    """End the job NAME now."""
    was_running = ask(spool, {"do": "cancel", "name": name}, timeout)
    click.echo(f"cancelled {name}" if was_running else f"{name} was over already")


@train.command(epilog=_EPILOG)
@click.argument("name")
@_spool
def logs(*, name: str, spool: str, timeout: float) -> None:
    """Print what the job NAME printed, and where it ran."""
    for line in ask(spool, {"do": "logs", "name": name}, timeout):
        click.echo(line)
