"""A task set and the bytes that each of its tasks reads from each host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dagopt.errors import InputError
from dagopt.model.wire import OuterInputs, ShuffleType, SparseInputs, TaskSetSubmitted

MAX_TASKS = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskInputs:
    """Bytes of T tasks from H hosts, compressed by rows; or one shared row for all.

    With ``shared`` false, task t reads ``bytes_[offsets[t]:offsets[t+1]]`` from
    ``hosts[offsets[t]:offsets[t+1]]``. With ``shared`` true there is one row, the share of each
    host, and task t reads ``task_bytes[t]`` times it: the margins of a large all-to-all shuffle.
    """

    host_names: tuple[str, ...]
    """``(H,)`` names, each once."""

    task_bytes: NDArray[np.float64]
    """``(T,)`` bytes per task, >= 0."""

    offsets: NDArray[np.int64]
    """``(T + 1,)``, or ``(2,)`` when shared."""

    hosts: NDArray[np.int64]
    """``(N,)`` index into ``host_names``."""

    bytes_: NDArray[np.float64]
    """``(N,)`` bytes, or fractions that sum to 1 when shared."""

    shared: bool

    @property
    def num_tasks(self) -> int:
        """T."""
        return int(self.task_bytes.size)

    @property
    def num_hosts(self) -> int:
        """H."""
        return len(self.host_names)

    def of_tasks_from(self, tasks: Sequence[int], host: int) -> NDArray[np.float64]:
        """``(len(tasks),)`` bytes that some tasks read from one host."""
        if self.shared:
            share = float(self.bytes_[self.hosts == host].sum())
            return self.task_bytes[np.asarray(tasks, dtype=np.int64)] * share
        out = np.zeros(len(tasks))
        for place, task in enumerate(tasks):
            row = slice(self.offsets[task], self.offsets[task + 1])
            out[place] = self.bytes_[row][self.hosts[row] == host].sum()
        return out

    def dense(self) -> NDArray[np.float64]:
        """``(T, H)`` bytes; for small sets and tests."""
        out = np.zeros((self.num_tasks, self.num_hosts))
        if self.shared:
            out[:, self.hosts] = self.task_bytes[:, None] * self.bytes_
            return out
        rows = np.repeat(np.arange(self.num_tasks), np.diff(self.offsets))
        np.add.at(out, (rows, self.hosts), self.bytes_)
        return out


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskSet:
    """The tasks of one stage attempt that were submitted together."""

    stage: int
    attempt: int
    name: str
    signature: str
    """Names the same stage in another run of the program."""

    pool: str
    shuffle_types: frozenset[ShuffleType]
    inputs: TaskInputs
    preferred: bool
    """Spark has locality preferences for the tasks."""

    partial: bool
    """Some input could not be read, so the bytes are a lower bound."""

    @property
    def num_tasks(self) -> int:
        """T, at least 1."""
        return self.inputs.num_tasks


def row_sums(values: NDArray[np.float64], offsets: NDArray[np.int64]) -> NDArray[np.float64]:
    """``(T,)`` sums of consecutive runs of ``values``; an empty run sums to 0."""
    totals = np.concatenate(([0.0], np.cumsum(values)))
    return totals[offsets[1:]] - totals[offsets[:-1]]


def task_inputs(message: TaskSetSubmitted) -> TaskInputs:
    """The inputs that a message states, checked.

    Raises:
        InputError: a length, an index, a sign or an order is wrong; the message names it.
    """
    where = f"stage {message.stage}.{message.attempt}"
    num_tasks, num_hosts = message.num_tasks, len(message.hosts)
    if not 1 <= num_tasks <= MAX_TASKS:
        raise InputError(f"{where}: num_tasks is {num_tasks}, must be 1 to {MAX_TASKS}")
    if len(set(message.hosts)) != num_hosts:
        raise InputError(f"{where}: hosts names a host twice")
    match message.inputs:
        case SparseInputs() as sparse:
            inputs = _sparse(where, tuple(message.hosts), num_tasks, sparse)
        case OuterInputs() as outer:
            inputs = _outer(where, tuple(message.hosts), num_tasks, outer)
    for array in (inputs.task_bytes, inputs.offsets, inputs.hosts, inputs.bytes_):
        array.setflags(write=False)
    return inputs


def _sparse(where: str, names: tuple[str, ...], num_tasks: int, raw: SparseInputs) -> TaskInputs:
    offsets = np.asarray(raw.offsets, dtype=np.int64)
    hosts = np.asarray(raw.hosts, dtype=np.int64)
    bytes_ = np.asarray(raw.bytes, dtype=np.float64)
    if offsets.size != num_tasks + 1 or offsets[0] != 0 or (np.diff(offsets) < 0).any():
        raise InputError(f"{where}: offsets must be {num_tasks + 1} rising numbers from 0")
    if not hosts.size == bytes_.size == offsets[-1]:
        raise InputError(f"{where}: hosts and bytes must have {offsets[-1]} entries")
    if hosts.size and (hosts.min() < 0 or hosts.max() >= len(names)):
        raise InputError(f"{where}: a host index is outside 0..{len(names) - 1}")
    if bytes_.size and bytes_.min() < 0:
        raise InputError(f"{where}: a byte count is negative")
    return TaskInputs(
        host_names=names,
        task_bytes=row_sums(bytes_, offsets),
        offsets=offsets,
        hosts=hosts,
        bytes_=bytes_,
        shared=False,
    )


def _outer(where: str, names: tuple[str, ...], num_tasks: int, raw: OuterInputs) -> TaskInputs:
    task_bytes = np.asarray(raw.task_bytes, dtype=np.float64)
    host_bytes = np.asarray(raw.host_bytes, dtype=np.float64)
    if task_bytes.size != num_tasks or host_bytes.size != len(names):
        raise InputError(
            f"{where}: task_bytes must have {num_tasks} entries, host_bytes {len(names)}"
        )
    if task_bytes.min() < 0 or (host_bytes.size and host_bytes.min() < 0):
        raise InputError(f"{where}: a byte count is negative")
    total = host_bytes.sum()
    present = np.flatnonzero(host_bytes > 0)
    return TaskInputs(
        host_names=names,
        task_bytes=task_bytes if total > 0 else np.zeros(num_tasks),
        offsets=np.array([0, present.size], dtype=np.int64),
        hosts=present.astype(np.int64),
        bytes_=host_bytes[present] / total if total > 0 else host_bytes[present],
        shared=True,
    )
