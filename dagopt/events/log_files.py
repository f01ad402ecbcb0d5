"""Which event logs a path stands for: one file, one rolling log, or a folder of both."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from dagopt.errors import InputError

_ROLLING_PREFIX = "eventlog_v2_"
_PART = re.compile(r"events_(?P<index>\d+)_.+?(?P<compact>\.compact)?")
# What a Hadoop file system or Spark leaves beside logs.
_NOT_LOGS = re.compile(r"[._].*|.*\.crc|appstatus_.*|_SUCCESS")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLog:
    """The files of one application's log, in the order in which they are read."""

    path: Path
    """The file, or the folder of a rolling log."""

    parts: tuple[Path, ...]
    """At least one file."""

    is_compacted: bool
    """Whether Spark dropped events of finished jobs, so that their tasks are missing."""

    has_first_part: bool
    """Whether the log starts with its beginning: a part 1, or a compacted one."""


def find_event_logs(path: Path) -> tuple[EventLog, ...]:
    """The logs at or below a path, sorted by path; links to folders are not followed.

    Raises:
        InputError: the path does not exist, cannot be listed, or holds no file at all.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    if not path.is_dir():
        return (EventLog(path=path, parts=(path,), is_compacted=False, has_first_part=True),)
    rolling = _rolling_log(path)
    if rolling is not None:
        return (rolling,)
    logs: list[EventLog] = []

    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename}: cannot be listed: {error.strerror}") from error

    for folder, folders, files in os.walk(path, onerror=refuse):
        here = Path(folder)
        for name in sorted(folders):
            log = _rolling_log(here / name) if name.startswith(_ROLLING_PREFIX) else None
            if log is not None:
                logs.append(log)
                folders.remove(name)
        for name in files:
            if _NOT_LOGS.fullmatch(name) is None:
                file = here / name
                logs.append(
                    EventLog(path=file, parts=(file,), is_compacted=False, has_first_part=True)
                )
    if not logs:
        raise InputError(f"{path}: the folder holds no event log")
    return tuple(sorted(logs, key=lambda log: log.path))


# Private functions


def _rolling_log(folder: Path) -> EventLog | None:
    parts: dict[int, tuple[bool, Path]] = {}
    try:
        children = sorted(folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder}: cannot be listed: {error.strerror}") from error
    for child in children:
        match = _PART.fullmatch(child.name)
        if match is not None:
            index, is_compact = int(match["index"]), match["compact"] is not None
            # A compacted part replaces the plain one of the same number.
            if is_compact or index not in parts:
                parts[index] = (is_compact, child)
    if not parts:
        return None
    # A compacted part stands for itself and all before it.
    last_compact = max((index for index, (compact, _) in parts.items() if compact), default=None)
    kept = sorted(index for index in parts if last_compact is None or index >= last_compact)
    return EventLog(
        path=folder,
        parts=tuple(parts[index][1] for index in kept),
        is_compacted=last_compact is not None,
        has_first_part=last_compact is not None or kept[0] == 1,
    )
