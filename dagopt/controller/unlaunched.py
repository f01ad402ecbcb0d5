"""The tasks of a held set that no group holds yet, in launch order and by host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dagopt.model.task_set import TaskInputs

_WINDOW = 32
"""Unlaunched tasks that are looked at for the next one."""

_SCAN = 256
"""Places that are looked at for them: local tasks leave holes in the order."""

_FEW_HOSTS = 4
"""A task that reads from at most this many hosts, none of them its main source, is local to each."""


class Unlaunched:
    """Tasks by place in the launch order, each taken once."""

    def __init__(
        self, inputs: TaskInputs, source: NDArray[np.int64], order: NDArray[np.int64] | None
    ) -> None:
        """Tasks in ``order``.

        Args:
            inputs: of the task set.
            source: ``(T,)`` the host that each mainly reads from, or -1.
            order: ``(T,)`` launch order; None where no task is to be launched.
        """
        self._order: list[int] = order.tolist() if order is not None else []
        self._taken = bytearray(inputs.num_tasks)
        self._left = len(self._order)
        self._head = 0
        self._heads: dict[str, int] = {}
        self._local: dict[str, list[int]] = {}
        if order is not None:
            self._local = _tasks_by_host(inputs, source, order)

    def __len__(self) -> int:
        return self._left

    def take(self, task: int) -> None:
        """The task is in a group now; take it once."""
        self._taken[task] = True
        self._left -= 1

    def clear(self) -> None:
        """All of them are Spark's own business now."""
        self._order, self._left, self._head = [], 0, 0
        self._local.clear()

    def first(self, host: str, number: int) -> list[int]:
        """The next ``number`` tasks in order, those that read from ``host`` itself if there are any."""
        local = self._local.get(host, ())
        place = self._skip(local, self._heads.get(host, 0))
        self._heads[host] = place
        order: Sequence[int] = local
        if place == len(local):
            place = self._head = self._skip(self._order, self._head)
            order = self._order
        found: list[int] = []
        while len(found) < number and place < len(order):
            if not self._taken[order[place]]:
                found.append(order[place])
            place += 1
        return found

    def _skip(self, order: Sequence[int], place: int) -> int:
        """The first place from ``place`` on whose task is not taken."""
        while place < len(order) and self._taken[order[place]]:
            place += 1
        return place

    def candidates(self, host: str) -> Iterator[int]:
        """Tasks to choose the next one from, for an executor on ``host``, best first.

        The first that reads from the host itself, where there is one, else the next in order.
        """
        local = self._local.get(host, ())
        place = self._heads[host] = self._skip(local, self._heads.get(host, 0))
        if place < len(local):
            yield local[place]
            return
        self._head = self._skip(self._order, self._head)
        found = 0
        for task in self._order[self._head : self._head + _SCAN]:
            if not self._taken[task]:
                yield task
                found += 1
                if found == _WINDOW:
                    return


def _tasks_by_host(
    inputs: TaskInputs, source: NDArray[np.int64], order: NDArray[np.int64]
) -> dict[str, list[int]]:
    """By host, the tasks that are local to it in launch order; hosts that have all are left out."""
    if inputs.shared:
        # One row for all tasks: whoever is local is local to all of them.
        return {}
    # Entries of the tasks' rows, the rows in launch order.
    lengths = np.diff(inputs.offsets)[order]
    shift = inputs.offsets[order] - (np.cumsum(lengths) - lengths)
    entries = np.repeat(shift, lengths) + np.arange(lengths.sum())
    rows, hosts = np.repeat(order, lengths), inputs.hosts[entries]
    few = np.repeat(lengths <= _FEW_HOSTS, lengths)
    own = np.where(source[rows] >= 0, source[rows] == hosts, few) & (inputs.bytes_[entries] > 0)
    rows, hosts = rows[own], hosts[own]
    # Small integers are sorted much faster.
    small = hosts.astype(np.uint16) if inputs.num_hosts < 2**16 else hosts
    by_host = np.argsort(small, kind="stable")
    rows, hosts = rows[by_host], hosts[by_host]
    ends = np.flatnonzero(np.diff(hosts, append=-1)) + 1
    out: dict[str, list[int]] = {}
    begin = 0
    for end in ends.tolist():
        if end - begin < inputs.num_tasks:
            out[inputs.host_names[int(hosts[begin])]] = rows[begin:end].tolist()
        begin = end
    return out
