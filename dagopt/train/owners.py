"""Whose the jobs in a checkpoint folder are, without a lock, which an object store does not have.

Each scheduler has a folder of its own there, and writes ``_alive`` into it again and again. Jobs of one
that does so are left alone. Whoever goes on with a job of another writes its own name into the job's
``owner``, and looks a moment later whether that stands there still: of several that try, one has the job.
A scheduler that was taken for dead finds another's name there at its job's next boundary, and leaves it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from typing import Final

from dagopt.errors import InputError
from dagopt.tune.checkpoint import Store, within

logger = logging.getLogger(__name__)

RECORD: Final = "record"
"""Folder, in that of a job, of what is needed to go on with it."""

JOB: Final = f"{RECORD}/job"
"""The job; it is unfinished as long as that file is there."""

OWNER: Final = f"{RECORD}/owner"
"""Whose it is."""

_ALIVE: Final = "_alive"  # no job can have that name

_BEAT_S = 3.0
"""Seconds between two signs of life."""

_DEAD_S = 15.0
"""Seconds without any after which a scheduler counts as dead."""

_CLAIM_S = 1.0
"""Seconds after which another's claim is seen."""


class Beats:
    """Signs of life of a scheduler.

    Args:
        path: of the checkpoint folder.
        scheduler: its name.

    Raises:
        InputError: nothing can be written there.
    """

    def __init__(self, path: str, scheduler: str) -> None:
        self._store = Store(within(path, scheduler), "")
        try:
            self._store.write(_ALIVE, b"0")
        except OSError as error:
            raise InputError(f"checkpoint is '{path}', which cannot be written: {error}") from error
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dagopt-train-alive", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """The scheduler owns nothing any more; its folder goes, unless something stays in it."""
        self._ends.set()
        self._thread.join(_BEAT_S)
        with contextlib.suppress(OSError):
            self._store.delete(_ALIVE)
            self._store.prune()

    def _run(self) -> None:
        number = 0
        while not self._ends.wait(_BEAT_S):
            number += 1
            with contextlib.suppress(OSError):
                self._store.write(_ALIVE, str(number).encode())


def owner_of(root: Store, folder: str) -> str:
    """The scheduler that a job is of; empty for one that is over.

    Args:
        root: the checkpoint folder.
        folder: of the job there: ``scheduler/job``.
    """
    return _read(root, f"{folder}/{OWNER}").decode(errors="replace")


def claimed(root: Store, scheduler: str) -> list[str]:
    """The folders of the unfinished jobs of dead schedulers, which are this one's from now on.

    Takes seconds where another scheduler seems to live. What is left of dead ones besides unfinished jobs
    and states is deleted.
    """
    signs: dict[str, bytes] = {}
    owners: dict[str, str] = {}
    for one in root.folders():
        if one != scheduler:
            with _others_left(f"{root.path}: folder '{one}'"):
                signs[one] = _sign(root, one)
                for folder in [f"{one}/{job}" for job in root.folders(one)]:
                    with _others_left(f"{root.path}: folder '{folder}'"):
                        if _is_unfinished(root, folder):
                            owners[folder] = owner_of(root, folder) or one
    signs |= {one: _sign(root, one) for one in set(owners.values()) - {*signs}}
    if any(signs.values()):
        time.sleep(_DEAD_S)
    living = {one for one, sign in signs.items() if sign and _sign(root, one) not in (sign, b"")}
    for one in sorted(living & set(owners.values())):
        told = ", ".join(folder for folder, owner in owners.items() if owner == one)
        logger.warning("dagopt: %s runs, so its jobs are not resumed: %s", one, told)
    ours = [folder for folder, owner in owners.items() if owner not in living]
    for folder in ours:
        with _others_left(f"{root.path}: job '{folder}'"):
            root.write(f"{folder}/{OWNER}", scheduler.encode())
    if ours:
        time.sleep(_CLAIM_S)
    for one in sorted(name for name, sign in signs.items() if sign and name not in living):
        with contextlib.suppress(OSError):
            _tidy(root, one)
    return [folder for folder in ours if owner_of(root, folder) == scheduler]


# Private functions


@contextlib.contextmanager
def _others_left(what: str) -> Iterator[None]:
    """Go on without what is somebody else's. Whatever else storage says may pass, so it is no answer."""
    try:
        yield
    except (PermissionError, NotADirectoryError) as error:
        logger.warning("dagopt: %s cannot be resumed: %s", what, error)


def _tidy(root: Store, scheduler: str) -> None:
    for file in root.files(scheduler):
        if file.startswith(_ALIVE):  # also one that was half written
            root.delete(f"{scheduler}/{file}")
    for job in root.folders(scheduler):
        store = Store(within(root.path, f"{scheduler}/{job}"), "")
        if not _is_unfinished(root, f"{scheduler}/{job}"):
            store.remove(RECORD)
        store.prune()
    Store(within(root.path, scheduler), "").prune()


def _is_unfinished(root: Store, folder: str) -> bool:
    return JOB.rpartition("/")[2] in root.files(f"{folder}/{RECORD}")


def _sign(root: Store, scheduler: str) -> bytes:
    return _read(root, f"{scheduler}/{_ALIVE}") if _ALIVE in root.files(scheduler) else b""


def _read(root: Store, name: str) -> bytes:
    try:
        return root.read(name)
    except FileNotFoundError:
        return b""
