"""Sums over the accelerators of a job, by torch.distributed: NCCL where there are GPUs, else gloo.

torch is imported by jobs on more than one accelerator only.
"""

from __future__ import annotations

import contextlib
import importlib.util
import ipaddress
import os
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dagopt.errors import InputError
from dagopt.spark.devices import device

_POLL_S = 0.01
_INTERFACE = "GLOO_SOCKET_IFNAME"
_SIOCGIFADDR = 0x8915
"""Linux's request for the IPv4 address of an interface."""


class Board(Protocol):
    """Where rank 0 writes what the others need to find it: files that all of them see."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file as a whole."""

    def read(self, name: str) -> bytes:
        """Its content; FileNotFoundError before it is there."""


class CommunicationError(Exception):
    """Another member of the group went away: no fault of the user's code."""


class Group:
    """The members of a job's phase.

    Args:
        rank: of this one.
        size: members.
        hosts: of all members by rank, as the others reach them.
        board: by which the members find each other; Spark's own barrier takes a second.
        name: of the file there, new for each group.
        timeout_s: seconds that a member waits for the others.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        hosts: Sequence[str],
        board: Board,
        name: str,
        timeout_s: float,
    ) -> None:
        self.rank, self.size = rank, size
        self._torch: Any = None
        self._device: Any = "cpu"
        if size == 1:
            return
        import torch  # noqa: PLC0415  an extra
        from torch import distributed  # noqa: PLC0415

        index = device()
        is_gpu = index is not None and torch.cuda.is_available()
        if is_gpu:
            self._device = torch.device("cuda", index)
            torch.cuda.set_device(self._device)
        wait = timedelta(seconds=timeout_s)
        try:
            if rank == 0:
                store = distributed.TCPStore(hosts[0], 0, size, True, wait, False)
                board.write(name, str(store.port).encode())
            else:
                port = _port(board, name, timeout_s)
                store = distributed.TCPStore(hosts[0], port, size, False, wait, False)
            backend = "nccl" if is_gpu else "gloo"
            with _bound_to(interface_to(hosts)):
                distributed.init_process_group(
                    backend, store=store, rank=rank, world_size=size, timeout=wait
                )
        except RuntimeError as error:
            raise CommunicationError(str(error)) from error
        self._torch, self._distributed = torch, distributed

    def sum(self, values: NDArray[np.float64]) -> None:
        """Replace the values by their sums over all members.

        Raises:
            CommunicationError: a member went away.
        """
        if self.size == 1:
            return
        tensor = self._torch.from_numpy(values)
        try:
            if self._device == "cpu":
                self._distributed.all_reduce(tensor)
                return
            moved = tensor.to(self._device)
            self._distributed.all_reduce(moved)
            tensor.copy_(moved)
        except RuntimeError as error:
            raise CommunicationError(str(error)) from error

    def close(self) -> None:
        """Leave the group: the process is used again by other tasks."""
        if self._torch is not None:
            self._distributed.destroy_process_group()
            self._torch = None


def check_installed() -> None:
    """Check that jobs can communicate, and that their step times can be fitted.

    Raises:
        InputError: torch or scipy is not installed.
    """
    missing = [name for name in ("torch", "scipy") if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"dagopt.train needs {', '.join(missing)}: pip install 'dagopt[train]'")


def interface_to(hosts: Iterable[str]) -> str | None:
    """The network interface by which this machine reaches hosts; None where that is not known.

    Left alone, gloo binds to what this machine's own name resolves to. That may be nothing, or
    127.0.1.1, which members on other machines cannot reach.
    """
    own = [address for host in dict.fromkeys(hosts) if (address := _own_address(host)) is not None]
    names = [name for _, name in socket.if_nameindex()]
    # Hosts other than this one show the way, if there are any.
    for address in own:
        if not address.is_loopback:
            return next((name for name in names if address in _addresses(name)), None)
    return next((name for name in names if own and name.startswith("lo")), None)


# Private functions


def _own_address(host: str) -> IPv4Address | IPv6Address | None:
    """This machine's address on the way to a host."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)  # sends nothing
            return ipaddress.ip_address(str(probe.getsockname()[0]).partition("%")[0])
    except OSError:
        return None


def _addresses(interface: str) -> set[IPv4Address | IPv6Address]:
    """Of an interface, on Linux; empty elsewhere."""
    found: set[IPv4Address | IPv6Address] = set()
    with contextlib.suppress(ImportError, OSError):
        import fcntl  # noqa: PLC0415  not on every system

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            asked = struct.pack("256s", interface.encode()[:15])
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, asked)
        found.add(IPv4Address(answer[20:24]))
    with contextlib.suppress(OSError):
        rows = [line.split() for line in Path("/proc/net/if_inet6").read_text().splitlines()]
        found |= {IPv6Address(int(row[0], 16)) for row in rows if row[-1] == interface}
    return found


@contextlib.contextmanager
def _bound_to(interface: str | None) -> Iterator[None]:
    """Let gloo use an interface, unless the user named one; the next group may need another one."""
    if interface is None or _INTERFACE in os.environ:
        yield
        return
    os.environ[_INTERFACE] = interface
    try:
        yield
    finally:
        del os.environ[_INTERFACE]


def _port(board: Board, name: str, timeout_s: float) -> int:
    until_s = time.monotonic() + timeout_s
    while time.monotonic() < until_s:
        with contextlib.suppress(FileNotFoundError):
            return int(board.read(name))
        time.sleep(_POLL_S)
    raise CommunicationError(f"rank 0 was not there within {timeout_s:g} s")
