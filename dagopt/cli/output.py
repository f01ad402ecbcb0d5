"""Where commands print to, and the files that they write."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import click
from rich.console import Console
from rich.table import Table

from dagopt.errors import InputError


def table_console(file_width: int) -> Console:
    """What tables are printed on; so many columns wide where it is no terminal."""
    # What brackets and colons mean to rich are letters of names and errors here.
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = file_width
    return console


def show_table(table: Table) -> None:
    """Print a table whose lines are as long as they are."""
    Console(soft_wrap=True, markup=False, emoji=False).print(table)


def show_json(value: Any) -> None:
    """Print JSON, which knows no number that is not finite: such a one is null."""
    click.echo(json.dumps(_finite(value), indent=2, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_new(*files: Path | None, force: bool) -> None:
    """Refuse to overwrite what is there; None is a file that was not asked for.

    Raises:
        InputError: one of them exists, and ``force`` is not given.
    """
    for file in files:
        if file is not None and file.exists() and not force:
            raise InputError(f"{file} exists; --force overwrites")


@contextmanager
def written(path: Path) -> Iterator[TextIO]:
    """The file, open for text; says that it was written.

    Raises:
        InputError: it cannot be written.
    """
    try:
        with path.open("w", encoding="utf-8") as file:
            yield file
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error
    click.echo(f"Wrote {path}", err=True)
