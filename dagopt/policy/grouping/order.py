"""In which order the tasks of a set are launched.

Three rules, in this order of weight:

* Tasks that read from different hosts alternate, so that no host's link serves all while another
  one idles.
* A task much longer than the others goes first: started last, it alone would be the stage's tail
  (longest processing time first, R. L. Graham, "Bounds on multiprocessing timing anomalies", SIAM
  J. Appl. Math. 17(2), 1969).
* Within a host, reading and computing form a two-machine flow shop, which S. M. Johnson's rule
  orders best ("Optimal two- and three-stage production schedules with setup times included", Naval
  Res. Logist. Q. 1, 1954): tasks that read shorter than they compute come first, cheapest reading
  first; the others follow, longest computation first.

Ties keep the order of the task index, which is Spark's own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dagopt.errors import InputError

LONG = 2.0
"""A task with more than this many times the median work goes first."""

_STEP = 1.25
"""Times closer than this factor count as equal, so that estimates' noise does not shuffle tasks."""


def johnson_order(io_s: NDArray[np.float64], cpu_s: NDArray[np.float64]) -> NDArray[np.int64]:
    """``(T,)`` tasks in the order of Johnson's rule.

    Args:
        io_s: ``(T,)`` seconds of reading, finite and >= 0.
        cpu_s: ``(T,)`` seconds of computing, finite and >= 0.
    """
    if io_s.shape != cpu_s.shape or io_s.ndim != 1:
        raise InputError(f"io_s and cpu_s must both be (T,), got {io_s.shape} and {cpu_s.shape}")
    later = io_s >= cpu_s
    key = np.where(later, -cpu_s, io_s)
    return np.lexsort((np.arange(io_s.size), key, later))


def launch_order(
    io_s: NDArray[np.float64], cpu_s: NDArray[np.float64], source: NDArray[np.int64]
) -> NDArray[np.int64]:
    """``(T,)`` tasks in launch order.

    Args:
        io_s: ``(T,)`` seconds of reading, finite and >= 0.
        cpu_s: ``(T,)`` seconds of computing, finite and >= 0; zeros where unknown.
        source: ``(T,)`` the host that a task mainly reads from, any integer code.
    """
    work_s = io_s + cpu_s
    median_s = float(np.median(work_s)) if work_s.size else 0.0
    is_long = work_s > LONG * median_s if median_s > 0 else work_s > 0
    flow = np.empty(io_s.size, dtype=np.int64)
    flow[johnson_order(_stepped(io_s), _stepped(cpu_s))] = np.arange(io_s.size)
    rank = np.where(is_long, -_stepped(work_s), np.inf)
    # Place within the source, then sources take turns.
    by_source = np.lexsort((flow, rank, source))
    turn = np.empty(io_s.size, dtype=np.int64)
    turn[by_source] = _position_in_run(source[by_source])
    return np.lexsort((np.arange(io_s.size), source, turn))


def _stepped(values_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values in powers of ``_STEP``; zero stays zero."""
    safe = np.maximum(values_s, 1e-9)
    return np.where(values_s > 0, _STEP ** np.round(np.log(safe) / np.log(_STEP)), 0.0)


def _position_in_run(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of each entry, how many equal ones stand directly before it."""
    starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    if codes.size == 0:
        return codes
    lengths = np.diff(np.append(starts, codes.size))
    return np.arange(codes.size) - np.repeat(starts, lengths)
