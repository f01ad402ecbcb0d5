"""What the tasks of the benchmark do: decoding and a GPU kernel, each on lists of rows.

Both wait for what they emulate: a core, a lock for each of ``num_cores`` and all tasks of one mode
together, and a device, a lock for each address. Locks are files, so they hold across processes, and
making or checking the payload is a part of the time that is waited.
"""

from __future__ import annotations

import fcntl
import os
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

QUANTUM_S = 0.05
"""A time slice of an emulated core."""

POLL_S = 0.001
"""How often a task that waits for a core looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a row costs, and where the locks are."""

    decode_s: float
    """Seconds on a core of decoding a row; 0 where decoding is real."""

    gpu_s: float
    """Seconds of the kernel for a row."""

    payload_bytes: int
    """What decoding makes of a row; not used where it is real."""

    num_cores: int
    lock_dir: str
    record: str
    """A file that gets a line for each kernel: address, start and end in epoch seconds."""


def decode_rows(numbers: list[int], load: Load) -> list[bytes]:
    """Payloads, the same for the same numbers, after holding a core for each row's seconds."""
    left_s = load.decode_s * len(numbers)
    payloads: list[bytes] = []
    while left_s > 0 or not payloads:
        with held_core(Path(load.lock_dir), load.num_cores):
            start_s = time.monotonic()
            if not payloads:
                payloads = [payload(number, load.payload_bytes) for number in numbers]
            _wait_until(start_s + min(QUANTUM_S, left_s))
        left_s -= max(QUANTUM_S, time.monotonic() - start_s)
    return payloads


def payload(number: int, num_bytes: int) -> bytes:
    """Bytes that do not compress."""
    return np.random.default_rng(number).bytes(num_bytes)


def score_rows(payloads: list[bytes], address: str, load: Load) -> list[int]:
    """A checksum of each payload, after holding the device for each row's seconds."""
    with (Path(load.lock_dir) / f"gpu-{address}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        start_s = time.time()
        scores = [zlib.crc32(one) for one in payloads]
        _wait_until(time.monotonic() + load.gpu_s * len(payloads) - (time.time() - start_s))
        line = f"{address} {start_s:.6f} {time.time():.6f}\n"
        descriptor = os.open(load.record, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, line.encode())
        os.close(descriptor)
        fcntl.flock(lock, fcntl.LOCK_UN)
    return scores


@contextmanager
def held_core(lock_dir: Path, num_cores: int) -> Iterator[int]:
    """One of the cores, as soon as one is free.

    Who waits holds a second lock, the queue, so that a task that has just had a core comes behind
    those that wait already, as a fair scheduler would have it.
    """
    with (lock_dir / "queue").open("w") as queue:
        fcntl.flock(queue, fcntl.LOCK_EX)
        while True:
            for core in range(num_cores):
                lock = (lock_dir / f"core-{core}").open("w")
                with suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                lock.close()
            else:
                time.sleep(POLL_S)
                continue
            break
        fcntl.flock(queue, fcntl.LOCK_UN)
    with lock:
        yield core


def busy_s(record: Path) -> float:
    """Seconds that kernels ran, of all devices together.

    Raises:
        ValueError: two kernels held a device at the same time.
    """
    lines = record.read_text(encoding="utf-8").splitlines() if record.exists() else []
    spans = sorted((a, float(start), float(end)) for a, start, end in map(str.split, lines))
    for (address, _, end_s), (other, start_s, _) in pairwise(spans):
        if address == other and start_s < end_s:
            raise ValueError(f"{record.name}: two kernels on device {address} at {start_s}")
    return sum(end_s - start_s for _, start_s, end_s in spans)


def _wait_until(deadline_s: float) -> None:
    time.sleep(max(0.0, deadline_s - time.monotonic()))
