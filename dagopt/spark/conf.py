"""The configuration keys of dagopt: names, defaults, what is allowed, and the check of a value.

:data:`KEYS` is the one table of them. The README's table is made from it, and a test holds the
Scala side against it. What else must be set to switch dagopt on is in :mod:`dagopt.spark.launch`.
"""

from __future__ import annotations

import difflib
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from dagopt.cost.bandwidth import DISK_BYTES_PER_S, NETWORK_BYTES_PER_S
from dagopt.errors import ConfError, InputError, UnknownKeyError
from dagopt.model.network import parse_networks
from dagopt.units import parse_bytes, parse_time_s

PREFIX = "spark.dagopt."
MIN_INPUT_BYTES = 16 * 2**20
"""What a task set reads in total at least, unless set otherwise; less is left to Spark alone."""

Kind: TypeAlias = Literal["choice", "boolean", "time", "integer", "size", "text", "networks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfKey:
    """One key of the configuration."""

    key: str
    """The full key, beginning with :data:`PREFIX`."""

    default: str | None
    """What holds when it is not set, in Spark's notation; None where nothing is the default."""

    kind: Kind
    """What the value is; :attr:`allowed` says it to people."""

    allowed: str
    """Which values are right, in words."""

    doc: str
    """What it does, one line of Markdown."""

    check: Callable[[str], bool]
    """Whether a value is right; an InputError it raises counts as no."""

    check_on_driver: Callable[[str], object] | None = None
    """What can only be checked on the driver's host: whether the file that a value names is right.
    If not, it raises an InputError that says why."""

    is_internal: bool = False
    """For dagopt's own tests: accepted, and not shown to users."""

    @property
    def option(self) -> str:
        """The key as a Python argument: ``spark.dagopt.slotsPerCore`` is ``slots_per_core``."""
        return _snake_case(self.key.removeprefix(PREFIX))


def _choice_key(name: str, doc: str, *, default: str, values: tuple[str, ...]) -> ConfKey:
    return ConfKey(
        key=PREFIX + name,
        default=default,
        kind="choice",
        allowed=", ".join(values),
        doc=doc,
        check=lambda text: text in values,
    )


def _boolean_key(name: str, doc: str, *, default: bool) -> ConfKey:
    return ConfKey(
        key=PREFIX + name,
        default=_text(default),
        kind="boolean",
        allowed="true or false",
        doc=doc,
        check=lambda text: text in {"true", "false"},
    )


def _integer_key(name: str, doc: str, *, default: int, low: int, high: int) -> ConfKey:
    return ConfKey(
        key=PREFIX + name,
        default=str(default),
        kind="integer",
        allowed=f"a whole number from {low} to {high}",
        doc=doc,
        check=lambda text: re.fullmatch(r"[0-9]+", text) is not None and low <= int(text) <= high,
    )


def _time_key(name: str, doc: str, *, default: str, low_ms: int) -> ConfKey:
    return ConfKey(
        key=PREFIX + name,
        default=default,
        kind="time",
        allowed=f"a time of at least {low_ms}ms, such as {default}",
        doc=doc,
        check=lambda text: parse_time_s(text) >= low_ms / 1000,
    )


def _size_key(name: str, doc: str, *, default_mib: int, low_bytes: int) -> ConfKey:
    default = f"{default_mib}m"
    return ConfKey(
        key=PREFIX + name,
        default=default,
        kind="size",
        allowed=f"a size of at least {low_bytes} bytes, such as {default}",
        doc=doc,
        check=lambda text: low_bytes <= parse_bytes(text) < 2**63,
    )


def _text_key(
    name: str,
    doc: str,
    *,
    allowed: str,
    check_on_driver: Callable[[str], object] | None = None,
    is_internal: bool = False,
) -> ConfKey:
    return ConfKey(
        key=PREFIX + name,
        default=None,
        kind="text",
        allowed=allowed,
        doc=doc,
        check=lambda text: bool(text.strip()),
        check_on_driver=check_on_driver,
        is_internal=is_internal,
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _snake_case(dotted: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", dotted).replace(".", "_").lower()


def _check_profile(path: str) -> None:
    # pyarrow is slow to import, and only needed here.
    from dagopt.events.profile_file import read_profile  # noqa: PLC0415

    read_profile(Path(path))


def _check_writable(text: str) -> None:
    path = Path(text)
    if path.is_dir():
        raise InputError("it is a directory")
    if not path.exists() and not path.parent.is_dir():
        raise InputError(f"there is no directory {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InputError("permission denied")


def _check_program(text: str) -> None:
    if shutil.which(text) is None:
        where = "an executable file" if "/" in text else "on the PATH"
        raise InputError(f"it is not {where}")


KEYS: tuple[ConfKey, ...] = (
    _choice_key(
        "mode",
        "`on` acts; `explain` decides and reports, and touches nothing; `off` is plain Spark",
        default="on",
        values=("off", "explain", "on"),
    ),
    _boolean_key(
        "grouping.enabled",
        "task grouping: launch order, delays, and concurrency per stage",
        default=True,
    ),
    _choice_key(
        "boundary",
        "shuffles between CPU and GPU operators: where they pay, everywhere, or nowhere",
        default="auto",
        values=("auto", "always", "never"),
    ),
    _integer_key(
        "slotsPerCore",
        "most tasks that run at once per core in an I/O-bound stage; 1 never raises concurrency",
        default=4,
        low=1,
        high=16,
    ),
    _size_key(
        "minInputBytes",
        "a task set that reads less than this in total is left to Spark alone",
        default_mib=MIN_INPUT_BYTES >> 20,
        low_bytes=0,
    ),
    _time_key(
        "maxDelay",
        "the longest launch delay, and the longest that cores may stand idle while tasks are held",
        default="10s",
        low_ms=0,
    ),
    _text_key(
        "profile",
        "costs of stages that ran before, from `dagopt learn`",
        allowed="the path of a file that dagopt learn wrote",
        check_on_driver=_check_profile,
    ),
    _size_key(
        "network.bandwidth",
        "what a host's network link carries, in bytes per second, until it has been measured",
        default_mib=NETWORK_BYTES_PER_S >> 20,
        low_bytes=1,
    ),
    _size_key(
        "disk.bandwidth",
        "what a host's disks read, in bytes per second, until it has been measured",
        default_mib=DISK_BYTES_PER_S >> 20,
        low_bytes=1,
    ),
    ConfKey(
        key=PREFIX + "networks",
        default=None,
        kind="networks",
        allowed="name=address range or host,...;name=... such as rack1=10.0.1.0/24,hostA",
        doc="which hosts share a network link; without it, those of one subnet",
        check=lambda text: parse_networks(text) is not None,
    ),
    _boolean_key(
        "probe.enabled",
        "executors report when a running task has read its input, so that delays are corrected",
        default=True,
    ),
    _time_key(
        "probe.interval",
        "how often an executor looks, and at most reports",
        default="200ms",
        low_ms=200,
    ),
    _time_key(
        "planner.timeout",
        "after this long without an answer of the planner, everything held is released",
        default="500ms",
        low_ms=1,
    ),
    _text_key(
        "planner.python",
        "the Python that runs the planner; without it, the driver's",
        allowed="the path or name of a Python 3.10 or later that has dagopt's dependencies",
        check_on_driver=_check_program,
    ),
    _text_key(
        "planner.pythonpath",
        "where that Python finds dagopt when it is not installed there",
        allowed="directories joined by ':'",
    ),
    _text_key(
        "decisionLog",
        "a file on the driver's host that gets every decision with its reason, a line of JSON each",
        allowed="the path of a file that may be written",
        check_on_driver=_check_writable,
    ),
    _text_key(
        "planner.command",
        "what to run instead of the planner",
        allowed="a program and its arguments, parted by spaces",
        is_internal=True,
    ),
)

_BY_KEY = {key.key: key for key in KEYS}


def option_key(name: str) -> str | None:
    """The full key of an option: ``slots_per_core``, ``slotsPerCore`` or the key itself, else None."""
    short = name.removeprefix(PREFIX)
    return next((key.key for key in KEYS if short in _spellings(key)), None)


def option_values(options: Mapping[str, object]) -> dict[str, str]:
    """Options of Python as checked configuration: ``{"planner_timeout": "1s"}``.

    An option that is None is left out.

    Raises:
        ConfError: a wrong value or, as an UnknownKeyError, an option that dagopt does not have.
    """
    conf = {}
    for name, value in options.items():
        if value is not None:
            key = option_key(name)
            if key is None:
                raise UnknownKeyError(name, _text(value), _hint(name))
            conf[key] = _text(value)
    check_conf(conf)
    return conf


def check_conf(conf: Mapping[str, str]) -> None:
    """Check every key of dagopt in ``conf``; keys of Spark are not looked at.

    Raises:
        ConfError: the first wrong one, in the order of the keys' names.
    """
    for key in sorted(conf):
        if not key.startswith(PREFIX):
            continue
        known = _BY_KEY.get(key)
        if known is None:
            raise UnknownKeyError(key, conf[key], _hint(key))
        try:
            right = known.check(conf[key])
        except InputError as error:
            raise ConfError(key, conf[key], known.allowed) from error
        if not right:
            raise ConfError(key, conf[key], known.allowed)


def check_driver_files(conf: Mapping[str, str]) -> None:
    """Check the files that ``conf`` names, on the host of the driver.

    Raises:
        ConfError: the profile is none of ``dagopt learn``'s, the decision log cannot be written, or
            the planner's Python is no program; with the cause.
    """
    for key in KEYS:
        value = conf.get(key.key)
        if not value or key.check_on_driver is None:
            continue
        try:
            key.check_on_driver(value)
        except InputError as error:
            raise ConfError(key.key, value, f"{key.allowed} ({error})") from error


def value_of(conf: Mapping[str, str], key: str) -> str | None:
    """The value of a key of dagopt in ``conf``, else its default."""
    return conf.get(key, _BY_KEY[key].default)


def _spellings(key: ConfKey) -> tuple[str, str]:
    return key.key.removeprefix(PREFIX), key.option


def _hint(name: str) -> str:
    """The key that was probably meant, spelt as this one is, or all that there are."""
    shown = [_spellings(key) for key in KEYS if not key.is_internal]
    short = name.removeprefix(PREFIX)
    near = difflib.get_close_matches(short, [each for pair in shown for each in pair], n=1)
    if not near:
        return f"its keys: {', '.join(key for key, _ in shown)}"
    if short == name:
        return f"did you mean {near[0]}?"
    (meant,) = {key for key, option in shown if near[0] in {key, option}}
    return f"did you mean {PREFIX}{meant}?"
