"""Where commands print to, and the files that they write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import click
from rich.console import Console

from dagopt.errors import InputError


def table_console(file_width: int) -> Console:
    """What tables are printed on; so many columns wide where it is no terminal."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = file_width
    return console


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
