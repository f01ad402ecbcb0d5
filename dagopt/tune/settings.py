"""What a resumed sweep must share with the one that it goes on from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dagopt.errors import InputError
from dagopt.spark.phases import frame_columns, is_frame
from dagopt.tune.search import Search

Settings = Mapping[str, Any]
"""Plain values by name."""


def settings_of(search: Search, trainable: Any, data: Any, numbers: Mapping[str, Any]) -> Settings:
    """The settings of a sweep.

    Functions and classes count by their names, and a trainable also by its attributes that are numbers
    or text: code that was mended may go on.
    """
    own = getattr(trainable, "__dict__", {})
    return {
        **numbers,
        "direction": "minimize" if search.minimizes else "maximize",
        **{f"space.{name}": told for name, told in search.space_told().items()},
        "trainable": _name(trainable),
        **{
            f"trainable.{name}": value
            for name, value in sorted(own.items())
            if isinstance(value, (int, float, str)) and not name.startswith("_")
        },
        "data": f"DataFrame[{frame_columns(data)}]" if is_frame(data) else _name(data),
    }


def check_same(path: str, found: Settings, expected: Settings) -> None:
    """Check that a checkpoint is of this sweep.

    Raises:
        InputError: it is not; the message names what differs.
    """
    names = [*expected, *(name for name in found if name not in expected)]
    told = [
        f"{name} {found.get(name, 'missing')}, not {expected.get(name, 'missing')}"
        for name in names
        if name not in found or name not in expected or repr(found[name]) != repr(expected[name])
    ]
    if told:
        raise InputError(
            f"checkpoint is '{path}', which has a sweep with {'; '.join(told)}: give what that sweep"
            " had, or take another folder"
        )


def _name(value: Any) -> str:
    return str(getattr(value, "__qualname__", type(value).__qualname__))
