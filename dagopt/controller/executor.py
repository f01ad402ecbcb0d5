"""What the grouping controller remembers of executors, their hosts and the tasks that run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from dagopt.cost.share_clock import ShareClock
from dagopt.model.network import NetworkId

RunKey: TypeAlias = tuple[int, int, int, str]
"""Stage id, attempt, task index and executor: a speculative copy runs elsewhere."""

_PREDICTED_WEIGHT = 0.5
"""Part of a fetch that must have been seen to count as much as what was predicted of it."""


@dataclass(slots=True, kw_only=True)
class ExecutorState:
    """One executor and the link of its host."""

    executor: str
    host: str
    network: NetworkId
    cores: float
    epoch: int
    """Number of the resource allocation that brought it."""

    compute: ShareClock
    running: int = 0
    """Tasks of followed task sets that run on it."""
    reading: int = 0
    """Those of them that have not read their input."""
    rate_bytes_per_s: dict[int, float] = field(default_factory=dict)
    """Its total rate of reading, moving average, by the number of tasks that read at once."""
    sample: tuple[float, dict[RunKey, int]] | None = None
    """Time of the last report of all its reading tasks, and the bytes that each had read."""


@dataclass(slots=True, kw_only=True)
class HostState:
    """The link of one host, shared by its executors."""

    link: ShareClock


@dataclass(slots=True, kw_only=True)
class RunningTask:
    """A task between its launch and its end."""

    group: int | None
    started_s: float
    link_mark: float
    """Reading of the host's link clock when it started."""
    source: str | None
    """The other host that it mainly reads from, if there is one."""
    source_mark: float
    """Reading of that host's link clock when it started."""
    first_seen: tuple[float, int] | None = None
    """Time of the first report about it, and the bytes that it had read by then."""
    fetching: bool = True
    fetched_s: float = 0.0
    alone_io_s: float = 0.0
    """Seconds that its reading would have taken alone on the link; once it has read."""
    compute_mark: float = 0.0

    def left_s(
        self, expected_bytes: float, read_bytes: int, now_s: float, predicted_s: float | None
    ) -> float | None:
        """Seconds until it has read ``expected_bytes``.

        At the rate since the first report and the predicted one: two reports of a short fetch
        alone say little.

        Args:
            expected_bytes: of its whole input.
            read_bytes: read by now.
            now_s: epoch seconds.
            predicted_s: of reading the whole input; None where nothing is known of it.

        Returns:
            None at the first report: what lies on the host itself comes first and fast, so the
            rate from the start says little.
        """
        if self.first_seen is None:
            self.first_seen = (now_s, read_bytes)
            return None
        first_s, first_bytes = self.first_seen
        seen_bytes: float = read_bytes - first_bytes
        span_s = now_s - first_s
        if predicted_s is not None:
            seen_bytes += _PREDICTED_WEIGHT * expected_bytes
            span_s += _PREDICTED_WEIGHT * predicted_s
        if seen_bytes <= 0:
            return None
        return max(0.0, expected_bytes - read_bytes) * span_s / seen_bytes
