"""What a task of a phase does: reads the states of its trials, runs the group, writes the states."""

from __future__ import annotations

import ctypes
import importlib
import pickle
import socket
import traceback
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

from dagopt.spark.devices import array_module
from dagopt.spark.phases import dumps, task_attempt
from dagopt.tune.checkpoint import Store, states_name
from dagopt.tune.engine import run_group
from dagopt.tune.phase import GroupOutcome, GroupWork
from dagopt.tune.trainable import State

_KEEP: Final = ((-3, 32 << 20), (-1, 512 << 20), (-2, 16 << 20))
"""Of malloc.h: M_MMAP_THRESHOLD at its maximum, M_TRIM_THRESHOLD, M_TOP_PAD; in bytes."""

_GIVE_BACK: Final = ((-1, 64 << 20), (-2, 128 << 10))
"""What glibc itself comes to where arrays of 32 MiB are freed. Its adaptation cannot be turned on again."""


_NOT_SENT: Final = (
    ", which has the trainable or the data: give it to executors with spark.sparkContext.addPyFile, or in"
    " spark.executorEnv.PYTHONPATH"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """Called in tasks with a group's work."""

    broadcast: Any
    """Spark's broadcast of a pickled :class:`Sweep`."""

    def __call__(self, work: GroupWork) -> tuple[GroupOutcome, str]:
        """What was measured, and the file that has the states."""
        try:
            sweep = pickle.loads(self.broadcast.value)  # noqa: S301  ours
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(f"{error}{_NOT_SENT}", name=error.name) from error
        return run_work(sweep, work)


def not_sent(error: Exception) -> str:
    """What a task said, if it could not import the module of the trainable or the data; else empty."""
    lines = (line for line in str(error).splitlines() if line.endswith(_NOT_SENT))
    return next(lines, "").partition("ModuleNotFoundError: ")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What all tasks of a sweep share."""

    trainable: Any
    data: Any
    path: str
    application: str
    """Spark's name of it."""
    metric: str


def run_work(sweep: Sweep, work: GroupWork) -> tuple[GroupOutcome, str]:
    """Run a group's phase in this process."""
    store = Store(sweep.path)
    wanted = {one.trial for one in work.trials}

    def load() -> Mapping[int, State]:
        found: dict[int, State] = {}
        for name in work.sources:
            states = pickle.loads(store.read(name))  # noqa: S301  ours
            found.update({trial: states[trial] for trial in wanted & states.keys()})
        return found

    with freed_memory_kept(), one_thread():
        outcome, states = run_group(
            work, sweep.trainable, sweep.data, load, array_module(), sweep.metric
        )
    name = states_name(work.phase, work.number, sweep.application, task_attempt())
    store.write(name, pickled_states(outcome, states))
    outcome.place = socket.gethostname()
    return outcome, name


def pickled_states(outcome: GroupOutcome, states: dict[int, State]) -> bytes:
    """The states in one; a trial whose own cannot be pickled fails."""
    try:
        return dumps(states)
    except Exception:  # noqa: BLE001  the user's objects may raise anything
        for one in outcome.trials:
            one.error = one.error or _pickle_error(states[one.trial])
        failed = {one.trial for one in outcome.trials if one.error}
        return dumps({trial: state for trial, state in states.items() if trial not in failed})


def _pickle_error(state: State) -> str:
    try:
        dumps(state)
    except Exception:  # noqa: BLE001  as above
        return traceback.format_exc()
    return ""


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Has the C library keep what arrays free, instead of giving it back to the system.

    Steps allocate the same arrays again and again. Above 128 KiB glibc maps each anew, and touching its
    pages for the first time takes longer than the arithmetic: with it 8 to 32 stacked trials of a
    64-64-10 network take two thirds of the time. Afterwards it is given back, since Spark runs other
    tasks in the same process. Other C libraries are left alone.
    """
    try:
        libc = ctypes.CDLL(None)
        set_option, trim = libc.mallopt, libc.malloc_trim
    except (AttributeError, OSError, TypeError):
        yield
        return
    for option, size_bytes in _KEEP:
        set_option(option, size_bytes)
    try:
        yield
    finally:
        for option, size_bytes in _GIVE_BACK:
            set_option(option, size_bytes)
        trim(ctypes.c_size_t(0))


def one_thread() -> AbstractContextManager[Any]:
    """Keeps numerical libraries to the one core that the task has."""
    try:
        threadpoolctl = importlib.import_module("threadpoolctl")
    except ImportError:  # Spark limits OpenMP by itself, by the environment
        return nullcontext()
    limits: AbstractContextManager[Any] = threadpoolctl.threadpool_limits(limits=1)
    return limits
