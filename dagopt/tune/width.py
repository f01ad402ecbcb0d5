"""How many trials of a stack are best taken at a time, found while they run.

All at once saves the most calls, but arrays that leave the cache cost more than calls. Each width is
tried for a few iterations, which count like any other, and the fastest stays.
"""

from __future__ import annotations

from typing import Final

TRIES: Final = 4
"""Iterations of each width; the first one warms up."""


class WidthSearch:
    """Says what to try next, and is told what it took.

    Args:
        count: trials in the stack, at least 2.
        known: the width found in an earlier phase; 0 for none.
        num_iterations: of the phase: a short one has no time to try.
    """

    def __init__(self, count: int, known: int, num_iterations: int) -> None:
        self.widest = count
        self.width = min(known, count) if known else count
        widths = [count]
        while widths[-1] > 2:
            widths.append(-(-widths[-1] // 2))
        self._to_try = widths
        self._best_s: dict[int, float] = {}
        self._times_s: list[float] = []
        self.is_known = bool(known)
        self.is_done = self.is_known or num_iterations < 4 * TRIES * len(widths)

    def took(self, time_s: float) -> None:
        """Seconds of an iteration of all trials at the current width."""
        if self.is_done:
            return
        self._times_s.append(time_s)
        if len(self._times_s) < TRIES:
            return
        self._best_s[self.width] = min(self._times_s[1:])
        self._times_s = []
        left = [width for width in self._to_try if width not in self._best_s]
        if left:
            self.width = left[0]
            return
        self.width = min(self._best_s, key=lambda width: (self._best_s[width], width))
        self.is_done = self.is_known = True
