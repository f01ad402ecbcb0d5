"""What a task of a phase does: reads the state, iterates until the phase's time is over, writes the state.

All ranks do the same iterations: rank 0 says when the phase ends, and whoever fails says so, in a sum
before that of the gradients. So an error in one rank ends the phase of all at the same iteration.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dagopt.spark.devices import task_address
from dagopt.spark.phases import dumps, task_attempt
from dagopt.train.collective import Group
from dagopt.train.job import TrainJob, micro_batches
from dagopt.tune.checkpoint import STATES, Store
from dagopt.tune.trainable import leaves, with_leaves
from dagopt.tune.worker import freed_memory_kept, one_thread

_NO_MODULE = (
    "executors need it too, by spark.sparkContext.addPyFile or spark.executorEnv.PYTHONPATH"
)

_MOST_OUTPUT = 20_000
"""Characters of a phase's output that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseWork:
    """What one rank of a phase gets."""

    rank: int
    size: int
    number: int
    """Of the phase, from 0."""
    first: int
    """Iterations done."""
    phase_s: float
    """Seconds after which it comes to its boundary, unless it is asked for one before."""
    look_s: float
    """Seconds between looks whether it is."""
    state: str
    """File of the state; empty before the first iteration."""
    scheduler: str = ""
    """In the names of the phase's files: tasks of one that was killed may write still."""


@dataclass(slots=True, kw_only=True)
class PhaseOutcome:
    """What a rank reports at the boundary."""

    rank: int
    address: str
    """The accelerator that Spark gave it."""
    losses: list[float] = field(default_factory=list)
    """Of the global batch, one an iteration that was done."""
    step_s: list[float] = field(default_factory=list)
    """Seconds of each."""
    sync_s: list[float] = field(default_factory=list)
    """Of these, seconds of the sums."""
    gradient_bytes: int = 0
    start_s: float = 0.0
    """Epoch seconds of the first iteration's start."""
    end_s: float = 0.0
    """Epoch seconds of the last one's end."""
    state: str = ""
    """File of the state, of rank 0."""
    output: str = ""
    """What the training printed, of rank 0."""
    error: str = ""
    """The traceback of what it raised."""
    lost: str = ""
    """What the storage said, where it did not give the state, or take it: no fault of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """Called in tasks, each with the work of its rank."""

    broadcast: Any
    """Spark's broadcast of what :func:`packed` gives."""

    def __call__(self, work: PhaseWork, hosts: Sequence[str]) -> PhaseOutcome:
        """Run the phase."""
        content, path, wait_s = pickle.loads(self.broadcast.value)  # noqa: S301  ours
        store = Store(path)
        job, error = None, ""
        try:
            job = pickle.loads(content)  # noqa: S301  ours
        except ModuleNotFoundError:
            error = f"{traceback.format_exc().rstrip()}: {_NO_MODULE}"
        except BaseException:  # noqa: BLE001  runs the user's imports
            error = traceback.format_exc()
        group = Group(work.rank, work.size, hosts, store, _name(work, "rendezvous"), wait_s)
        try:
            if job is None:
                return _refuse(work, group, error)
            with freed_memory_kept(), one_thread():
                return run_phase(job, work, group, store)
        finally:
            group.close()


def packed(job: TrainJob, path: str, pickled: bytes = b"") -> bytes:
    """A job for its workers, with the path of its store; ``pickled`` is the job, where it is known.

    The job is a pickle in a pickle: a rank that cannot read it must tell the others all the same.
    """
    return pickle.dumps((pickled or dumps(job), path, job.deadline_s))


def run_phase(
    job: TrainJob,
    work: PhaseWork,
    group: Group,
    store: Store,
    clock: Callable[[], float] = time.time,
    timer: Callable[[], float] = time.perf_counter,
) -> PhaseOutcome:
    """Run the phase of one rank in this process.

    Args:
        job: the job.
        work: what this rank gets.
        group: all ranks.
        store: of the job's files.
        clock: epoch seconds; it may be set back meanwhile.
        timer: seconds that never fall.

    Raises:
        CommunicationError: another rank went away.
    """
    outcome = PhaseOutcome(rank=work.rank, address=task_address() or "")
    printed = _Printed()
    state: Any = None
    with contextlib.redirect_stdout(printed):
        try:
            state = _load(job, work, store, outcome)
        except BaseException:  # noqa: BLE001  the user's code may raise anything
            outcome.error = traceback.format_exc()
        outcome.start_s = outcome.end_s = clock()
        began_s = timer()
        ending = _Ending(work, store, began_s)
        for iteration in range(work.first, job.num_iterations):
            if not _iterate(job, state, iteration, group, outcome, ending, timer):
                break
        outcome.end_s = outcome.start_s + ending.done_s - began_s
        if work.rank == 0 and outcome.losses and not outcome.error:
            _save(state, _name(work, task_attempt()), store, outcome)
    outcome.output = printed.text()[-_MOST_OUTPUT:] if work.rank == 0 else ""
    return outcome


def stop_name(number: int, scheduler: str = "") -> str:
    """Name of the file that asks a phase for its boundary."""
    return f"{STATES}/{number:06d}-{scheduler}-stop"


