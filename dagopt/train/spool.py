"""Requests of ``dagopt train`` to a running application, and its answers: files in a folder.

Each file is moved into place as a whole. A job's file is code that the application runs, so the folder
must be its owner's, and closed to everybody else; both sides check that.

One application at a time holds the folder's ``lock``. It renames a request before it looks into it, and
removes it when the answer is there. Whoever asks and does not want to wait any longer removes the request
too, so each is done once or, when its own removal came first, not at all. Requests are answered in turn;
only ``submit`` has a thread each, since a job's file may take its time.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import stat
import threading
import time
import traceback
import uuid
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Protocol

from dagopt.errors import DagoptError, InputError
from dagopt.spark.phases import load_by_value
from dagopt.train.job import TrainJob
from dagopt.train.phases import ENDED
from dagopt.train.records import JobStatus
from dagopt.train.sweep import SweepJob

logger = logging.getLogger(__name__)

_REQUESTS, _ANSWERS, _LOCK, _POLL_S = "requests", "answers", "lock", 0.05
_NEW, _TAKEN = ".json", ".taken"
"""How a request's name ends before and after it was taken."""


class Jobs(Protocol):
    """What requests are about: a :class:`dagopt.train.Scheduler`; called from several threads."""

    def submit(self, *jobs: TrainJob | SweepJob) -> None:
        """Hand in jobs, all or none."""

    def jobs(self) -> list[JobStatus]:
        """All jobs."""

    def cancel(self, name: str) -> bool:
        """End a job."""

    def logs(self, name: str) -> list[str]:
        """Its output."""


class Spool:
    """The application's side. What an application before left in the folder is removed.

    Args:
        path: the folder; made if it is not there.

    Raises:
        InputError: it is somebody else's, open to others, or another application's.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        try:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name in (_REQUESTS, _ANSWERS):
                (self._path / name).mkdir(mode=0o700, exist_ok=True)
            _check_owner(self._path)
            self._lock = _lock(self._path)
        except OSError as error:
            raise InputError(f"spool '{path}' cannot be made: {error}") from error
        try:
            for name in (_REQUESTS, _ANSWERS):
                for file in (self._path / name).iterdir():
                    file.unlink(missing_ok=True)
        except OSError as error:
            self._lock.close()
            raise InputError(f"spool '{path}' cannot be emptied: {error}") from error
        self._thread: threading.Thread | None = None
        self._ends = threading.Event()
        self._writes = threading.Lock()
        self._is_closed = False
        self._warned = ""

    def start(self, jobs: Jobs) -> None:
        """Answer requests from now on, in a thread."""
        self._thread = threading.Thread(
            target=self._run, args=(jobs,), name="dagopt-train-spool", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """End the thread, and say to whoever asks still that nobody is here.

        Does not wait for files of jobs that run still; what they give is not submitted. The caller must
        hold no lock that :class:`Jobs` needs.
        """
        self._ends.set()
        if self._thread is not None:
            self._thread.join()
        with self._writes:
            if self._is_closed:
                return
            self._is_closed = True
            with contextlib.suppress(OSError, InputError):
                self._check()
                for file in (self._path / _REQUESTS).glob(f"*{_NEW}"):
                    _take(file)
                for file in (self._path / _REQUESTS).glob(f"*{_TAKEN}"):
                    self._write(file, {"error": ENDED})
            self._lock.close()

    # Private methods

    def _run(self, jobs: Jobs) -> None:
        while not self._ends.wait(_POLL_S):
            self._look(jobs)

    def _look(self, jobs: Jobs) -> None:
        """Answer the requests that are there; what prevents that is told once."""
        try:
            self._check()
            for file in sorted((self._path / _REQUESTS).glob(f"*{_NEW}")):
                taken = _take(file)
                if taken is not None:
                    self._serve(jobs, taken)
            self._warned = ""
        except Exception as error:  # noqa: BLE001  jobs run on, and later ones may be answered
            if str(error) != self._warned:
                self._warned = str(error)
                logger.warning("dagopt: no request of `dagopt train` is answered: %s", error)

    def _check(self) -> None:
        """Check that the folder is this application's still."""
        _check_owner(self._path)
        if not os.path.samestat((self._path / _LOCK).stat(), os.fstat(self._lock.fileno())):
            raise InputError(f"spool '{self._path}' is another folder than it was")

    def _serve(self, jobs: Jobs, file: Path) -> None:
        try:
            request = json.loads(file.read_text("utf-8"))
            is_submit = request["do"] == "submit"
        except FileNotFoundError:
            return  # whoever asked is gone
        except Exception as error:  # noqa: BLE001  whatever stands there
            self._reply(file, {"error": f"the request cannot be read: {error!r}"})
            return
        if is_submit:
            threading.Thread(
                target=self._answer, args=(jobs, file, request), name=file.stem, daemon=True
            ).start()
        else:
            self._answer(jobs, file, request)

    def _answer(self, jobs: Jobs, file: Path, request: Mapping[str, Any]) -> None:
        answer: dict[str, Any]
        try:
            answer = {"result": self._result(jobs, request)}
        except BaseException as error:  # noqa: BLE001  a job's file may raise anything, and end
            answer = {"error": _told(error, request.get("file", ""))}
        self._reply(file, answer)

    def _result(self, jobs: Jobs, request: Mapping[str, Any]) -> Any:
        match request["do"]:
            case "submit":
                found = _jobs_in(request["file"], request["source"])
                if self._ends.is_set():
                    raise InputError(ENDED)
                jobs.submit(*found)
                return [job.name for job in found]
            case "list":
                return [asdict(job) | {"losses": list(job.losses[-1:])} for job in jobs.jobs()]
            case "cancel":
                return jobs.cancel(request["name"])
            case "logs":
                return jobs.logs(request["name"])
            case other:
                raise InputError(f"request is {other!r}: allowed is submit, list, cancel, logs")

    def _reply(self, file: Path, answer: Mapping[str, Any]) -> None:
        with self._writes:
            if not self._is_closed:
                self._write(file, answer)

    def _write(self, file: Path, answer: Mapping[str, Any]) -> None:
        """Answer a request that was taken, unless whoever asked is gone."""
        target = self._path / _ANSWERS / file.with_suffix(_NEW).name
        try:
            _move_in(target, answer)
            try:
                file.unlink()
            except FileNotFoundError:
                target.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("dagopt: a request of `dagopt train` cannot be answered: %s", error)


