"""Java properties text, as ``spark-submit --properties-file`` and spark-defaults.conf have it.

The whole syntax that Spark's launcher reads: ``key value``, ``key=value`` and ``key:value``,
comments, lines that go on after a backslash, and Java's escapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from dagopt.errors import InputError

_SPACE = " \t\f"
#: What Java's trim takes off, as Spark does with values.
_TRIMMED = "".join(map(chr, range(ord(" ") + 1)))
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: Path) -> dict[str, str]:
    """The settings of a file, the last of equal keys winning, values without outer spaces.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as properties: {error}") from error
    return parse_properties(text)


def parse_properties(text: str) -> dict[str, str]:
    """The settings of a properties text."""
    settings = {}
    for line in _logical_lines(text):
        end = next((at for at in _unescaped(line) if line[at] in "=:" + _SPACE), len(line))
        value = line[end:].lstrip(_SPACE)
        if value[:1] in {"=", ":"}:
            value = value[1:].lstrip(_SPACE)
        settings[_unescape(line[:end])] = _unescape(value).strip(_TRIMMED)
    return settings


def format_properties(settings: Mapping[str, str]) -> str:
    """A properties text that :func:`parse_properties` and Spark read back as ``settings``."""
    escaped = {_escape_key(key): _escape_value(settings[key]) for key in settings}
    width = max(map(len, escaped), default=0)
    return "".join(
        f"{key:<{width}}  {value}\n" if value else f"{key}\n" for key, value in escaped.items()
    )


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments, with those that end in a backslash joined."""
    joined = ""
    for raw in re.split(r"\r\n|\n|\r", text):
        line = raw.lstrip(_SPACE)
        if not joined and line[:1] in {"", "#", "!"}:
            continue
        joined += line
        backslashes = len(joined) - len(joined.rstrip("\\"))
        if backslashes % 2:
            joined = joined[:-1]
            continue
        yield joined
        joined = ""
    if joined:
        yield joined


def _unescaped(line: str) -> Iterator[int]:
    """Positions of the characters of a line that no backslash stands before."""
    escaped = False
    for at, char in enumerate(line):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        else:
            yield at


def _unescape(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        code = match[1]
        if len(code) == len("u0000"):
            return chr(int(code[1:], 16))
        return _CONTROL.get(code, code)

    return _ESCAPE.sub(plain, text)


def _escape(text: str) -> str:
    escaped = text.replace("\\", "\\\\")
    for name, char in _CONTROL.items():
        escaped = escaped.replace(char, f"\\{name}")
    return escaped


def _escape_key(key: str) -> str:
    return re.sub(r"([=:#! ])", r"\\\1", _escape(key))


def _escape_value(value: str) -> str:
    # At its beginning these two would be taken for the separator.
    return re.sub(r"^([=:])", r"\\\1", _escape(value))
