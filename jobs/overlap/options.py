"""Options of the benchmarks' command lines."""

from __future__ import annotations

from collections.abc import Callable

import click

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
