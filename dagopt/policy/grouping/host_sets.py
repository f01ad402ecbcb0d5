"""Tasks with the same input host set are classed together.

The set of a task depends on the host that would run it: input on that host is local, all other
hosts count by their network. Tasks are first reduced to *patterns*, the distinct sets of hosts
that any task reads from; a stage of 100,000 tasks of one shuffle has one pattern.

Source: US patent text of the family "group tasks for execution", claims 1 and 2 (input host set
from the shuffle type and the hosts of the previous stage; local and network hosts told apart;
network hosts within one network merged).
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dagopt.model.network import NOWHERE, InputHostSet, NetworkId, Networks
from dagopt.model.task_set import TaskInputs

_SEED = 20_260_101
_MAIN = 0.5
_LOCAL = InputHostSet(local=True, networks=())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Patterns:
    """Which hosts each task reads from, as an index into the distinct sets of hosts."""

    of_task: NDArray[np.int64]
    """``(T,)`` index of the task's pattern."""

    hosts: tuple[tuple[int, ...], ...]
    """Of each pattern, the hosts it reads from, as indexes into the inputs' host names."""

    @property
    def num_patterns(self) -> int:
        """P, at least 1."""
        return len(self.hosts)


def patterns(inputs: TaskInputs) -> Patterns:
    """The distinct sets of hosts with bytes, and the one of each task.

    Sets are told apart by a 64-bit sum of one fixed random number a host.
    """
    if inputs.shared:
        reads = inputs.task_bytes > 0
        row = tuple(int(host) for host in inputs.hosts)
        if reads.all() or not reads.any():
            one = np.zeros(inputs.num_tasks, dtype=np.int64)
            return Patterns(of_task=one, hosts=(row if reads.any() else (),))
        return Patterns(of_task=np.where(reads, 0, 1).astype(np.int64), hosts=(row, ()))
    marks = np.random.default_rng(_SEED).integers(1, 2**63, size=inputs.num_hosts, dtype=np.uint64)
    rows = np.repeat(np.arange(inputs.num_tasks), np.diff(inputs.offsets))
    present = inputs.bytes_ > 0
    # A row may name a host twice (two shuffles): each host counts once.
    pairs = np.unique(rows[present] * max(inputs.num_hosts, 1) + inputs.hosts[present])
    pair_rows, pair_hosts = np.divmod(pairs, max(inputs.num_hosts, 1))
    hashes = np.zeros(inputs.num_tasks, dtype=np.uint64)
    np.add.at(hashes, pair_rows, marks[pair_hosts])
    _, first, of_task = np.unique(hashes, return_index=True, return_inverse=True)
    starts = np.searchsorted(pair_rows, first, side="left")
    ends = np.searchsorted(pair_rows, first, side="right")
    hosts = tuple(
        tuple(pair_hosts[a:b].tolist()) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)
    )
    return Patterns(of_task=of_task.astype(np.int64), hosts=hosts)


