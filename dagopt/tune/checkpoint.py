"""Where a sweep keeps its boundaries and states: a folder that pyarrow.fs opens.

A boundary is a numbered file that says what happened since the one before. It is written under
another name and then moved, so that it is there as a whole or not at all; what a killed driver left
besides is not referred to by any boundary. Files of states that none needs any more are deleted.
"""

from __future__ import annotations

import contextlib
import pickle
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs

from dagopt.errors import InputError

STATES: Final = "states"
_SWEEP: Final = "sweep"
_SHORT: Final = ".part"


class Store:
    """Files under one folder; small and the same on drivers and executors.

    Args:
        path: a local path, or a URI such as ``s3://bucket/sweep`` or ``hdfs:///sweeps/one``.
        folder: made in it; empty for none but itself.

    Raises:
        InputError: pyarrow cannot open it.
    """

    def __init__(self, path: str, folder: str = STATES) -> None:
        if not path:
            raise InputError("checkpoint is '', expected a folder")
        # Executors have other working directories.
        self.path = path if "://" in path else str(Path(path).resolve())
        try:
            if "://" in path:
                self._fs, root = fs.FileSystem.from_uri(path)
            else:
                self._fs, root = fs.LocalFileSystem(), self.path
            self._root = root.rstrip("/")
            self._fs.create_dir(self._place(folder), recursive=True)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise InputError(
                f"checkpoint is '{path}', which pyarrow cannot open: {error}"
            ) from error

    def write(self, name: str, content: bytes) -> None:
        """Write a file as a whole."""
        # Two schedulers may write their names at the same moment.
        part = f"{self._root}/{name}-{uuid.uuid4().hex[:8]}{_SHORT}"
        with self._fs.open_output_stream(part) as stream:
            stream.write(content)
        self._fs.move(part, f"{self._root}/{name}")

    def read(self, name: str) -> bytes:
        """The content of a file."""
        with self._fs.open_input_stream(f"{self._root}/{name}") as stream:
            return bytes(stream.read())

    def output(self, name: str) -> Any:
        """A stream that writes a file."""
        folder = f"{self._root}/{name}".rpartition("/")[0]
        self._fs.create_dir(folder, recursive=True)
        return self._fs.open_output_stream(f"{self._root}/{name}")

    def input(self, name: str) -> Any:
        """A file to read with seeks."""
        return self._fs.open_input_file(f"{self._root}/{name}")

    def sweep(self) -> str:
        """The sweep's name, unlike any other's; made at the first call."""
        if _SWEEP not in self.files():
            self.write(_SWEEP, uuid.uuid4().hex.encode())
        return self.read(_SWEEP).decode()

    def boundaries(self) -> list[Any]:
        """What all boundaries say, in order; up to the first that is missing."""
        names = set(self.files())
        found: list[Any] = []
        while boundary_name(len(found)) in names:
            found.append(pickle.loads(self.read(boundary_name(len(found)))))  # noqa: S301  ours
        return found

    def add_boundary(self, number: int, said: Any) -> None:
        """Write the boundary of that number."""
        self.write(boundary_name(number), pickle.dumps(said))

    def keep(self, folder: str, names: Iterable[str]) -> None:
        """Delete all files of a folder but these."""
        kept = set(names)
        for name in self.files(folder):
            if f"{folder}/{name}" not in kept:
                self.delete(f"{folder}/{name}")

    def delete(self, name: str) -> None:
        """Delete a file, if it is there: tasks that nobody waits for move theirs."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.delete_file(f"{self._root}/{name}")

    def remove(self, folder: str = "") -> None:
        """Delete a folder with all that is in it, if it is there; default: this one."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.delete_dir(self._place(folder))

    def prune(self) -> None:
        """Remove the folders in this one that are empty, and then this one if it is."""
        for folder in (*self.folders(), ""):
            if not self._infos(folder):
                self.remove(folder)

    def files(self, folder: str = "") -> list[str]:
        """Names of the files in a folder, sorted."""
        return self._names(folder, fs.FileType.File)

    def folders(self, folder: str = "") -> list[str]:
        """Names of the folders in a folder, sorted."""
        return self._names(folder, fs.FileType.Directory)

    def _place(self, folder: str) -> str:
        return f"{self._root}/{folder}".rstrip("/") or "/"

    def _names(self, folder: str, kind: Any) -> list[str]:
        found: list[str] = []
        for one in self._infos(folder):
            if one.type == kind:
                with contextlib.suppress(UnicodeDecodeError):  # so it is none of ours
                    found.append(one.base_name)
        return sorted(found)

    def _infos(self, folder: str) -> list[Any]:
        """Of what is in a folder; nothing where there is none."""
        selector = fs.FileSelector(self._place(folder), allow_not_found=True)
        return list(self._fs.get_file_info(selector))


def within(path: str, folder: str) -> str:
    """Path of a folder in another one; options of a URI, such as ``?region=...``, stay at its end."""
    base, mark, options = path.partition("?") if "://" in path else (path, "", "")
    return f"{base}{'' if base.endswith('/') else '/'}{folder}{mark}{options}"


def boundary_name(number: int) -> str:
    """Name of a boundary's file."""
    return f"boundary-{number:06d}"


def states_name(phase: int, group: int, application: str, attempt: str) -> str:
    """Name of the file with a group's states after a phase.

    Each attempt of a task has its own, and so has each application: executors of one whose driver was
    killed may write for a while.
    """
    return f"{STATES}/{phase:06d}-{group:04d}-{application}-{attempt}"
