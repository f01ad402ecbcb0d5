"""Options of the benchmarks' command lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from jobs.overlap.modes import REPOSITORY

BENCH_DIR = REPOSITORY / "build" / "bench"
"""Where benchmarks leave what they found."""

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
Callback = Callable[[click.Context, click.Parameter, str], tuple[str, ...]]


def names(*allowed: str, with_spaces: bool = False) -> Callback:
    """Reads a list of some of these names, with commas or, unless they have spaces, spaces between."""

    def parse(_context: click.Context, _option: click.Parameter, text: str) -> tuple[str, ...]:
        parts = text.split(",") if with_spaces else text.replace(",", " ").split()
        found = tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))
        for name in found:
            if name not in allowed:
                raise click.BadParameter(f"{name!r} is not one of {', '.join(allowed)}")
        return found

    return parse


def bench_options(
    cases: Callback, default: Sequence[str], modes: Sequence[str], told: dict[str, str]
) -> Callable[[CommandT], CommandT]:
    """``--cases``, ``--modes``, ``--repetitions`` and ``--out``, as every benchmark of modes takes them.

    Args:
        cases: reads the names of cases.
        default: cases that run where none are named.
        modes: all modes, which run where none are named.
        told: help by option, where it says more than that of the others.
    """

    def decorate(command: CommandT) -> CommandT:
        options = (
            click.option(
                "--cases",
                callback=cases,
                envvar="CASES",
                default=",".join(default),
                help=told.get("cases", "Cases to run."),
            ),
            click.option(
                "--modes",
                callback=names(*modes),
                envvar="MODES",
                default=",".join(modes),
                help="Modes to compare.",
            ),
            click.option(
                "--repetitions",
                type=click.IntRange(1),
                envvar="REPETITIONS",
                default=3,
                help=told["repetitions"],
            ),
            click.option(
                "--out",
                type=click.Path(file_okay=False, path_type=Path),
                default=BENCH_DIR,
                help=told["out"],
            ),
        )
        for option in reversed(options):
            command = option(command)
        return command

    return decorate
