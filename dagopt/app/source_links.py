"""Tasks that may have waited for the link of a host that they read from, and not for their own host's.

A log does not say which task read from which host. A task that fetched a block of every map output read
from all of its hosts, in step with the others, so the links of sources and of readers were waited for
alike. One that fetched fewer blocks may have read from few hosts, and tasks that run at the same time
from the same one: then they shared its link, each would read faster alone, and another order gains more.

The log is read in both ways. In the second, tasks read from one source each, in the order of their
indexes, as much as its share of the map output: so range partitions and buckets lie. Where that makes
the same number of bytes take more nearly the same time than the first way does, it is the likelier one;
and where neither does, if each task fetched just as many blocks as some source has map outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from dagopt.cost.alone_time import alone_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dagopt.events.trace import ApplicationTrace, StageTrace

    Column = NDArray[np.float64]

_FEW_BLOCKS: Final = 0.75
"""Blocks over those that all tasks would fetch of all map outputs, from which on that was all of them:
some of a shuffle's blocks are empty."""

_ALIKE: Final = 1.1
"""Spreads whose ratio is up to this say nothing."""

_MIN_TASKS: Final = 8
"""Fewer tasks show no rule."""

_MIN_BYTES: Final = 16 << 20
"""What a stage must fetch for its links to matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReading:
    """What the reading of a stage's tasks takes where the links of sources were waited for."""

    io_s: tuple[float, ...]
    """``(N,)`` seconds of each attempt, alone on the link of its source."""

    is_likely: bool
    """Whether it fits the recorded waits better than that each host waited for its own link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A host that wrote map output for a stage."""

    host: str
    written_bytes: int
    num_outputs: int
    """Map outputs that are not empty."""


def map_output(trace: ApplicationTrace, stage: StageTrace) -> tuple[Source, ...]:
    """Who wrote what a stage reads, by host; empty where the log does not hold the maps."""
    found: dict[str, tuple[int, int]] = {}
    for parent in trace.stages:
        if parent.stage_id not in stage.parent_stage_ids:
            continue
        written = np.nan_to_num(parent.tasks.shuffle_written_bytes)
        for host in np.unique(parent.tasks.host[written > 0]).tolist():
            name = trace.host_names[host]
            here = (parent.tasks.host == host) & (written > 0)
            size, number = found.get(name, (0, 0))
            number += np.unique(parent.tasks.index[here]).size
            found[name] = (size + int(written[here].sum()), number)
    return tuple(
        Source(host=host, written_bytes=size, num_outputs=number)
        for host, (size, number) in sorted(found.items())
    )


def source_reading(
    trace: ApplicationTrace,
    stage: StageTrace,
    rows: NDArray[np.int64],
    spans: tuple[Column, Column],
    host_io_s: Column,
) -> SourceReading | None:
    """The other way to read the waits of a stage; None where there is no other.

    Args:
        trace: the application.
        stage: the stage attempt.
        rows: ``(N,)`` places of its attempts that count.
        spans: when each began to wait, and how long it did, ``(N,)`` each.
        host_io_s: ``(N,)`` seconds of reading alone where each host waited for its own link.
    """
    tasks = stage.tasks
    size = np.nan_to_num(tasks.remote_read_bytes[rows])
    blocks = tasks.read_blocks[rows]
    is_reader = (size > 0) & (host_io_s > 0)
    if size.sum() < _MIN_BYTES or np.isnan(blocks).any() or is_reader.sum() < _MIN_TASKS:
        return None
    readers = np.unique(tasks.host[rows][is_reader]).size
    sources = map_output(trace, stage)
    num_outputs = sum(each.num_outputs for each in sources)
    if (
        readers < 2
        or len(sources) == 1
        or blocks.sum() >= _FEW_BLOCKS * num_outputs * rows.size > 0
    ):
        return None
    shares = np.array([float(each.written_bytes) for each in sources] or [1.0])
    shares /= shares.sum()
    source = _in_order(tasks.index[rows], size, shares)
    io_s = alone_s([spans[0]], [spans[1]], [source], [1.0] * shares.size)[0]
    of_one = np.isin(blocks[is_reader], [each.num_outputs for each in sources]).all()
    limit = (_ALIKE if of_one else 1.0) * _spread(host_io_s[is_reader] / size[is_reader])
    is_likely = num_outputs > 0 and _spread(io_s[is_reader] / size[is_reader]) < limit
    if num_outputs:
        # The links of the readers together may carry more than that of the largest source.
        io_s = io_s * max(1.0, readers * float(shares.max()))
    return SourceReading(io_s=tuple(io_s.tolist()), is_likely=is_likely)


# Private functions


def _in_order(index: NDArray[np.int64], size: Column, shares: Column) -> NDArray[np.int64]:
    """``(N,)`` the source of each attempt, as a place in ``shares``."""
    order = np.argsort(index, kind="stable")
    middle = np.empty(size.size)
    middle[order] = (np.cumsum(size[order]) - size[order] / 2) / size.sum()
    return np.minimum(np.searchsorted(np.cumsum(shares), middle), shares.size - 1)


def _spread(values: Sequence[float] | Column) -> float:
    """Standard deviation over the mean."""
    return float(np.std(values) / np.mean(values))
