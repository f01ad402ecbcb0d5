"""``dagopt conf``: the settings that switch dagopt on, for any launcher."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence

import click

from dagopt.cli.options import launch_options, parse_options
from dagopt.errors import UnsupportedError
from dagopt.spark.conf import check_driver_files
from dagopt.spark.home import find_spark
from dagopt.spark.launch import launch_conf
from dagopt.spark.properties import format_properties

_EPILOG = """
\b
examples:
  spark-submit $(dagopt conf) job.py
  dagopt conf --format properties --option mode=explain > explain.conf
  dagopt conf --spark-version 3.5 --master yarn --cores 4
"""


@click.command(epilog=_EPILOG)
@click.option("--spark-version", metavar="X.Y", help="Default: the Spark that is found here.")
@click.option("--master", metavar="URL", help="Spark's master, for what depends on it.")
@click.option(
    "--deploy-mode",
    type=click.Choice(["client", "cluster"]),
    default="client",
    show_default=True,
    help="Where the driver will run.",
)
@launch_options
@click.option(
    "--format",
    "layout",
    type=click.Choice(["args", "properties"]),
    default="args",
    show_default=True,
    help="Arguments for a shell, or a file for --properties-file.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
def conf(
    *,
    spark_version: str | None,
    master: str | None,
    deploy_mode: str,
    cores: int | None,
    options: Sequence[str],
    layout: str,
    as_json: bool,
) -> None:
    """Print the settings that switch dagopt on.

    With --deploy-mode client, the files that they name must be on this machine.

    They stand alone: where the application sets spark.plugins or spark.jars itself, join the two
    values with a comma, or use dagopt submit, which does it.
    """
    version = spark_version or find_spark(os.environ).version()
    launch = launch_conf(
        version,
        cores=cores,
        master=master,
        deploy_mode=deploy_mode,
        options=parse_options(options),
    )
    if not launch.conf:
        raise UnsupportedError(" ".join(launch.notes))
    if deploy_mode == "client":
        check_driver_files(launch.conf)
    for note in launch.notes:
        click.echo(f"dagopt: {note}", err=True)
    if as_json:
        click.echo(json.dumps(dict(launch.conf), indent=2, sort_keys=True))
    elif layout == "properties":
        click.echo(format_properties(launch.conf), nl=False)
    else:
        click.echo(_shell_arguments(launch.conf))


def _shell_arguments(settings: Mapping[str, str]) -> str:
    return " ".join(f"--conf {shlex.quote(f'{key}={settings[key]}')}" for key in settings)
