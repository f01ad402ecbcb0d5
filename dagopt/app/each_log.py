"""The same for every event log of a folder, and which of its files are none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from dagopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dagopt.events.log_paths import LogPath
    from dagopt.events.read import EventLog

A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedLog:
    """A file that could not be used at all."""

    path: LogPath
    """The file, or the folder of a rolling log."""

    reason: str
    """One line that starts with the path."""


def of_each(
    logs: Sequence[EventLog],
    read: Callable[[EventLog], A],
    progress: Callable[[int, int, str], None] | None,
) -> tuple[list[A], tuple[FailedLog, ...]]:
    """What ``read`` makes of each log, and those that it raised InputError for, in their order.

    Args:
        logs: at least one.
        read: called once with each.
        progress: called with logs done, logs in all, and the path of the one that is next; at
            the end with an empty path.

    Raises:
        InputError: none of the logs can be read.
    """
    found: list[A] = []
    failed: list[FailedLog] = []
    for done, log in enumerate(logs):
        if progress is not None:
            progress(done, len(logs), str(log.path))
        try:
            found.append(read(log))
        except InputError as error:
            failed.append(FailedLog(path=log.path, reason=str(error)))
    if progress is not None:
        progress(len(logs), len(logs), "")
    if not found:
        more = f" (and {len(failed) - 1} more files like it)" if len(failed) > 1 else ""
        raise InputError(f"{failed[0].reason}{more}")
    return found, tuple(failed)