def ask(path: str, request: Mapping[str, Any], timeout_s: float) -> Any:
    """What the application answers.

    Raises:
        InputError: there is no such folder, it is open to others, nobody answers, or the application
            says that the request is wrong.
    """
    folder = Path(path)
    if not (folder / _REQUESTS).is_dir():
        raise InputError(f"spool '{path}' is not there: expected the folder of a running Scheduler")
    _check_owner(folder)
    name = f"{time.time_ns():020d}-{uuid.uuid4().hex}{_NEW}"
    new, file = folder / _REQUESTS / name, folder / _ANSWERS / name
    until_s, why = time.monotonic() + timeout_s, ""
    try:
        _move_in(new, request)
        # In this order: a request that was taken is there until its answer is.
        while new.exists() or (new.with_suffix(_TAKEN).exists() and not file.exists()):
            if time.monotonic() > until_s:
                why = _withdraw(new)
                break
            time.sleep(_POLL_S)
    except OSError as error:
        raise InputError(f"spool '{path}' cannot be used: {error}") from error
    except KeyboardInterrupt:
        _withdraw(new)
        raise
    try:
        answer = json.loads(file.read_text("utf-8"))
        file.unlink(missing_ok=True)
    except FileNotFoundError:
        why = f"{why} within {timeout_s:g} s" if why else "was removed, ask again"
        raise InputError(f"no application answers at spool '{path}': the request {why}") from None
    if "error" in answer:
        raise InputError(answer["error"])
    return answer["result"]


# Private functions


def _take(file: Path) -> Path | None:
    """Take a request; its new name, or None if it is not there any longer."""
    taken = file.with_suffix(_TAKEN)
    try:
        file.rename(taken)
    except FileNotFoundError:
        return None
    return taken


def _withdraw(new: Path) -> str:
    """Remove a request; what had become of it, empty if its answer is there."""
    with contextlib.suppress(FileNotFoundError):
        new.unlink()
        return "was taken by nobody"
    with contextlib.suppress(FileNotFoundError):
        new.with_suffix(_TAKEN).unlink()
        return "was taken and may be carried out still, but was not answered"
    return ""


def _jobs_in(file: str, source: str) -> list[TrainJob | SweepJob]:
    """The jobs that a file makes, in its order."""
    module = load_by_value(f"dagopt_job_{uuid.uuid4().hex}", source, file)
    # One that has two names is one job.
    found = {id(one): one for one in vars(module).values() if isinstance(one, (TrainJob, SweepJob))}
    if not found:
        raise InputError(f"{file} has no TrainJob and no SweepJob, expected job = TrainJob(...)")
    return list(found.values())


def _told(error: BaseException, file: str) -> str:
    """An error in a line, with the line of the job's file that it came from."""
    found = traceback.TracebackException.from_exception(error)
    frames = [frame for frame in found.stack if frame.filename == file]
    kind = type(error).__name__
    if isinstance(error, SyntaxError) and found.filename == file:
        return f'File "{file}", line {found.lineno}: {kind}: {found.msg}'
    message = " ".join(str(found).split())
    what = message if isinstance(error, DagoptError) else f"{kind}: {message}"
    if not frames:
        return what
    return f'File "{file}", line {frames[-1].lineno}, in {frames[-1].name}: {what}'


def _check_owner(folder: Path) -> None:
    found = folder.stat()
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise InputError(f"spool '{folder}' must be yours and closed to others (chmod 700)")


def _lock(folder: Path) -> IO[str]:
    """Lock a folder as long as the file is open that this gives."""
    import fcntl  # noqa: PLC0415  not on Windows, where the command line must start

    lock = (folder / _LOCK).open("a+", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.seek(0)
        who = lock.read() or "another one"
        lock.close()
        if not isinstance(error, BlockingIOError):
            raise
        raise InputError(f"spool '{folder}' has a scheduler already: {who}") from None
    lock.truncate(0)
    lock.write(f"process {os.getpid()} on {socket.gethostname()}")
    lock.flush()
    return lock


def _move_in(file: Path, content: Mapping[str, Any]) -> None:
    part = file.with_suffix(".part")
    part.write_text(json.dumps(content), "utf-8")
    part.replace(file)
