"""One record for each pair of a host and an input host set.

The same input costs differently from different hosts, local here and over the network there, so
what is known of it is kept by the pair. Records are made anew on exactly two events: the driver
received a new resource allocation, or a task group finished.

Source: US patent text of the family "group tasks for execution", claims 3 and 4.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dagopt.cost.bandwidth import Bandwidths
from dagopt.cost.io_cost import all_tasks_s, reader_cost, source_hosts
from dagopt.model.network import InputHostSet, Networks
from dagopt.model.task_set import TaskInputs
from dagopt.policy.grouping.host_sets import HostSets


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HostRecord:
    """The tasks of one input host set, as one host would read them."""

    host: str
    input_host_set: InputHostSet
    tasks: NDArray[np.int64]
    """Task indexes, rising, at least one."""
    io_s: NDArray[np.float64]
    """Seconds of reading of each of them, alone on the links."""
    allocation_epoch: int
    """Number of the resource allocation that brought the host's executor."""

    @property
    def total_io_s(self) -> float:
        """Seconds of reading of all of them."""
        return float(self.io_s.sum())


def host_records(
    inputs: TaskInputs,
    readers: Iterable[tuple[str, int]],
    networks: Networks,
    bandwidths: Bandwidths,
) -> list[HostRecord]:
    """A record for each (host, input host set), hosts in the order given, sets sorted.

    Args:
        inputs: of the task set.
        readers: the hosts that can run its tasks, each with its allocation epoch.
        networks: which network each host is in.
        bandwidths: as known now.
    """
    sources = source_hosts(inputs, networks)
    host_sets = HostSets(inputs, networks)
    out = []
    for host, epoch in readers:
        cost = reader_cost(inputs, sources, host, networks.of(host), bandwidths)
        io_s = all_tasks_s(inputs, cost)
        for host_set, tasks in host_sets.classes(host).items():
            latency_s = bandwidths.latency_s * len(host_set.networks)
            out.append(
                HostRecord(
                    host=host,
                    input_host_set=host_set,
                    tasks=tasks,
                    io_s=io_s[tasks] + latency_s,
                    allocation_epoch=epoch,
                )
            )
    return out
