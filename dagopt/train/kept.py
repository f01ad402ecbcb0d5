"""What a scheduler keeps of its jobs, so that another one can go on with them.

A job has a folder ``scheduler/job`` in the checkpoint folder, and in it ``record``: the job as it was
submitted, and a file a boundary with what is new since the one before. All are written as a whole, a
boundary's when its state is there, and older states are deleted after that; so at any moment the files
name a state that is there, and what they hold grows as the losses do. One that failed or was
cancelled is over when its file is deleted; one that is done is listed by the next scheduler too, unless
its own ends by itself. A sweep has boundaries of its own besides, from which its tuner goes on.
"""

from __future__ import annotations

import contextlib
import json
import logging
import pickle
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from dagopt.errors import InputError
from dagopt.spark.phases import PastFrame, dumps, is_frame
from dagopt.train.job import Job, TrainJob
from dagopt.train.owners import JOB, OWNER, RECORD, Beats, claimed, owner_of
from dagopt.train.records import Record
from dagopt.train.sweep import SweepJob
from dagopt.tune.checkpoint import STATES, Store, boundary_name, within

logger = logging.getLogger(__name__)

_TAKEN_OVER = "another scheduler has taken the job over"
_GONE = "its files in checkpoint are gone: deleted, or another scheduler has ended the job"


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What a job did under schedulers before."""

    age_s: float = 0.0
    """Since it was submitted."""
    done: int = 0
    losses: tuple[float, ...] = ()
    log: tuple[str, ...] = ()
    state: str = ""
    num_phases: int = 0
    num_moves: int = 0
    num_restarts: int = 0
    attained_s: float = 0.0

    def then(self, content: bytes) -> Past:
        """With what the file of the next boundary says."""
        said = json.loads(content)
        if said.pop("first") != len(self.losses):
            raise ValueError("it does not follow the one before")
        losses = (*self.losses, *said.pop("losses"))
        return replace(self, losses=losses, log=(*self.log, *said.pop("log")), **said)

    def put_into(self, record: Record) -> None:
        """Let a new record go on from here."""
        record.arrived_s -= self.age_s
        record.load = replace(record.load, done=self.done)
        record.losses, record.log, record.state = list(self.losses), list(self.log), self.state
        record.num_phases, record.num_moves = self.num_phases, self.num_moves
        record.num_restarts, record.attained_s = self.num_restarts, self.attained_s
        if self.is_done(record.job):
            record.status = "done"
        else:
            record.log.append(f"dagopt: resumed from iteration {self.done}")

    def is_done(self, job: Job) -> bool:
        """Whether nothing is left to do; a sweep finds that out itself, with its result."""
        return isinstance(job, TrainJob) and self.done >= job.num_iterations


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A job that goes on."""

    job: TrainJob | SweepJob
    pickled: bytes
    """The job."""
    submitted: tuple[float, int]
    """When it was, in epoch seconds and in the order of its scheduler."""
    past: Past


@dataclass(slots=True, kw_only=True)
class _Files:
    """Of one job."""

    store: Store
    folder: str
    """Relative to the checkpoint folder."""
    has_record: bool = False
    number: int = 0
    """Boundaries that are written."""
    num_losses: int = 0
    num_lines: int = 0
    state: str = ""
    """Which the last of them names."""
    has_ended: bool = False


