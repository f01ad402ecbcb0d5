"""Sums over the accelerators of a job, by torch.distributed: NCCL where there are GPUs, else gloo.

torch is imported by jobs on more than one accelerator only.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import time
from datetime import timedelta
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dagopt.errors import InputError
from dagopt.spark.devices import device

_POLL_S = 0.01


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
        host: of rank 0, as the others reach it.
        board: by which the members find each other; Spark's own barrier takes a second.
        name: of the file there, new for each group.
        timeout_s: seconds that a member waits for the others.
    """

    def __init__(
        self, rank: int, size: int, host: str, board: Board, name: str, timeout_s: float
    ) -> None:
        self.rank, self.size = rank, size
        self._torch: Any = None
        self._device: Any = "cpu"
        if size == 1:
            return
        import torch  # noqa: PLC0415  an extra
        from torch import distributed  # noqa: PLC0415

        if host in ("127.0.0.1", "localhost", "::1"):
            # Else gloo looks up the host's name, which may have no address.
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        index = device()
        is_gpu = index is not None and torch.cuda.is_available()
        if is_gpu:
            self._device = torch.device("cuda", index)
            torch.cuda.set_device(self._device)
        wait = timedelta(seconds=timeout_s)
        try:
            if rank == 0:
                store = distributed.TCPStore(host, 0, size, True, wait, False)
                board.write(name, str(store.port).encode())
            else:
                port = _port(board, name, timeout_s)
                store = distributed.TCPStore(host, port, size, False, wait, False)
            backend = "nccl" if is_gpu else "gloo"
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


def check_torch() -> None:
    """Check that jobs can communicate.

    Raises:
        InputError: torch is not installed.
    """
    if importlib.util.find_spec("torch") is None:
        raise InputError("dagopt.train needs torch: pip install 'dagopt[train]'")


# Private functions


def _port(board: Board, name: str, timeout_s: float) -> int:
    until_s = time.monotonic() + timeout_s
    while time.monotonic() < until_s:
        with contextlib.suppress(FileNotFoundError):
            return int(board.read(name))
        time.sleep(_POLL_S)
    raise CommunicationError(f"rank 0 was not there within {timeout_s:g} s")
