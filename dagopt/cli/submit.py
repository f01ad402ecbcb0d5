"""``dagopt submit``: spark-submit with dagopt switched on."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

import click

from dagopt.cli.options import launch_options, parse_options
from dagopt.errors import InputError
from dagopt.spark.home import find_spark
from dagopt.spark.submit import parse_submit, plan_submission, run_instead

_EPILOG = """
\b
examples:
  dagopt submit job.py 2026-01-01
  dagopt submit --option mode=explain --master yarn --num-executors 8 job.py
  dagopt submit --cores 4 --properties-file spark_conf/standalone.conf job.py
"""

#: All that stands behind dagopt's own options goes to spark-submit as it is.
_CONTEXT = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@click.command(
    context_settings=_CONTEXT,
    epilog=_EPILOG,
    options_metavar="[DAGOPT OPTIONS]",
)
@launch_options
@click.option("--dry-run", is_flag=True, help="Print the command instead of running it.")
@click.argument(
    "arguments",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="SPARK-SUBMIT-ARGUMENTS...",
    required=True,
)
def submit(
    *, cores: int | None, options: Sequence[str], dry_run: bool, arguments: Sequence[str]
) -> None:
    """Run spark-submit with dagopt switched on.

    dagopt's own options come first; all that follows is spark-submit's, unchanged. Its exit code is
    the exit code.
    """
    for name, _ in parse_submit(arguments).options:
        if name in {"--cores", "--option", "--dry-run"}:
            raise InputError(f"{name}: options of dagopt come before those of spark-submit")
    submission = plan_submission(
        arguments,
        spark=find_spark(os.environ),
        environment=os.environ,
        options=parse_options(options),
        cores=cores,
    )
    for note in submission.notes:
        click.echo(f"dagopt: {note}", err=True)
    if dry_run:
        click.echo(shlex.join(submission.command))
        return
    run_instead(submission.command, os.environ)
