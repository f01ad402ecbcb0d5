"""What a shuffle that dagopt inserts would cost in a recorded application, from the shuffles that it had.

* Map tasks that wrote on a host at the same time shared its disks. A task's writing is taken to be at its
  end, since Spark records its length alone.
* What a stage wrote moments ago is read from memory where that can hold it: such reading is no wait that
  Spark measures, so it has a prior. How much memory a host has is not in a log.
* Links carry what they did in the shuffles that were waited for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from dagopt.cost.alone_time import alone_s
from dagopt.cost.bandwidth import CACHED_BYTES_PER_S
from dagopt.cost.inserted_shuffle import ShuffleRates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dagopt.events.trace import StageTrace

_MIN_WRITTEN_BYTES: Final = 64 << 20
"""Writing fewer bytes shows delays, and not a rate."""

_MIN_TASK_BYTES: Final = 1 << 20
"""What fewer bytes of a task took is opening files."""

_CACHED_BYTES: Final = 4 << 30
"""What a host is taken to keep in memory of what it wrote."""


def recorded_shuffle_rates(
    stages: Sequence[StageTrace], link_bytes_per_s: float | None
) -> ShuffleRates:
    """Rates as the application's own shuffles show them, priors where they do not.

    Args:
        stages: the recorded stage attempts.
        link_bytes_per_s: what a host's link carried; None where that is not known.
    """
    rates = ShuffleRates()
    if link_bytes_per_s is not None:
        rates = replace(rates, network_bytes_per_s=link_bytes_per_s)
    writers = [
        (stage.tasks, rows)
        for stage in stages
        if (
            rows := np.flatnonzero(
                stage.tasks.ok
                & (stage.tasks.shuffle_written_bytes >= _MIN_TASK_BYTES)
                & (stage.tasks.shuffle_write_s > 0)
                & np.isfinite(stage.tasks.finish_s)
            )
        ).size
    ]
    written = sum(float(tasks.shuffle_written_bytes[rows].sum()) for tasks, rows in writers)
    if written < _MIN_WRITTEN_BYTES:
        return rates
    num_hosts = 1 + max(int(tasks.host[rows].max()) for tasks, rows in writers)
    took_s = alone_s(
        [tasks.finish_s[rows] - tasks.shuffle_write_s[rows] for tasks, rows in writers],
        [tasks.shuffle_write_s[rows] for tasks, rows in writers],
        [tasks.host[rows] for tasks, rows in writers],
        [1.0] * num_hosts,
    )
    total_s = sum(float(column.sum()) for column in took_s)
    return replace(rates, disk_bytes_per_s=written / total_s) if total_s > 0 else rates


def rereading(rates: ShuffleRates, host_bytes: float) -> ShuffleRates:
    """Rates for a shuffle of which each host writes so many bytes."""
    if host_bytes > _CACHED_BYTES or rates.disk_bytes_per_s >= CACHED_BYTES_PER_S:
        return rates
    return replace(rates, reread_bytes_per_s=CACHED_BYTES_PER_S)
