"""How many tasks of a group read at the same time.

A group is as large as it must be for its reading alone to saturate the link, and no larger: more
readers only share the bandwidth, and the first of them starts to compute later.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from dagopt.errors import InputError

SATURATED = 0.85
"""Share of the best rate seen at which a link counts as saturated."""

_RISING = 1.5


def saturating_group_size(
    rate_bytes_per_s: Mapping[int, float], *, cores: float, limit: int
) -> int:
    """Tasks of one group, 1 to ``limit``.

    Args:
        rate_bytes_per_s: total rate of a host by the number of its tasks that read at once, as seen
            so far. Nothing seen: as many as Spark would start, one a core.
        cores: of the executor, > 0.
        limit: largest group that is allowed, >= 1.
    """
    if limit < 1 or cores <= 0:
        raise InputError(f"limit is {limit}, must be >= 1; cores is {cores}, must be > 0")
    seen = {readers: rate for readers, rate in rate_bytes_per_s.items() if rate > 0}
    if not seen:
        return min(limit, max(1, math.floor(cores)))
    best = max(seen.values())
    size = min(readers for readers, rate in seen.items() if rate >= SATURATED * best)
    fewer = [readers for readers in seen if readers < size]
    # Still rising where the largest number was tried: try more.
    if size == max(seen) and fewer and seen[size] >= _RISING * seen[max(fewer)]:
        size *= 2
    return min(limit, size)
