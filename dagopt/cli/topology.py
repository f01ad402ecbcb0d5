"""``dagopt topology``: hosts, accelerators, and what the links between them carry."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from dagopt.cli.output import table_console
from dagopt.errors import InputError

_EPILOG = """
\b
examples:
  nvidia-smi topo -m > node7.txt && dagopt topology node7.txt
  dagopt topology cluster.yaml --matrix distance
"""

_UNITS = {"bandwidth": "GB/s", "latency": "us", "distance": "hops"}
_MOST = 32
"""Accelerators of which matrices are printed."""
_FILE_WIDTH = 200


@click.command(epilog=_EPILOG)
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--matrix",
    type=click.Choice([*_UNITS, "all", "none"]),
    default="bandwidth",
    show_default=True,
    help="What to print between each two accelerators.",
)
@click.option("--host", "hosts", multiple=True, metavar="NAME", help="Only this host; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as a JSON object.")
def topology(*, path: Path, matrix: str, hosts: tuple[str, ...], as_json: bool) -> None:
    """Print and draw a topology.

    FILE is a YAML file (README, "Training jobs on shared accelerators"), or the output of
    nvidia-smi topo -m on one host.
    """
    from dagopt.app.topology import read_topology  # noqa: PLC0415
    from dagopt.reporting.topology import draw_topology, matrix_rows  # noqa: PLC0415

    found = read_topology(path)
    names = [host.name for host in found.hosts]
    for host in hosts:
        if host not in names:
            raise InputError(f"--host {host}: no such host; there are {', '.join(names[:20])}")
    members = [each for each in found.accelerators if not hosts or each.host in hosts]
    if as_json:
        click.echo(
            json.dumps(
                {
                    "accelerators": [str(each) for each in members],
                    # JSON knows no infinity: to itself an accelerator has no link.
                    "bandwidth_bytes_per_s": [
                        [None if at == row else value for at, value in enumerate(line)]
                        for row, line in enumerate(found.bandwidth_bytes_per_s(members).tolist())
                    ],
                    "latency_s": found.latency_s(members).tolist(),
                    "distance": found.distance(members).tolist(),
                }
            )
        )
        return
    console = table_console(_FILE_WIDTH)
    for line in draw_topology(found):
        console.print(Text(line), soft_wrap=True)
    if len(members) > _MOST and matrix != "none":
        console.print(
            f"{len(members)} accelerators: a matrix of some with --host, of all with --json."
        )
        return
    for name, unit in _UNITS.items():
        if matrix in {name, "all"}:
            table = Table(box=None, pad_edge=False, title=f"{name} ({unit})", title_justify="left")
            table.add_column("")
            for member in members:
                table.add_column(str(member), justify="right")
            for row in matrix_rows(found, members, name):
                table.add_row(*row)
            console.print(table)
