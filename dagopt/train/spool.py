"""Requests of ``dagopt train`` to a running application, and its answers: files in a folder.

Each file is moved into place as a whole. A job's file is code that the application runs, so the folder
must be its owner's, and closed to everybody else; both sides check that.
"""

from __future__ import annotations

import json
import os
import stat
import time
import traceback
import uuid
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from dagopt.errors import DagoptError, InputError
from dagopt.spark.phases import load_by_value
from dagopt.train.job import TrainJob
from dagopt.train.records import JobStatus

_REQUESTS, _ANSWERS, _POLL_S = "requests", "answers", 0.05


class Jobs(Protocol):
    """What requests are about: a :class:`dagopt.train.Scheduler`."""

    def submit(self, job: TrainJob) -> None:
        """Hand in a job."""

    def jobs(self) -> list[JobStatus]:
        """All jobs."""

    def cancel(self, name: str) -> None:
        """End a job."""

    def logs(self, name: str) -> list[str]:
        """Its output."""


class Spool:
    """The application's side.

    Args:
        path: the folder; made if it is not there.

    Raises:
        InputError: it is somebody else's, or open to others.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        try:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name in (_REQUESTS, _ANSWERS):
                (self._path / name).mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise InputError(f"spool '{path}' cannot be made: {error}") from error
        _check_owner(self._path)

    def answer(self, jobs: Jobs) -> None:
        """Answer all requests that are there."""
        for file in sorted((self._path / _REQUESTS).glob("*.json")):
            answer: dict[str, Any]
            try:
                answer = {"result": _result(jobs, json.loads(file.read_text("utf-8")))}
            except DagoptError as error:
                answer = {"error": str(error)}
            except Exception:  # noqa: BLE001  the job's file may raise anything
                answer = {"error": traceback.format_exc()}
            file.unlink()
            _move_in(self._path / _ANSWERS / file.name, answer)

    def close(self) -> None:
        """Say to whoever asks still that nobody is here."""
        for file in (self._path / _REQUESTS).glob("*.json"):
            file.unlink()
            _move_in(self._path / _ANSWERS / file.name, {"error": "the application has ended"})


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
    name = f"{time.time_ns():020d}-{uuid.uuid4().hex}.json"
    _move_in(folder / _REQUESTS / name, request)
    file, until_s = folder / _ANSWERS / name, time.monotonic() + timeout_s
    while not file.exists():
        if time.monotonic() > until_s:
            (folder / _REQUESTS / name).unlink(missing_ok=True)
            raise InputError(f"no application answers at spool '{path}' within {timeout_s:g} s")
        time.sleep(_POLL_S)
    answer = json.loads(file.read_text("utf-8"))
    file.unlink()
    if "error" in answer:
        raise InputError(answer["error"].strip().rpartition("\n")[2])
    return answer["result"]


# Private functions


def _result(jobs: Jobs, request: Mapping[str, Any]) -> Any:
    match request.get("do"):
        case "submit":
            module = load_by_value(
                f"dagopt_job_{uuid.uuid4().hex}", request["source"], request["file"]
            )
            found = [one for one in vars(module).values() if isinstance(one, TrainJob)]
            if not found:
                raise InputError(f"{request['file']} has no TrainJob, expected job = TrainJob(...)")
            for job in found:
                jobs.submit(job)
            return [job.name for job in found]
        case "list":
            return [asdict(job) | {"losses": list(job.losses[-1:])} for job in jobs.jobs()]
        case "cancel":
            jobs.cancel(request["name"])
            return None
        case "logs":
            return jobs.logs(request["name"])
        case other:
            raise InputError(f"request is {other!r}: allowed is submit, list, cancel, logs")


def _check_owner(folder: Path) -> None:
    found = folder.stat()
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise InputError(f"spool '{folder}' must be yours and closed to others (chmod 700)")


def _move_in(file: Path, content: Mapping[str, Any]) -> None:
    part = file.with_suffix(".part")
    part.write_text(json.dumps(content), "utf-8")
    part.replace(file)
