"""The command ``dagopt``: its subcommands, and the one place where errors become exit codes."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Sequence

import click

from dagopt import __version__
from dagopt.cli.advise import advise
from dagopt.cli.conf import conf
from dagopt.cli.learn import learn
from dagopt.cli.simulate import simulate
from dagopt.cli.submit import submit
from dagopt.cli.topology import topology
from dagopt.cli.train import train
from dagopt.cli.tune import tune
from dagopt.errors import DagoptError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dagopt", message="%(prog)s %(version)s")
def commands() -> None:
    """Spark applications that mix I/O and CPU work finish sooner, with the same results."""


for command in (advise, conf, learn, simulate, submit, topology, train, tune):
    commands.add_command(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code says how it went.

    Returns:
        0 when it did what was asked, 2 when the input is wrong, else the error's own code.
    """
    logging.basicConfig(level=logging.INFO, format="dagopt: %(message)s", stream=sys.stderr)
    if isinstance(sys.stdout, io.TextIOWrapper):  # what jobs print may be no text of any encoding
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        result = commands.main(arguments, prog_name="dagopt", standalone_mode=False)
    except DagoptError as error:
        return _complain(str(error), error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.ClickException as error:
        return _complain(error.format_message(), 2)
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        # Whoever read our output has read enough. Python would complain again at exit.
        sys.stdout = None
        return 0
    return result if isinstance(result, int) else 0


def _complain(message: str, exit_code: int) -> int:
    """One line on stderr, whatever is in the message."""
    sys.stderr.write(f"dagopt: {' '.join(message.split())}\n")
    return exit_code