class HostSets:
    """Input host sets of single tasks of one task set, by reading host."""

    def __init__(self, inputs: TaskInputs, networks: Networks, *, replicas: bool = False) -> None:
        """Nothing is computed before it is asked for.

        Args:
            inputs: of the task set.
            networks: which network each host is in.
            replicas: the hosts of a task have copies of the same blocks, so that a task on one of
                them reads from no other.
        """
        self._inputs = inputs
        self._networks = networks
        self._replicas = replicas
        self._known: dict[tuple[int, ...], _Sources] = {}
        self._place = {name: place for place, name in enumerate(inputs.host_names)}

    def of(self, task: int, reader: str) -> InputHostSet:
        """The set of ``task``, seen from the host ``reader``."""
        hosts = self._rows[task]
        is_local = self._place.get(reader, -1) in hosts
        if is_local and self._replicas:
            return _LOCAL
        sources = self._sources(hosts)
        if not is_local:
            return sources.remote
        networks = sources.networks
        own = self._networks.of(reader)
        if sources.counts[own] == 1:
            networks = tuple(network for network in networks if network != own)
        return InputHostSet(local=True, networks=networks)

    def classes(self, reader: str) -> dict[InputHostSet, NDArray[np.int64]]:
        """Every task in the class of its input host set, for the host ``reader``.

        Returns:
            Task indexes in rising order, by input host set in sorted order. Each class is non-empty
            and every task is in exactly one.
        """
        of_task, first = self._patterns
        sets = [self.of(task, reader) for task in first]
        names = sorted(set(sets))
        code = np.array([names.index(host_set) for host_set in sets], dtype=np.int64)[of_task]
        return {name: np.flatnonzero(code == place) for place, name in enumerate(names)}

    @cached_property
    def _rows(self) -> list[tuple[int, ...]]:
        return _rows_of(self._inputs)

    @cached_property
    def _patterns(self) -> tuple[NDArray[np.int64], list[int]]:
        """``(T,)`` pattern of each task, and the first task of each pattern."""
        of_task = patterns(self._inputs).of_task
        return of_task, np.unique(of_task, return_index=True)[1].tolist()

    def _sources(self, hosts: tuple[int, ...]) -> _Sources:
        known = self._known.get(hosts)
        if known is None:
            names = {self._inputs.host_names[host] for host in hosts}
            counts = Counter(self._networks.of(name) for name in names)
            networks = tuple(sorted(counts))
            remote = InputHostSet(local=False, networks=networks)
            known = _Sources(counts=counts, networks=networks, remote=remote)
            self._known[hosts] = known
        return known


def _rows_of(inputs: TaskInputs) -> list[tuple[int, ...]]:
    """``T`` rows: places of the hosts that each task reads from."""
    if inputs.shared:
        row = tuple(inputs.hosts.tolist())
        return [row if reads else () for reads in (inputs.task_bytes > 0).tolist()]
    present = inputs.bytes_ > 0
    hosts = inputs.hosts[present].tolist()
    offsets = np.concatenate(([0], np.cumsum(present)))[inputs.offsets].tolist()
    return [tuple(hosts[a:b]) for a, b in itertools.pairwise(offsets)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sources:
    """The hosts that a task reads from, by network."""

    counts: Counter[NetworkId]
    networks: tuple[NetworkId, ...]
    remote: InputHostSet
    """Their set for a reading host that is none of them."""


def classify(
    inputs: TaskInputs, networks: Networks, reader: str
) -> dict[InputHostSet, NDArray[np.int64]]:
    """:meth:`HostSets.classes` of one host; for several, make the :class:`HostSets` once."""
    return HostSets(inputs, networks).classes(reader)


def main_source(inputs: TaskInputs) -> NDArray[np.int64]:
    """``(T,)`` the host that a task reads more than half of its bytes from, -1 where no single one is.

    What a task reads from one host keeps that host's link busy: two such tasks of different hosts
    run beside each other, two of one host after another.
    """
    out = np.full(inputs.num_tasks, -1, dtype=np.int64)
    if inputs.shared:
        if inputs.bytes_.size and inputs.bytes_.max() > _MAIN:
            out[inputs.task_bytes > 0] = inputs.hosts[inputs.bytes_.argmax()]
        return _on_one_host(out, inputs)
    rows = np.repeat(np.arange(inputs.num_tasks), np.diff(inputs.offsets))
    num_hosts = max(inputs.num_hosts, 1)
    pairs, sums = rows * num_hosts + inputs.hosts, inputs.bytes_
    if (np.diff(pairs) <= 0).any():
        # Some row names a host twice, or out of order.
        pairs, where = np.unique(pairs, return_inverse=True)
        sums = np.bincount(where, weights=inputs.bytes_, minlength=pairs.size).astype(np.float64)
    pair_rows, pair_hosts = np.divmod(pairs, num_hosts)
    heavy = sums > _MAIN * inputs.task_bytes[pair_rows]
    out[pair_rows[heavy]] = pair_hosts[heavy]
    return _on_one_host(out, inputs)


def _on_one_host(source: NDArray[np.int64], inputs: TaskInputs) -> NDArray[np.int64]:
    if NOWHERE in inputs.host_names:
        source[source == inputs.host_names.index(NOWHERE)] = -1
    return source
