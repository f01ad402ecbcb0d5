"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from dagopt.errors import InputError

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def launch_options(command: CommandT) -> CommandT:
    """``--cores`` and ``--option``, as ``conf`` and ``submit`` take them."""
    cores = click.option(
        "--cores",
        type=click.IntRange(min=1),
        metavar="N",
        help="Physical cores of an executor. Needed before Spark 4.3 on YARN and standalone, to "
        "run more tasks than cores in I/O-bound stages.",
    )
    option = click.option(
        "--option",
        "options",
        multiple=True,
        metavar="KEY=VALUE",
        help="A setting of dagopt, such as slots_per_core=2. May be given again.",
    )
    return cores(option(command))


def parse_options(pairs: Sequence[str]) -> dict[str, str]:
    """``KEY=VALUE`` pairs as a dictionary, the last of equal keys winning.

    Raises:
        InputError: a pair has no ``=``.
    """
    options = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise InputError(f"--option: expected key=value, got {pair!r}")
        options[key] = value
    return options
