"""Peak memory of a piece of code: what numpy or cupy allocated in it and had at once."""

from __future__ import annotations

import tracemalloc
from typing import Any


class PeakMeter:
    """Measures while it is entered; ``peak_bytes`` is above what there was before.

    numpy tells Python's ``tracemalloc`` of its arrays, so what the step's Python objects take is in it
    too. Of cupy the growth of its memory pool counts.
    """

    def __init__(self, xp: Any) -> None:
        self._pool = (
            xp.get_default_memory_pool() if hasattr(xp, "get_default_memory_pool") else None
        )
        self._before_bytes = 0
        self.peak_bytes = 0

    def __enter__(self) -> PeakMeter:  # noqa: PYI034  typing has Self from Python 3.11 on
        if self._pool is not None:
            self._pool.free_all_blocks()
            self._before_bytes = self._pool.total_bytes()
            return self
        self._nested = tracemalloc.is_tracing()
        if self._nested:
            tracemalloc.reset_peak()
        else:
            tracemalloc.start()
        self._before_bytes = tracemalloc.get_traced_memory()[0]
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self.peak_bytes = max(0, self._pool.total_bytes() - self._before_bytes)
            return
        self.peak_bytes = max(0, tracemalloc.get_traced_memory()[1] - self._before_bytes)
        if not self._nested:
            tracemalloc.stop()
