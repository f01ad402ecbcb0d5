"""Accelerators, the hosts that they sit in, and the links between them.

Within a host each pair of accelerators has a link of its own. Between hosts a transfer goes through
both hosts' network links and, from one switch to another, through both switches' uplinks: the slowest
of these carries it, and their latencies add up. Matrices are made for the accelerators that are asked
for, so a cluster of 10,000 costs nothing until then. Other traffic on a link is not modelled here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dagopt.errors import InputError

SAME_SWITCH = 7
"""Distance of accelerators on two hosts of one switch. Below it are the classes of links in a host."""

OTHER_SWITCH = 8
"""Distance of accelerators on hosts of different switches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What connects two ends."""

    bandwidth_bytes_per_s: float
    """Bytes per second in one direction, > 0."""
    latency_s: float = 0.0
    """Seconds that the first byte takes, >= 0."""
    distance: int = 1
    """How far apart the ends are: 1 for a direct link, more for each bridge in between."""
    name: str = "link"
    """What ``nvidia-smi topo -m`` calls it (``NV4``, ``PIX``), or a name of the user's."""

    def __post_init__(self) -> None:
        if not 0 < self.bandwidth_bytes_per_s < float("inf"):
            raise InputError(
                f"link {self.name}: bandwidth is {self.bandwidth_bytes_per_s} bytes/s, must be > 0"
            )
        if not 0 <= self.latency_s < float("inf"):
            raise InputError(f"link {self.name}: latency is {self.latency_s} s, must be >= 0")


@dataclass(frozen=True, slots=True, order=True)
class Accelerator:
    """One accelerator: its host, and its resource address there."""

    host: str
    address: str

    def __str__(self) -> str:
        return f"{self.host}:{self.address}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host with its accelerators, the links among them, and its way to other hosts."""

    name: str
    addresses: tuple[str, ...]
    """Resource addresses of its accelerators, each once."""
    links: Mapping[tuple[str, str], Link] = field(default_factory=dict)
    """By pair of addresses, the one that comes first in ``addresses`` in front."""
    network: Link
    """Its link to its switch."""
    switch: str = "network"

    def __post_init__(self) -> None:
        if len(set(self.addresses)) != len(self.addresses):
            raise InputError(f"host {self.name}: an accelerator is named twice: {self.addresses}")
        for at, one in enumerate(self.addresses):
            for other in self.addresses[at + 1 :]:
                if (one, other) not in self.links:
                    raise InputError(f"host {self.name}: no link between {one} and {other}")

    def link(self, one: str, other: str) -> Link:
        """The link between two of its accelerators, in whichever order they are named."""
        found = self.links.get((one, other)) or self.links.get((other, one))
        if found is None:
            raise InputError(f"host {self.name}: no link between {one} and {other}")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorResources:
    """What a Spark executor tells of itself: where it runs, and which accelerators it was given."""

    executor: str
    host: str
    addresses: tuple[str, ...]
    """The addresses of its resource ``gpu``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """All hosts of a cluster, and the switches between them."""

    hosts: tuple[Host, ...]
    uplinks: Mapping[str, Link] = field(default_factory=dict)
    """By switch, its link to other switches; a switch without one does not limit."""

    _host_of: dict[Accelerator, Host] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        counts = Counter(host.name for host in self.hosts)
        twice = sorted(name for name, count in counts.items() if count > 1)
        if twice:
            raise InputError(f"host {twice[0]} is in the topology twice")
        if not any(host.addresses for host in self.hosts):
            raise InputError("the topology has no accelerator")
        for host in self.hosts:
            for address in host.addresses:
                self._host_of[Accelerator(host.name, address)] = host

    @property
    def accelerators(self) -> tuple[Accelerator, ...]:
        """All accelerators, host by host."""
        return tuple(Accelerator(h.name, each) for h in self.hosts for each in h.addresses)

    def link(self, one: Accelerator, other: Accelerator) -> Link:
        """What carries data between two different accelerators: the slowest part of the way.

        Raises:
            InputError: one of them is not in the topology, or both are the same.
        """
        if one == other:
            raise InputError(f"{one}: no link leads from an accelerator to itself")
        first, second = self._host(one), self._host(other)
        if first is second:
            return first.link(one.address, other.address)
        way = [first.network, second.network]
        distance = SAME_SWITCH
        if first.switch != second.switch:
            distance = OTHER_SWITCH
            way += [self.uplinks[s] for s in (first.switch, second.switch) if s in self.uplinks]
        return Link(
            bandwidth_bytes_per_s=min(part.bandwidth_bytes_per_s for part in way),
            latency_s=sum(part.latency_s for part in way),
            distance=distance,
            name="NET" if distance == SAME_SWITCH else "NET2",
        )

    def bandwidth_bytes_per_s(self, members: Sequence[Accelerator]) -> NDArray[np.float64]:
        """``(n, n)`` bytes per second between the members; infinite on the diagonal."""
        return self._matrix(members, "bandwidth_bytes_per_s", np.inf)

    def latency_s(self, members: Sequence[Accelerator]) -> NDArray[np.float64]:
        """``(n, n)`` seconds between the members; 0 on the diagonal."""
        return self._matrix(members, "latency_s", 0.0)

    def distance(self, members: Sequence[Accelerator]) -> NDArray[np.float64]:
        """``(n, n)`` distances between the members; 0 on the diagonal."""
        return self._matrix(members, "distance", 0.0)

    def _matrix(
        self, members: Sequence[Accelerator], attribute: str, diagonal: float
    ) -> NDArray[np.float64]:
        found = np.full((len(members), len(members)), diagonal)
        for row, one in enumerate(members):
            for column in range(row + 1, len(members)):
                value = getattr(self.link(one, members[column]), attribute)
                found[row, column] = found[column, row] = value
        return found

    def _host(self, accelerator: Accelerator) -> Host:
        host = self._host_of.get(accelerator)
        if host is None:
            raise InputError(f"{accelerator} is not in the topology")
        return host


def topology_of_executors(
    executors: Sequence[ExecutorResources], *, local: Link, network: Link
) -> Topology:
    """The topology that executors' resource addresses show; all links of a kind are alike.

    Raises:
        InputError: two executors hold the same accelerator of a host.
    """
    by_host: dict[str, dict[str, str]] = {}
    for each in executors:
        held = by_host.setdefault(each.host, {})
        for address in each.addresses:
            if address in held:
                raise InputError(
                    f"accelerator {each.host}:{address} is given to executors "
                    f"{held[address]} and {each.executor}"
                )
            held[address] = each.executor
    return Topology(
        hosts=tuple(
            uniform_host(name, tuple(sorted(held)), local=local, network=network)
            for name, held in sorted(by_host.items())
        )
    )


def uniform_host(
    name: str, addresses: tuple[str, ...], *, local: Link, network: Link, switch: str = "network"
) -> Host:
    """A host all of whose accelerators are linked alike."""
    pairs = [(a, b) for at, a in enumerate(addresses) for b in addresses[at + 1 :]]
    return Host(
        name=name,
        addresses=addresses,
        links=dict.fromkeys(pairs, local),
        network=network,
        switch=switch,
    )
