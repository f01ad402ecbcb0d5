"""How long an all-reduce takes among accelerators: the prior before anything was measured.

Two algorithms, and the faster is taken, as collective libraries do. Each proceeds in rounds that wait
for their slowest link, so the slowest link among the members counts, with its latency. Overlap with
computing and other traffic on the links are not modelled: measured times correct both.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dagopt.errors import InputError


def ring_s(
    size_bytes: float, bandwidth_bytes_per_s: NDArray[np.float64], latency_s: NDArray[np.float64]
) -> float:
    """Seconds of a ring all-reduce: ``2(n-1)`` rounds of ``1/n`` of the bytes.

    Args:
        size_bytes: what every member contributes, in bytes, >= 0.
        bandwidth_bytes_per_s: ``(n, n)`` between members; the diagonal is not looked at.
        latency_s: ``(n, n)`` seconds between members.

    Raises:
        InputError: shapes do not fit, or a bandwidth is not positive.

    Source:
        P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
        workstations", J. Parallel Distrib. Comput. 69(2), 2009.
    """
    n = _members(size_bytes, bandwidth_bytes_per_s, latency_s)
    if n <= 1:
        return 0.0
    slowest, latest = _worst(bandwidth_bytes_per_s, latency_s)
    return 2 * (n - 1) / n * size_bytes / slowest + 2 * (n - 1) * latest


def tree_s(
    size_bytes: float, bandwidth_bytes_per_s: NDArray[np.float64], latency_s: NDArray[np.float64]
) -> float:
    """Seconds of an all-reduce up and down a binary tree: ``2 log2(n)`` rounds of latency.

    Large messages are cut into pieces that follow each other, so all bytes cross a link twice in all.
    Arguments and errors as for :func:`ring_s`.

    Source:
        R. Rabenseifner, "Optimization of collective reduction operations", ICCS 2004.
    """
    n = _members(size_bytes, bandwidth_bytes_per_s, latency_s)
    if n <= 1:
        return 0.0
    slowest, latest = _worst(bandwidth_bytes_per_s, latency_s)
    return 2 * size_bytes / slowest + 2 * math.ceil(math.log2(n)) * latest


def all_reduce_s(
    size_bytes: float, bandwidth_bytes_per_s: NDArray[np.float64], latency_s: NDArray[np.float64]
) -> float:
    """Seconds of the faster of ring and tree; arguments and errors as for :func:`ring_s`."""
    return min(
        ring_s(size_bytes, bandwidth_bytes_per_s, latency_s),
        tree_s(size_bytes, bandwidth_bytes_per_s, latency_s),
    )


# Private functions


def _members(
    size_bytes: float, bandwidth: NDArray[np.float64], latency: NDArray[np.float64]
) -> int:
    if bandwidth.ndim != 2 or bandwidth.shape[0] != bandwidth.shape[1]:
        raise InputError(f"bandwidth_bytes_per_s must be (n, n), got {bandwidth.shape}")
    if latency.shape != bandwidth.shape:
        raise InputError(f"latency_s must be {bandwidth.shape}, got {latency.shape}")
    if not size_bytes >= 0:
        raise InputError(f"size_bytes is {size_bytes}, must be >= 0")
    return int(bandwidth.shape[0])


def _worst(bandwidth: NDArray[np.float64], latency: NDArray[np.float64]) -> tuple[float, float]:
    pairs = ~np.eye(len(bandwidth), dtype=bool)
    slowest = float(bandwidth[pairs].min())
    if not slowest > 0:
        raise InputError(f"bandwidth_bytes_per_s has {slowest} between two members, must be > 0")
    return slowest, float(latency[pairs].max())
