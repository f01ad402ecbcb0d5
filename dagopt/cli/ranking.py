"""What ``dagopt advise`` prints of a folder of event logs."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from typing import TYPE_CHECKING, Literal

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from dagopt.cli.output import table_console
from dagopt.units import format_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dagopt.app.rank import RankedApplication, Ranking
    from dagopt.app.what_if import Cluster
    from dagopt.events.read import EventLog

_FILE_WIDTH = 200
"""Columns where the output is no terminal."""


def print_ranking(
    logs: Sequence[EventLog], cluster: Cluster, form: Literal["text", "json", "csv"]
) -> None:
    """Rank the logs, with a bar of progress on a terminal, and print the ranking."""
    from dagopt.app.rank import rank  # noqa: PLC0415  pyarrow takes long to import

    columns = (TextColumn("advising"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    is_hidden = not console.is_terminal
    with Progress(
        *columns,
        TextColumn("{task.description}"),
        console=console,
        transient=True,
        disable=is_hidden,
    ) as progress:
        bar = progress.add_task("", total=None)

        def show(num_done: int, num_logs: int, path: str) -> None:
            progress.update(bar, completed=num_done, total=num_logs, description=path)

        ranking = rank(logs, cluster, show)
    for failed in ranking.failed:
        click.echo(f"dagopt: {failed.reason}", err=True)
    rows = [dataclasses.asdict(each) for each in ranking.applications]
    if form == "json":
        files = [{"path": str(each.path), "reason": each.reason} for each in ranking.failed]
        text = json.dumps({"applications": rows, "failed": files}, indent=2, allow_nan=False)
        click.echo(text)
    elif form == "csv":
        out = io.StringIO()
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        click.echo(out.getvalue(), nl=False)
    else:
        _print(ranking)


# Private functions


def _print(ranking: Ranking) -> None:
    console = table_console(_FILE_WIDTH)
    gains = [each for each in ranking.applications if each.sure_s > 0]
    console.print(
        Text(f"{len(gains)} of {len(ranking.applications)} applications would surely gain", "bold")
    )
    table = Table(box=None, pad_edge=False)
    for heading in ("saves", "of", "share", "application", "log"):
        table.add_column(
            heading,
            justify="left" if heading in {"application", "log"} else "right",
            overflow="fold" if heading == "log" else "ellipsis",
            no_wrap=heading != "log",
        )
    for each in ranking.applications:
        table.add_row(*(Text(cell) for cell in _cells(each)))
    console.print(table)


def _cells(each: RankedApplication) -> tuple[str, ...]:
    name = " ".join((each.name or each.app_id or "").split())
    if each.saved_s is None or each.bound_s is None or not each.recorded_s:
        return "unknown", "", "", name, each.path
    share = f"{each.saved_s / each.recorded_s:.0%}" if each.sure_s > 0 else ""
    saves = f"{format_s(each.saved_s)} ± {format_s(each.bound_s)}"
    return saves, format_s(each.recorded_s), share, name, each.path
