"""Spark's own strings for sizes and times, read into bytes and seconds and written again.

The rules are Spark's: units are binary (``1k`` is 1024 bytes), case does not matter, a bare number
has the unit that the key documents, and fractions are refused ("1.5g" is no size). Rates are sizes
per second, so they have no syntax of their own.
"""

from __future__ import annotations

import re

from dagopt.errors import InputError

_QUANTITY = re.compile(r"([0-9]+)([a-z]*)")

_BYTES_OF_UNIT: dict[str, int] = {
    "": 1,
    "b": 1,
    **{
        f"{prefix}{suffix}": 1024**power
        for power, prefix in enumerate("kmgtp", 1)
        for suffix in ("", "b")
    },
}

_S_OF_UNIT = {
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "": 1e-3,
}


def parse_bytes(text: str) -> int:
    """Bytes that a Spark size string stands for, such as ``16m``; a bare number counts bytes.

    Raises:
        InputError: the text is not a whole number with a unit of Spark's.
    """
    number, unit = _split(text)
    if unit not in _BYTES_OF_UNIT:
        raise InputError(f"expected a size such as 512k, 16m or 1g, got {text!r}")
    return number * _BYTES_OF_UNIT[unit]


def parse_time_s(text: str) -> float:
    """Seconds that a Spark time string stands for, such as ``500ms``; a bare number counts ms.

    Raises:
        InputError: the text is not a whole number with a unit of Spark's.
    """
    number, unit = _split(text)
    if unit not in _S_OF_UNIT:
        raise InputError(f"expected a time such as 500ms, 10s or 2min, got {text!r}")
    return number * _S_OF_UNIT[unit]


def format_bytes(size_bytes: float) -> str:
    """A size for people, with one digit after the point: ``1.5 GiB``."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def format_s(time_s: float) -> str:
    """A span for people, in seconds: ``0.35 s``, ``12.5 s`` or ``75 s``."""
    digits = 2 if abs(time_s) < 10 else 1 if abs(time_s) < 60 else 0
    return f"{time_s:.{digits}f} s"


def _split(text: str) -> tuple[int, str]:
    """Number and lower-case unit of a quantity; a unit of ``?`` where it is none."""
    match = _QUANTITY.fullmatch(text.strip().lower())
    return (int(match[1]), match[2]) if match else (0, "?")


def format_count(number: int, noun: str) -> str:
    """A number of things: ``1 executor``, ``2 executors``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