class Kept:
    """The files of a scheduler's jobs; methods are called one at a time.

    Args:
        path: of the checkpoint folder.
        scheduler: name of the scheduler, unlike any other.
        is_lasting: whether another scheduler may go on with the jobs.
    """

    def __init__(self, path: str, scheduler: str, *, is_lasting: bool) -> None:
        self._root = Store(path, "")
        self._scheduler = scheduler
        self._files: dict[str, _Files] = {}
        self._num_begun = 0
        self._is_left = False
        self._beats = Beats(self._root.path, scheduler) if is_lasting else None

    @property
    def is_lasting(self) -> bool:
        """Whether another scheduler may go on with the jobs."""
        return self._beats is not None

    def path_of(self, name: str) -> str:
        """Folder of a job."""
        known = self._files.get(name)
        if known is not None:
            return known.store.path
        return within(self._root.path, f"{self._scheduler}/{name}")

    def store(self, name: str) -> Store:
        """The files of a job."""
        return self._files[name].store

    def begin(self, job: TrainJob | SweepJob, content: bytes) -> None:
        """Keep a job that is submitted.

        Args:
            job: the job.
            content: its pickle; empty for one that cannot be resumed.

        Raises:
            InputError: the checkpoint folder does not take it.
        """
        store = Store(self.path_of(job.name))
        files = _Files(store=store, folder=f"{self._scheduler}/{job.name}")
        if content and self.is_lasting:
            submitted = time.time(), self._num_begun
            try:
                record = Store(store.path, RECORD)
                record.write(OWNER, self._scheduler.encode())
                record.write(JOB, pickle.dumps((submitted, content)))
            except OSError as error:
                with contextlib.suppress(OSError):
                    store.remove()
                raise InputError(
                    f"checkpoint is '{store.path}', which cannot be written: {error}"
                ) from error
            files.has_record = True
        self._num_begun += 1
        self._files[job.name] = files

    def undo(self, name: str) -> None:
        """Forget a job that was not submitted after all."""
        if name in self._files:
            self.end(name, (), clears=True)
            del self._files[name]

    def forget(self, name: str) -> None:
        """Leave the files of a job that cannot go on here as they are."""
        del self._files[name]

    def boundary(self, name: str, record: Record) -> str:
        """Write down where a job is; why it is not this scheduler's any longer, empty if it is.

        Older states are deleted after that. What cannot be written is at the next boundary.
        """
        files = self._files[name]
        if self._is_left or files.has_ended or (record.is_over and record.status != "done"):
            return ""
        why = self._why_not_ours(files)
        if why:
            return why
        try:
            if files.has_record:
                self._write(files, record)
            if isinstance(record.job, TrainJob):
                files.store.keep(STATES, {record.state, files.state})
        except OSError as error:
            logger.warning("dagopt: a boundary of job %s cannot be written: %s", name, error)
        return ""

    def close(self, name: str) -> None:
        """A job is over, though files of it may be written yet: nobody is to go on with it."""
        files = self._files[name]
        if self._is_left or not files.has_record or self._why_not_ours(files):
            return
        try:
            files.store.delete(JOB)
        except OSError as error:
            file = f"{files.store.path}/{JOB}"
            logger.warning(
                "dagopt: '%s' cannot be deleted, so %s may be resumed: %s", file, name, error
            )

    def end(self, name: str, states: Collection[str] | None, *, clears: bool = False) -> None:
        """A job is over, and files of it are not written any more.

        Args:
            name: of the job.
            states: which files of states stay; None for all.
            clears: whether nothing stays at all.
        """
        files = self._files[name]
        if self._is_left or files.has_ended or self._why_not_ours(files):
            return
        try:
            files.store.delete(JOB)
            files.store.remove(RECORD)
            files.has_record = False
            if clears:
                files.store.remove()
            elif states is not None:
                files.store.keep(STATES, states)
            self._prune(files)
            files.has_ended = True
        except OSError as error:
            logger.warning("dagopt: files of job %s cannot be deleted: %s", name, error)

    def leave(self) -> None:
        """The scheduler has failed: somebody else may go on with jobs that are not over."""
        if not self._is_left:
            self._is_left = True
            if self._beats is not None:
                self._beats.stop()

    def finish(self, done: Mapping[str, Collection[str] | None]) -> None:
        """The scheduler ends, and all jobs with it.

        Args:
            done: which files of states stay of those that are done, as for :meth:`end`; of others nothing does.
        """
        for name, files in self._files.items():
            files.has_ended = False
            self.end(name, done.get(name, ()), clears=name not in done)
        self.leave()

    def resumed(self) -> list[Found]:
        """The unfinished jobs of dead schedulers, in the order in which they were submitted.

        One that cannot be read is told, and left as it is.

        Raises:
            InputError: the checkpoint folder cannot be read.
        """
        try:
            folders = claimed(self._root, self._scheduler)
        except OSError as error:
            raise InputError(
                f"checkpoint is '{self._root.path}', which cannot be read: {error}"
            ) from error
        found = [one for one in map(self._read, folders) if one is not None]
        found.sort(key=lambda each: each[0].submitted)
        newest = {one.job.name: one for one, _ in found}
        for one, files in found:
            if newest[one.job.name] is one:
                self._files[one.job.name] = files
            else:
                logger.warning(
                    "dagopt: a job is not resumed: '%s' was submitted before another one of that name",
                    files.store.path,
                )
                with contextlib.suppress(OSError):
                    files.store.delete(JOB)  # else it would be once the other one is over
        return [one for one, _ in found if newest[one.job.name] is one]

    # Private methods

    def _why_not_ours(self, files: _Files) -> str:
        if not files.has_record:
            return ""
        try:
            owner = owner_of(self._root, files.folder)
        except OSError:
            return ""  # it is seen the next time
        if owner == self._scheduler:
            return ""
        return _TAKEN_OVER if owner else _GONE

    def _write(self, files: _Files, record: Record) -> None:
        said = {
            "first": files.num_losses,
            "losses": list(map(float, record.losses[files.num_losses :])),
            "log": record.log[files.num_lines :],
            "done": record.load.done,
            "state": record.state,
            "num_phases": record.num_phases,
            "num_moves": record.num_moves,
            "num_restarts": record.num_restarts,
            "attained_s": record.attained_s,
        }
        name = f"{RECORD}/{boundary_name(files.number)}"
        files.store.write(name, json.dumps(said).encode())
        files.number += 1
        files.num_losses, files.num_lines = len(record.losses), len(record.log)
        files.state = record.state

    def _prune(self, files: _Files) -> None:
        """Remove folders that are empty now, also that of a scheduler before."""
        files.store.prune()
        scheduler = files.folder.partition("/")[0]
        if scheduler != self._scheduler:
            Store(within(self._root.path, scheduler), "").prune()

    def _read(self, folder: str) -> tuple[Found, _Files] | None:
        """A job, and where it is; None where a file is broken or missing."""
        store, name, past = Store(within(self._root.path, folder)), JOB, Past()
        try:
            submitted, pickled = pickle.loads(store.read(JOB))  # noqa: S301  ours
            job = pickle.loads(pickled)  # noqa: S301  ours
            if not isinstance(job, (TrainJob, SweepJob)):
                raise TypeError(f"it has a {type(job).__name__}")  # noqa: TRY301
            replace(job)  # its class may be another one now, which is to be told before it fails
            names = [one for one in store.files(RECORD) if one.startswith(boundary_name(0)[:9])]
            number = sum(not one.endswith(".part") for one in names)
            for at in range(number):
                name = f"{RECORD}/{boundary_name(at)}"
                past = past.then(store.read(name))
            name = past.state
            if name:
                store.input(name).close()
        except (Exception, SystemExit) as error:  # noqa: BLE001  unpickling runs the user's imports
            file = f"{store.path}/{name}"
            logger.warning("dagopt: a job is not resumed: '%s' cannot be read: %r", file, error)
            return None
        past = replace(past, age_s=max(0.0, time.time() - submitted[0]))
        files = _Files(
            store=store,
            folder=folder,
            has_record=True,
            number=number,
            num_losses=len(past.losses),
            num_lines=len(past.log),
            state=past.state,
        )
        return Found(job=job, pickled=pickled, submitted=submitted, past=past), files


def pickled_sweep(job: SweepJob) -> bytes:
    """A sweep, which another driver can begin; empty, with a warning, where it cannot be pickled.

    Of a DataFrame only the columns are kept: its rows are in the checkpoint from the first boundary on.
    """
    try:
        if is_frame(job.data) and not isinstance(job.data, PastFrame):
            job = replace(job, data=PastFrame(tuple(map(tuple, job.data.dtypes))))
        return dumps(job)
    except Exception as error:  # noqa: BLE001  the user's objects may raise anything
        logger.warning(
            "dagopt: job %s cannot be pickled, so it is not resumed if the driver is killed: %s",
            job.name,
            error,
        )
        return b""
