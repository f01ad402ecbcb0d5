"""What reading its input costs a task, on the host that would run it.

``io(t, h) = bytes on h / disk bandwidth + sum over the other hosts (bytes / bandwidth between the
networks) + latency of each network read from``. The cost is the time alone on the links: how links
are shared is the business of the delays, see :mod:`dagopt.policy.grouping.lanes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dagopt.cost.bandwidth import Bandwidths
from dagopt.model.network import InputHostSet, NetworkId, Networks
from dagopt.model.task_set import TaskInputs, row_sums


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReaderCost:
    """Cost of reading, for one reading host."""

    s_per_byte: NDArray[np.float64]
    """``(H,)`` seconds per byte from each source host."""

    latency_s: float
    """Seconds for each network that a task reads from."""

    shared_s_per_byte: float
    """Seconds per byte of a task whose inputs have a shared row, else 0."""

    own: int | None
    """Place of the reading host among the source hosts, None where it is not one."""

    def tasks_s(
        self, inputs: TaskInputs, tasks: Sequence[int], host_set: InputHostSet
    ) -> tuple[float, float]:
        """Seconds to read the input of some tasks, each alone on the links, summed.

        Args:
            inputs: of the task set.
            tasks: indexes of the tasks.
            host_set: the input host set of all of them.

        Returns:
            What crosses the network, with its latency, and what the host has itself.
        """
        if self.own is not None and host_set.local and not host_set.networks:
            return 0.0, _bytes_of(inputs, tasks) * float(self.s_per_byte[self.own])
        latency_s = self.latency_s * len(host_set.networks) * len(tasks)
        if inputs.shared:
            total_s = _bytes_of(inputs, tasks) * self.shared_s_per_byte
        else:
            total_s = 0.0
            for task in tasks:
                row = slice(inputs.offsets[task], inputs.offsets[task + 1])
                total_s += float(inputs.bytes_[row] @ self.s_per_byte[inputs.hosts[row]])
        local_s = 0.0
        if self.own is not None and host_set.local:
            local_bytes = float(inputs.of_tasks_from(tasks, self.own).sum())
            local_s = local_bytes * float(self.s_per_byte[self.own])
        return max(0.0, total_s - local_s) + latency_s, local_s


def _bytes_of(inputs: TaskInputs, tasks: Sequence[int]) -> float:
    """Bytes that the tasks read; most groups have one, for which an array would cost more."""
    if len(tasks) == 1:
        return float(inputs.task_bytes[tasks[0]])
    return float(inputs.task_bytes[np.asarray(tasks)].sum())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SourceHosts:
    """The hosts that a task set reads from, with their networks as codes."""

    index: Mapping[str, int]
    """By name, the place in the inputs' host names."""

    networks: tuple[NetworkId, ...]
    """``(N,)`` distinct networks, sorted."""

    code: NDArray[np.int64]
    """``(H,)`` of each host, the place of its network."""


def source_hosts(inputs: TaskInputs, networks: Networks) -> SourceHosts:
    """The source hosts of ``inputs`` by network."""
    names = [networks.of(host) for host in inputs.host_names]
    distinct = tuple(sorted(set(names)))
    place = {network: code for code, network in enumerate(distinct)}
    return SourceHosts(
        index={host: at for at, host in enumerate(inputs.host_names)},
        networks=distinct,
        code=np.array([place[name] for name in names], dtype=np.int64),
    )


def reader_cost(
    inputs: TaskInputs,
    sources: SourceHosts,
    reader: str,
    reader_network: NetworkId,
    bandwidths: Bandwidths,
) -> ReaderCost:
    """Cost of reading ``inputs`` on the host ``reader``.

    Args:
        inputs: of the task set.
        sources: its source hosts.
        reader: the host that would run its tasks.
        reader_network: the network of that host.
        bandwidths: as known now.
    """
    by_network = np.full(len(sources.networks), 1.0 / bandwidths.network_bytes_per_s)
    for (reader_of, source_of), bytes_per_s in bandwidths.learned.items():
        if reader_of == reader_network and source_of in sources.networks:
            by_network[sources.networks.index(source_of)] = 1.0 / bytes_per_s
    s_per_byte = by_network[sources.code]
    own = sources.index.get(reader)
    if own is not None:
        s_per_byte[own] = 1.0 / bandwidths.disk_bytes_per_s
    shared = float(inputs.bytes_ @ s_per_byte[inputs.hosts]) if inputs.shared else 0.0
    return ReaderCost(
        s_per_byte=s_per_byte,
        latency_s=bandwidths.latency_s,
        shared_s_per_byte=shared,
        own=own,
    )


def all_tasks_s(inputs: TaskInputs, cost: ReaderCost) -> NDArray[np.float64]:
    """``(T,)`` seconds of reading of every task, latency left out."""
    if inputs.shared:
        return inputs.task_bytes * cost.shared_s_per_byte
    return row_sums(inputs.bytes_ * cost.s_per_byte[inputs.hosts], inputs.offsets)
