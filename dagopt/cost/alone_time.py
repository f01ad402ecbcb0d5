"""What recorded spans would have taken alone, where they shared what they needed in equal parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Column = NDArray[np.float64]


def alone_s(
    begins: list[Column],
    spans: list[Column],
    owners: list[NDArray[np.int64]],
    capacities: Sequence[float],
) -> list[Column]:
    """Of each stage's attempts, the seconds that a span takes where nobody shares what it needs.

    Args:
        begins: ``(N,)`` when each attempt's span began, a column a stage.
        spans: ``(N,)`` seconds that it took.
        owners: ``(N,)`` of whose capacity, as places in ``capacities``.
        capacities: how many can use each at full speed at once, > 0.
    """
    begin, span = np.concatenate(begins), np.concatenate(spans)
    owner = np.concatenate(owners)
    alone = np.zeros_like(span)
    for number, capacity in enumerate(capacities):
        here = np.flatnonzero((owner == number) & (span > 0))
        if not here.size:
            continue
        starts, ends = begin[here], begin[here] + span[here]
        times = np.concatenate([starts, ends])
        step = np.concatenate([np.ones(here.size), -np.ones(here.size)])
        order = np.argsort(times, kind="stable")
        times = times[order]
        sharing = np.cumsum(step[order])[:-1]
        served = np.diff(times) * np.minimum(1.0, capacity / np.maximum(sharing, 1))
        clock = np.concatenate([[0.0], np.cumsum(served)])
        alone[here] = np.interp(ends, times, clock) - np.interp(starts, times, clock)
    return np.split(alone, np.cumsum([column.size for column in begins])[:-1])
