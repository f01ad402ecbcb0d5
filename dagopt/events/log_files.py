"""Which event logs a path stands for: a file, a rolling log, or a folder or zip file of both."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from dagopt.errors import InputError
from dagopt.events.log_paths import LogPath, ZipPath, zip_members

_ROLLING_PREFIX = "eventlog_v2_"
_PART = re.compile(r"events_(?P<index>\d+)_.+?(?P<compact>\.compact)?")
# What a Hadoop file system or Spark leaves beside logs.
_NOT_LOGS = re.compile(r"[._].*|.*\.crc|appstatus_.*|_SUCCESS")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLog:
    """The files of one application's log, in the order in which they are read."""

    path: LogPath
    """The file, or the folder of a rolling log."""

    parts: tuple[LogPath, ...]
    """At least one file."""

    is_compacted: bool
    """Whether Spark dropped events of finished jobs, so that their tasks are missing."""

    has_first_part: bool
    """Whether the log starts with its beginning: a part 1, or a compacted one."""


def find_event_logs(path: LogPath) -> tuple[EventLog, ...]:
    """The logs at or below a path, sorted by path; links to folders are not followed.

    Raises:
        InputError: the path does not exist, cannot be listed, or holds no file at all.
    """
    try:
        if not path.exists():
            raise InputError(f"{path}: no such file or folder")
        if not path.is_dir():
            return _logs_of(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    logs = _logs_below(path) if isinstance(path, Path) else _logs_of_folder(path)
    if not logs:
        raise InputError(f"{path}: the folder holds no event log")
    return tuple(logs)


# Private functions


def _logs_of(file: LogPath) -> tuple[EventLog, ...]:
    """The log that a file is, or those that it holds if it is a zip file."""
    members = zip_members(file)
    if members is None:
        return (_one_file(file),)
    logs = _logs_of_folder(members)
    if not logs:
        raise InputError(f"{file}: the zip file holds no event log")
    return tuple(logs)


def _logs_of_file_in_folder(file: LogPath) -> tuple[EventLog, ...]:
    """As :func:`_logs_of`, for files that are called zip files and whole; others are left as they are."""
    if not file.name.lower().endswith(".zip") or isinstance(file, ZipPath):
        return (_one_file(file),)
    try:
        return _logs_of(file)
    except InputError:
        return (_one_file(file),)


def _one_file(file: LogPath) -> EventLog:
    return EventLog(path=file, parts=(file,), is_compacted=False, has_first_part=True)


def _logs_of_folder(folder: LogPath) -> list[EventLog]:
    """As :func:`_logs_below`, where there is no ``os.walk``."""
    rolling = _rolling_log(folder)
    if rolling is not None:
        return [rolling]
    logs: list[EventLog] = []
    for child in sorted(folder.iterdir(), key=str):
        if child.is_dir():
            logs += _logs_of_folder(child)
        elif _NOT_LOGS.fullmatch(child.name) is None:
            logs += _logs_of_file_in_folder(child)
    return logs


def _logs_below(path: Path) -> list[EventLog]:
    rolling = _rolling_log(path)
    if rolling is not None:
        return [rolling]
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
                logs += _logs_of_file_in_folder(here / name)
    return sorted(logs, key=lambda log: str(log.path))


def _rolling_log(folder: LogPath) -> EventLog | None:
    parts: dict[int, tuple[bool, LogPath]] = {}
    try:
        children = sorted(folder.iterdir(), key=str)
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
