"""``dagopt learn``: the costs of stages that ran before, for spark.dagopt.profile."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

if TYPE_CHECKING:
    from dagopt.app.learn import LearnSummary

_EPILOG = """
\b
example:
  dagopt learn /var/log/spark-events -o profile.parquet
  dagopt submit --option profile=profile.parquet job.py
"""


@click.command(epilog=_EPILOG)
@click.argument("source", metavar="EVENTLOG_DIR", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="Where to write the profile, such as profile.parquet.",
)
@click.option("--force", is_flag=True, help="Overwrite the file if it is there.")
@click.option("--json", "as_json", is_flag=True, help="Print what was read as a JSON object.")
def learn(*, source: Path, output: Path, force: bool, as_json: bool) -> None:
    """Learn the costs of stages from the event logs of applications that ran.

    EVENTLOG_DIR is a folder as spark.eventLog.dir makes it, or one log in it.
    """
    # pyarrow takes long to import, and the other commands do without.
    from dagopt.app.learn import learn as learn_profile  # noqa: PLC0415

    columns = (
        TextColumn("reading"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
    )
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        bar = progress.add_task("", total=None)

        def show(num_done: int, num_logs: int, path: str) -> None:
            progress.update(bar, completed=num_done, total=num_logs, description=path)

        summary = learn_profile(source, output, force=force, progress=show)
    for failed in summary.failed:
        click.echo(f"dagopt: {failed.reason}", err=True)
    for problem in summary.problems:
        click.echo(f"dagopt: {problem}", err=True)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(summary), indent=2, sort_keys=True, default=str))
    else:
        click.echo(_told(summary))
    click.echo(f"Wrote {summary.output}", err=True)


def _told(summary: LearnSummary) -> str:
    text = (
        f"{summary.num_profiles} stages learned from {summary.num_stages} stage attempts "
        f"in {summary.num_logs_read} of {summary.num_logs} event logs"
    )
    if summary.num_unknown_stages:
        text += f"; {summary.num_unknown_stages} attempts had too little task data"
    if summary.num_broken_lines:
        text += f"; {summary.num_broken_lines} broken lines were passed over"
    return text
