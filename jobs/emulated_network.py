"""Emulated hosts: network namespaces on one bridge, with links of a given rate.

Every host has one virtual cable into the bridge; both directions of the cable are shaped with
``tc tbf``. Names carry the process id: two networks never meet, and what a killed process left is
recognised and removed by the next. Needs root and Debian's iproute2.
"""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

LINK_PREFIX = "dgo"
NAMESPACE_PREFIX = "dagopt-"
ADDRESSES = ipaddress.IPv4Network("198.18.0.0/15")
"""Set apart for benchmarks (RFC 2544): neither public nor a usual private network."""


class ClusterError(Exception):
    """The emulated cluster cannot be made on this machine; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCount:
    """Bytes that crossed one host's link since it was made, protocol headers included."""

    in_bytes: int
    out_bytes: int


class EmulatedNetwork:
    """The hosts of one process, between ``create`` and ``remove``.

    Args:
        names: of the hosts; short, as they become part of namespace names.
        link_mbit: rate of every host's link, each direction, in Mbit/s.
        subnet: the /24 of their addresses; default a free one of 198.18.0.0/15.
    """

    def __init__(self, names: Sequence[str], *, link_mbit: float, subnet: str | None) -> None:
        if not 1 <= len(names) <= 200 or len(set(names)) != len(names):
            raise ClusterError("hosts: expected 1 to 200 hosts with different names")
        if link_mbit <= 0:
            raise ClusterError(f"link_mbit is {link_mbit}, must be > 0")
        self._index = {name: number for number, name in enumerate(names, start=1)}
        self._link_mbit = link_mbit
        self._wish = subnet
        self._pid = os.getpid()
        self._bridge = f"{LINK_PREFIX}{self._pid}br"

    def create(self) -> None:
        """Make namespaces, cables and the bridge; ClusterError says what the kernel refused."""
        self._subnet = choose_subnet(self._wish)
        run("ip", "link", "add", self._bridge, "type", "bridge")
        run("ip", "addr", "add", f"{self.gateway}/24", "dev", self._bridge)
        run("ip", "link", "set", self._bridge, "up")
        for name in self._index:
            space, cable = self.namespace(name), self._cable(name)
            run("ip", "netns", "add", space)
            peer = ("peer", "name", "eth0", "netns", space)
            run("ip", "link", "add", cable, "type", "veth", *peer)
            run("ip", "link", "set", cable, "master", self._bridge, "up")
            run("ip", "-n", space, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
            run("ip", "-n", space, "link", "set", "eth0", "up")
            run("ip", "-n", space, "link", "set", "lo", "up")
            # Whatever the machine's default is: BBR stalls behind a token bucket, and every kernel
            # lets a namespace choose Reno.
            choose = "echo reno > /proc/sys/net/ipv4/tcp_congestion_control"
            run("ip", "netns", "exec", space, "sh", "-c", choose)
        self.shape(self._link_mbit)

    def remove(self) -> None:
        """Remove whatever ``create`` made, also half of it; end what still runs in there."""
        _remove_network(self._pid)

    @property
    def gateway(self) -> str:
        """Address of the bridge, which all hosts reach."""
        return str(self._subnet.network_address + 254)

    def address(self, name: str) -> str:
        """Address of a host."""
        return str(self._subnet.network_address + 10 + self._index[name])

    def namespace(self, name: str) -> str:
        """Network namespace of a host, for ``ip netns exec``."""
        return f"{NAMESPACE_PREFIX}{self._pid}-{name}"

    def shape(self, link_mbit: float) -> None:
        """Set the rate of every link, both directions, in Mbit/s."""
        # The burst must hold one offloaded packet (64 KiB) and a timer tick's worth of bytes.
        burst_bytes = max(64 * 1024, int(link_mbit * 1e6 / 8 * 0.01))
        rate = ("root", "tbf", "rate", f"{link_mbit * 1000:.0f}kbit")
        rule = (*rate, "burst", str(burst_bytes), "latency", "50ms")
        for name in self._index:
            run("tc", "qdisc", "replace", "dev", self._cable(name), *rule)
            run("tc", "-n", self.namespace(name), "qdisc", "replace", "dev", "eth0", *rule)

    def link_count(self, name: str) -> LinkCount:
        """Bytes that crossed a host's link so far, seen from the host."""
        base = Path("/sys/class/net") / self._cable(name) / "statistics"
        return LinkCount(
            in_bytes=int((base / "tx_bytes").read_text(encoding="ascii")),
            out_bytes=int((base / "rx_bytes").read_text(encoding="ascii")),
        )

    def _cable(self, name: str) -> str:
        return f"{LINK_PREFIX}{self._pid}v{self._index[name]}"


def check_machine() -> None:
    """Raise ClusterError, in one line, unless a cluster can be made here."""
    if os.geteuid() != 0:
        raise ClusterError("the emulated cluster makes network namespaces: run as root")
    for tool in ("ip", "tc", "taskset"):
        if shutil.which(tool) is None:
            package = "util-linux" if tool == "taskset" else "iproute2"
            raise ClusterError(f"{tool} is missing: apt-get install {package}")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise ClusterError("java is missing: apt-get install openjdk-17-jre-headless")


def choose_subnet(wish: str | None = None) -> ipaddress.IPv4Network:
    """The wished /24, or a free one of 198.18.0.0/15; ClusterError if the wish is taken."""
    entries = json.loads(run("ip", "-j", "-4", "route", "show", "table", "all"))
    taken = [
        ipaddress.ip_network(entry["dst"], strict=False)
        for entry in entries
        if re.match(r"\d", entry.get("dst", ""))
    ]
    if wish is not None:
        wished = ipaddress.IPv4Network(wish)
        if wished.prefixlen != 24:
            raise ClusterError(f"subnet {wish}: expected a /24")
        if any(wished.overlaps(network) for network in taken):
            raise ClusterError(f"subnet {wish} is in use on this machine: choose another")
        return wished
    choices = list(ADDRESSES.subnets(new_prefix=24))
    start = os.getpid() % len(choices)  # two runs that start together look at different ones
    for choice in itertools.chain(choices[start:], choices[:start]):
        if not any(choice.overlaps(network) for network in taken):
            return choice
    raise ClusterError(f"no free /24 in {ADDRESSES}: give a subnet")


def remove_leftovers() -> None:
    """Remove the networks of emulated clusters whose process is dead."""
    for pid in _cluster_pids():
        if not Path(f"/proc/{pid}").exists():
            _remove_network(pid)


def run(*command: str, check: bool = True) -> str:
    """Output of a command; ClusterError with what it said if it fails and ``check`` is set."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise ClusterError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def _cluster_pids() -> set[int]:
    names = " ".join([*_namespaces(), *_links()])
    found = re.findall(rf"\b(?:{LINK_PREFIX}(\d+)(?:br|v\d+)|{NAMESPACE_PREFIX}(\d+)-)", names)
    return {int(link or space) for link, space in found}


def _links() -> list[str]:
    return [link.name for link in Path("/sys/class/net").iterdir()]


def _namespaces() -> list[str]:
    return [line.split()[0] for line in run("ip", "netns", "list").splitlines() if line]


def _remove_network(pid: int) -> None:
    spaces = [name for name in _namespaces() if name.startswith(f"{NAMESPACE_PREFIX}{pid}-")]
    for space in spaces:
        # Only what we started can be in a namespace that we made.
        for process in run("ip", "netns", "pids", space, check=False).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
    for link in _links():
        if re.fullmatch(rf"{LINK_PREFIX}{pid}(br|v\d+)", link):
            run("ip", "link", "del", link, check=False)
    for space in spaces:
        run("ip", "netns", "del", space, check=False)
