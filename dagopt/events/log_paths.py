"""Places where event logs lie: local files, members of zip files, and what pyarrow.fs opens."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal, Protocol, cast

import pyarrow as pa
from pyarrow import fs

from dagopt.errors import InputError

_ZIP_MAGIC = b"PK\x03\x04"


class LogPath(Protocol):
    """What of :class:`pathlib.Path` is needed to read logs."""

    @property
    def name(self) -> str:
        """Last part of the path."""

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """The file's bytes; seekable."""

    def exists(self) -> bool:
        """Whether a file or folder is there."""

    def is_dir(self) -> bool:
        """Whether it is a folder."""

    def iterdir(self) -> Iterator[LogPath]:
        """What is in the folder."""


class RemotePath:
    """A path in a file system of pyarrow: hdfs, s3, gs and others."""

    def __init__(self, system: fs.FileSystem, path: str, text: str) -> None:
        self._system, self._path, self._text = system, path, text

    def __str__(self) -> str:
        return self._text

    @property
    def name(self) -> str:
        """Last part of the path."""
        return self._path.rstrip("/").rpartition("/")[2]

    def open(self, mode: Literal["rb"] = "rb", /) -> BinaryIO:
        """The file's bytes."""
        del mode
        return cast("BinaryIO", self._system.open_input_file(self._path))

    def exists(self) -> bool:
        """Whether a file or folder is there."""
        return bool(self._info().type != fs.FileType.NotFound)

    def is_dir(self) -> bool:
        """Whether it is a folder."""
        return bool(self._info().type == fs.FileType.Directory)

    def iterdir(self) -> Iterator[RemotePath]:
        """What is in the folder."""
        for info in self._system.get_file_info(fs.FileSelector(self._path)):
            yield RemotePath(self._system, info.path, f"{self._text.rstrip('/')}/{info.base_name}")

    def _info(self) -> fs.FileInfo:
        return self._system.get_file_info([self._path])[0]


class ZipPath:
    """A file in a zip file, or a folder in it."""

    def __init__(self, archive: LogPath, inner: str, names: tuple[str, ...]) -> None:
        self._archive, self._inner, self._names = archive, inner, names

    def __str__(self) -> str:
        return f"{self._archive}/{self._inner}"

    @property
    def name(self) -> str:
        """Last part of the path."""
        return self._inner.rpartition("/")[2]

    def open(self, mode: Literal["rb"] = "rb", /) -> BinaryIO:
        """The file's bytes."""
        del mode
        with _archive(self._archive) as archive:
            return cast("BinaryIO", archive.open(self._inner))

    def inside(self, inner: str) -> ZipPath:
        """Another place in the same zip file."""
        return ZipPath(self._archive, inner, self._names)

    def exists(self) -> bool:
        """Whether a file or folder is there."""
        return self.is_dir() or self._inner in self._names

    def is_dir(self) -> bool:
        """Whether it is a folder."""
        return any(name.startswith(self._prefix) for name in self._names)

    def iterdir(self) -> Iterator[ZipPath]:
        """What is in the folder."""
        inside = (
            name[len(self._prefix) :] for name in self._names if name.startswith(self._prefix)
        )
        for child in sorted({name.partition("/")[0] for name in inside}):
            yield ZipPath(self._archive, self._prefix + child, self._names)

    @property
    def _prefix(self) -> str:
        return f"{self._inner}/" if self._inner else ""


def log_path(text: str) -> LogPath:
    """The place that a text names: a URI such as ``s3://bucket/logs``, else a local path.

    A local path may go on inside of a zip file.

    Raises:
        InputError: no file system is known for the URI, or it cannot be reached.
    """
    if "://" not in text:
        path = Path(text)
        return _in_zip(path) or path
    try:
        system, path = fs.FileSystem.from_uri(text)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{text}: cannot be opened: {error}") from error
    return RemotePath(system, path, text)


def zip_members(path: LogPath) -> LogPath | None:
    """The folder that a zip file holds; None where it is no zip file.

    Raises:
        InputError: the file cannot be read, or is a damaged zip file.
    """
    try:
        with path.open("rb") as file:
            if file.read(len(_ZIP_MAGIC)) != _ZIP_MAGIC:
                return None
        with _archive(path) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]
    except zipfile.BadZipFile as error:
        raise InputError(f"{path}: a damaged zip file: {error}") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    return ZipPath(path, "", tuple(names))


# Private functions


def _in_zip(path: Path) -> LogPath | None:
    """What a path names inside of a zip file; None where none of its parents is one."""
    archive = next((parent for parent in path.parents if parent.is_file()), None)
    members = zip_members(archive) if archive is not None else None
    if archive is None or not isinstance(members, ZipPath):
        return None
    return members.inside(path.relative_to(archive).as_posix())


def _archive(path: LogPath) -> zipfile.ZipFile:
    # A name, where there is one: then the file is closed with the last member that is read.
    return zipfile.ZipFile(path if isinstance(path, Path) else path.open("rb"))
