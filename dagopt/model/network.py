"""Hosts, the networks that they stand in, and the input host set of a task.

A network is whatever shares a link to the rest: a rack, a subnet, a switch. Hosts of one network
count as one when a task's inputs are classed (US patent text, family of "group tasks for
execution": network hosts within the same network are merged).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from dagopt.errors import InputError

NOWHERE = ""
"""Name of the host of what lies on no host in particular: in an object store, or a file system that all
hosts have. Its link is never what readers wait for."""

NetworkId: TypeAlias = str
"""Name of a network: the user's own, or a subnet such as ``10.0.1.0/24``."""


@dataclass(frozen=True, slots=True, order=True)
class InputHostSet:
    """Where a task's input comes from, seen from the host that would run the task."""

    local: bool
    """Whether part of the input lies on the host itself."""

    networks: tuple[NetworkId, ...]
    """Networks of the other hosts that it reads from, sorted, each once."""

    def __str__(self) -> str:
        parts = [*(["local"] if self.local else []), *self.networks]
        return " + ".join(parts) if parts else "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Networks:
    """Which network each host stands in.

    A host that no rule names belongs to its subnet: the /24 of an IPv4 address, the /64 of an
    IPv6 address, the domain of a name with dots, and one common network for bare names.
    """

    hosts: Mapping[str, NetworkId] = field(default_factory=dict)
    """Rules by host name or address."""

    subnets: tuple[tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, NetworkId], ...] = ()
    """Rules by subnet, the first match wins."""

    _known: dict[str, NetworkId] = field(default_factory=dict, compare=False, repr=False)

    def of(self, host: str) -> NetworkId:
        """The network of ``host``."""
        known = self._known.get(host)
        if known is None:
            known = self._known[host] = self._find(host)
        return known

    def _find(self, host: str) -> NetworkId:
        if host in self.hosts:
            return self.hosts[host]
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            _, dot, domain = host.partition(".")
            return domain if dot else "default"
        for subnet, network in self.subnets:
            if address in subnet:
                return network
        prefix = 24 if address.version == 4 else 64
        return str(ipaddress.ip_network((address, prefix), strict=False))


def parse_networks(text: str) -> Networks:
    """Read ``rack1=10.0.1.0/24,hostA;rack2=10.0.2.0/24``.

    Raises:
        InputError: a part is not ``name=member,member``, or a host stands in two networks.
    """
    hosts: dict[str, NetworkId] = {}
    subnets: list[tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, NetworkId]] = []
    for rule in filter(None, (part.strip() for part in text.split(";"))):
        name, equals, members = (part.strip() for part in rule.partition("="))
        if not (equals and name and members):
            raise InputError(f"network rule {rule!r}: expected name=subnet-or-host,...")
        for member in filter(None, (part.strip() for part in members.split(","))):
            if "/" in member:
                try:
                    subnets.append((ipaddress.ip_network(member, strict=False), name))
                except ValueError as error:
                    raise InputError(f"network rule {rule!r}: {error}") from error
            elif hosts.setdefault(member, name) != name:
                raise InputError(f"network rule {rule!r}: {member} is already in {hosts[member]}")
    return Networks(hosts=hosts, subnets=tuple(subnets))
