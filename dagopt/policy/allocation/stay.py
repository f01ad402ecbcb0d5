"""How long a job will be where it is put next: nobody knows, so as long as its placements lasted so far."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_STEADY_INTERVALS = 10
"""A job that just came is taken to keep its next placement for so many intervals."""

Number = TypeVar("Number", float, NDArray[np.float64])


def steady_s(interval_s: float) -> float:
    """Seconds for which a job that just came is taken to stay."""
    return _STEADY_INTERVALS * interval_s


def expected_stay_s(age_s: Number, num_restarts: Number, interval_s: float) -> Number:
    """Seconds that its next placement will last, unless it ends before.

    Args:
        age_s: seconds since its arrival.
        num_restarts: how often it was moved.
        interval_s: seconds between plans.
    """
    return (age_s + steady_s(interval_s)) / (num_restarts + 1)
