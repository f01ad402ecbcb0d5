"""A topology as text: a tree of hosts, and matrices between accelerators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dagopt.model.topology import Accelerator, Host, Topology


def draw_topology(topology: Topology) -> list[str]:
    """Switches, their hosts, and the accelerators of each with the links among them; a line each."""
    lines: list[str] = []
    switches = sorted({host.switch for host in topology.hosts})
    for at, switch in enumerate(switches):
        uplink = topology.uplinks.get(switch)
        speed = f" ({uplink.bandwidth_bytes_per_s / 1e9:g} GB/s to others)" if uplink else ""
        lines.append(f"{switch}{speed}")
        hosts = [host for host in topology.hosts if host.switch == switch]
        for number, host in enumerate(hosts):
            last = number == len(hosts) - 1
            network = host.network.bandwidth_bytes_per_s / 1e9
            lines.append(f"{'└' if last else '├'}─ {host.name} ({network:g} GB/s to {switch})")
            indent = " " if last else "│"
            lines += [f"{indent}  └─ {text}" for text in _inside(host)]
        if at < len(switches) - 1:
            lines.append("")
    return lines


def matrix_rows(topology: Topology, members: Sequence[Accelerator], what: str) -> list[list[str]]:
    """Rows of a matrix as text, each with the accelerator's name first.

    Args:
        topology: where the members are.
        members: whose matrix it is.
        what: ``bandwidth`` in GB/s, ``latency`` in us, or ``distance``.
    """
    if what == "bandwidth":
        values = topology.bandwidth_bytes_per_s(members) / 1e9
    elif what == "latency":
        values = topology.latency_s(members) * 1e6
    else:
        values = topology.distance(members)
    return [
        [str(member), *("-" if at == row else f"{value:g}" for at, value in enumerate(line))]
        for row, (member, line) in enumerate(zip(members, np.round(values, 3), strict=True))
    ]


def _inside(host: Host) -> list[str]:
    """Groups of accelerators by the kind of link between them."""
    if len(host.addresses) < 2:
        return [f"accelerator {each}" for each in host.addresses]
    kinds: dict[tuple[str, float], list[str]] = {}
    for (one, other), link in sorted(host.links.items(), key=lambda each: each[0]):
        key = (link.name, link.bandwidth_bytes_per_s)
        kinds.setdefault(key, []).append(f"{one}-{other}")
    pairs = len(host.links)
    return [
        f"{len(host.addresses)} accelerators, all pairs {name} at {speed / 1e9:g} GB/s"
        if len(found) == pairs
        else f"{name} at {speed / 1e9:g} GB/s: {' '.join(found)}"
        for (name, speed), found in kinds.items()
    ]