# Private functions


def _name(work: PhaseWork, what: str) -> str:
    return f"{STATES}/{work.number:06d}-{work.scheduler}-{what}"


class _Printed(io.TextIOWrapper):
    """What a training prints, as text or as bytes; it cannot close it."""

    def __init__(self) -> None:
        self._bytes = io.BytesIO()
        super().__init__(self._bytes, "utf-8", "backslashreplace", newline="", write_through=True)

    def close(self) -> None:
        """Stay as it is."""

    def text(self) -> str:
        return self._bytes.getvalue().decode(errors="backslashreplace")


class _Ending:
    """Whether the iteration that runs is the phase's last one; only rank 0 says so."""

    def __init__(self, work: PhaseWork, store: Store, start_s: float) -> None:
        self._work, self._store = work, store
        self._end_s = start_s + work.phase_s
        self._looked_s = start_s
        self.done_s = start_s
        """When the last iteration was done."""

    def is_near(self, now_s: float) -> bool:
        if self._work.rank != 0:
            return False
        if now_s >= self._end_s:
            return True
        if now_s - self._looked_s < self._work.look_s:
            return False
        self._looked_s = now_s
        # Storage that does not answer asks for nothing.
        with contextlib.suppress(OSError):
            self._store.read(stop_name(self._work.number, self._work.scheduler))
            return True
        return False


def _refuse(work: PhaseWork, group: Group, error: str) -> PhaseOutcome:
    """Tell the other ranks, in their first sum, that there is nothing to do."""
    group.sum(np.array([0.0, 1.0, 0.0]))
    return PhaseOutcome(rank=work.rank, address=task_address() or "", error=error)


def _load(job: TrainJob, work: PhaseWork, store: Store, outcome: PhaseOutcome) -> Any:
    if not work.state:
        return job.training.init(job.seed)
    try:
        content = store.read(work.state)
    except OSError as error:
        outcome.lost = f"its state cannot be read: {error}"
        return None
    return pickle.loads(content)  # noqa: S301  ours


def _save(state: Any, name: str, store: Store, outcome: PhaseOutcome) -> None:
    try:
        content = dumps(state)
    except BaseException:  # noqa: BLE001  the user's objects may raise anything
        outcome.error = traceback.format_exc()
        return
    try:
        store.write(name, content)
    except OSError as error:
        outcome.lost = f"its state cannot be written: {error}"
    else:
        outcome.state = name


def _iterate(
    job: TrainJob,
    state: Any,
    iteration: int,
    group: Group,
    outcome: PhaseOutcome,
    ending: _Ending,
    timer: Callable[[], float],
) -> bool:
    """One iteration; whether another one follows."""
    began_s = timer()
    loss, shape, total = 0.0, None, None
    try:
        if not (outcome.error or outcome.lost):
            loss, shape, total = _accumulate(job, state, iteration, group)
    except BaseException:  # noqa: BLE001  the user's code may raise anything
        outcome.error = traceback.format_exc()
    computed_s = timer()
    is_over = ending.is_near(computed_s)
    told = np.array([loss, bool(outcome.error or outcome.lost), is_over], dtype=np.float64)
    group.sum(told)
    if told[1] > 0 or total is None:
        return False
    group.sum(total)
    summed_s = timer()
    try:
        total /= job.global_batch
        job.training.update(state, _split(shape, total), iteration)
    except BaseException:  # noqa: BLE001  the user's code may raise anything
        outcome.error = traceback.format_exc()
        return iteration + 1 < job.num_iterations and told[2] == 0
    ending.done_s = timer()
    outcome.losses.append(float(told[0]) / job.global_batch)
    outcome.step_s.append(ending.done_s - began_s)
    outcome.sync_s.append(summed_s - computed_s)
    outcome.gradient_bytes = total.nbytes
    return bool(told[2] == 0)


def _accumulate(
    job: TrainJob, state: Any, iteration: int, group: Group
) -> tuple[float, Any, NDArray[np.float64]]:
    """Sums over the examples of this rank: loss, a gradient for its structure, and all of them flat."""
    loss, shape = 0.0, None
    total = np.zeros(0)
    for indices in micro_batches(job, iteration, group.rank, group.size):
        mean, shape = job.training.gradients(state, job.training.batch(indices))
        arrays = [np.asarray(leaf) for leaf in leaves(shape)]
        if not arrays:
            raise TypeError("gradients are no arrays in dicts, lists and tuples")
        flat = np.concatenate([array.ravel() for array in arrays], dtype=np.float64)
        if total.size not in (0, flat.size):
            raise ValueError(f"gradients are {flat.size} numbers, those before were {total.size}")
        flat *= len(indices)
        total = flat if not total.size else total + flat
        loss += float(mean) * len(indices)
    return loss, shape, total


def _split(shape: Any, total: NDArray[np.float64]) -> Any:
    """The flat sums in the structure of a gradient."""
    arrays, at = [], 0
    for leaf in leaves(shape):
        arrays.append(total[at : at + leaf.size].reshape(leaf.shape).astype(leaf.dtype))
        at += leaf.size
    return with_leaves(shape, arrays)
