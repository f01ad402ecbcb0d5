"""Times of a damaged log that cannot be: left out and counted, as broken lines are.

* A stamp more than a year from the middle of all stamps of stages is of a wrong clock.
* What ends before it begins has no length.
* A span within a task is not longer than the task held its slot, and its thread took no more CPU time
  than it ran. Clocks tick in ms and fractions of a cpu are rounded, so only what is more than twice as
  long, and a second, is impossible.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Column = NDArray[np.float64]

_YEAR_S: Final = 365 * 86_400.0
_TIMES: Final = 2.0
_MORE_S: Final = 1.0

_SPANS: Final = (
    "run_s", "deserialize_s", "serialize_s", "fetch_wait_s", "gc_s", "shuffle_write_s",
)  # fmt: skip
"""Columns of what a task did in its slot."""


def middle_s(stamps_s: Iterable[float]) -> float:
    """The one in the middle of the stamps that are known, the earlier of two; NaN where none is."""
    known = sorted(stamp for stamp in stamps_s if math.isfinite(stamp))
    return known[(len(known) - 1) // 2] if known else math.nan


def is_far(stamp_s: float, around_s: float) -> bool:
    """Whether a stamp is of a wrong clock; False where either is not known."""
    return abs(stamp_s - around_s) > _YEAR_S


def possible_span(start_s: float, end_s: float, around_s: float) -> tuple[float, float]:
    """Begin and end of a stage attempt, NaN for what cannot be."""
    start_s = math.nan if is_far(start_s, around_s) else start_s
    end_s = math.nan if is_far(end_s, around_s) or end_s < start_s else end_s
    return start_s, end_s


def drop_impossible(column: dict[str, Column], around_s: float) -> int:
    """Make NaN of what cannot be.

    Args:
        column: ``(T,)`` of task attempts, by name; changed.
        around_s: the middle of all stamps; NaN where that is not known.

    Returns:
        Attempts that a time was taken from.
    """
    launch_s, finish_s = column["launch_s"], column["finish_s"]
    is_wrong = (np.abs(launch_s - around_s) > _YEAR_S) | (np.abs(finish_s - around_s) > _YEAR_S)
    launch_s[is_wrong] = finish_s[is_wrong] = math.nan
    backwards = finish_s < launch_s
    finish_s[backwards] = math.nan
    is_wrong |= backwards
    longest_s = _TIMES * (finish_s - launch_s) + _MORE_S
    for name in _SPANS:
        is_wrong |= _drop(column[name], longest_s)
    ran_s = column["run_s"] + np.nan_to_num(column["deserialize_s"])
    is_wrong |= _drop(column["cpu_s"], np.fmin(_TIMES * ran_s + _MORE_S, longest_s))
    return int(is_wrong.sum())


def _drop(span_s: Column, longest_s: Column) -> NDArray[np.bool_]:
    is_wrong: NDArray[np.bool_] = span_s > longest_s
    span_s[is_wrong] = math.nan
    return is_wrong
