"""The task ends of one stage attempt while they are collected, and their columns.

What versions of Spark mean by a number is settled here, once:

* stamps and most spans are ms, CPU and shuffle write times ns;
* executor run time was multiplied by the task's cpus from 4.0 on;
* a stamp of 0 means "not yet", and a negative size or span means "not known";
* a group of metrics that is missing beside others means nothing was done (before 2.0).

Not done: telling what fetch wait would be in a Spark that leaves out connecting (before 4.1).
"""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dagopt.events import spark_events as ev
from dagopt.events.impossible import drop_impossible
from dagopt.events.trace import TaskColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Column = NDArray[np.float64]

_IDENTITY: Final = ("index", "attempt", "executor", "host", "ok", "speculative")
_TIMES: Final = ("launch_s", "finish_s")
_METRICS: Final = (
    "run_s",
    "deserialize_s",
    "serialize_s",
    "fetch_wait_s",
    "cpu_s",
    "gc_s",
    "shuffle_write_s",
    "remote_read_bytes",
    "local_read_bytes",
    "read_blocks",
    "input_bytes",
    "shuffle_written_bytes",
    "output_bytes",
    "spilled_bytes",
    "peak_memory_bytes",
)
_COLUMNS: Final = (*_IDENTITY, *_TIMES, *_METRICS)
_NO_METRICS: Final = (math.nan,) * len(_METRICS)

_MOST: Final = 2**31
"""Spark counts tasks and attempts in 32 bits; what is beyond is nonsense."""

_MOST_AMOUNT: Final = 2**60
"""No task reads an exabyte."""

_MS_PER_S: Final = 1e3
_NS_PER_S: Final = 1e9
_NO_READ: Final = ev.ShuffleReadMetrics(
    fetch_wait_ms=0, remote_bytes=0, local_bytes=0, remote_blocks=0, local_blocks=0
)
_NO_WRITE: Final = ev.ShuffleWriteMetrics(written_bytes=0, write_ns=0)
_NO_INPUT: Final = ev.InputMetrics(read_bytes=0)
_NO_OUTPUT: Final = ev.OutputMetrics(written_bytes=0)


class StageRows:
    """Ends of the tasks of one stage attempt: one flat array of doubles, 184 bytes an end."""

    __slots__ = (
        "_cells",
        "ended_early",
        "execution_id",
        "info",
        "is_completed",
        "wrote_map_output",
    )

    def __init__(self) -> None:
        self._cells = array("d")
        self.info: ev.StageInfo | None = None
        #: SQL execution that it belongs to.
        self.execution_id: str | None = None
        self.is_completed = False
        self.wrote_map_output = False
        #: Tasks whose end came before their start, or without it.
        self.ended_early: set[int] = set()

    def add(self, event: ev.TaskEnd, info: ev.TaskInfo, executor: int, host: int) -> None:
        """Add the end of one attempt, on the executor and host of these indexes."""
        finish_ms = info.finish_ms or 0
        # A result too large to be sent along is fetched when the slot is already free.
        if info.getting_result_ms and 0 < info.getting_result_ms < finish_ms:
            finish_ms = info.getting_result_ms
        launch_ms = info.launch_ms or 0
        self._cells.extend(
            (
                info.index if info.index is not None and 0 <= info.index < _MOST else -1,
                min(max(0, info.attempt or 0), _MOST),
                executor,
                host,
                event.reason is not None and event.reason.reason == "Success",
                bool(info.speculative),
                stamp_s(launch_ms),
                stamp_s(finish_ms),
            )
        )
        metrics = event.metrics
        if metrics is None:
            self._cells.extend(_NO_METRICS)
            return
        read = metrics.shuffle_read or _NO_READ
        write = metrics.shuffle_write or _NO_WRITE
        if write.written_bytes:
            self.wrote_map_output = True
        self._cells.extend(
            (
                # A fraction of a cpu, less deserialising, may be negative until it is put right.
                math.nan if metrics.run_ms is None else metrics.run_ms / _MS_PER_S,
                _amount(metrics.deserialize_ms, _MS_PER_S),
                _amount(metrics.serialize_ms, _MS_PER_S),
                _amount(read.fetch_wait_ms, _MS_PER_S),
                _amount(metrics.cpu_ns, _NS_PER_S),
                _amount(metrics.gc_ms, _MS_PER_S),
                _amount(write.write_ns, _NS_PER_S),
                _amount(read.remote_bytes),
                _amount(read.local_bytes),
                _amount(read.remote_blocks) + _amount(read.local_blocks),
                _amount((metrics.input or _NO_INPUT).read_bytes),
                _amount(write.written_bytes),
                _amount((metrics.output or _NO_OUTPUT).written_bytes),
                _amount(metrics.spilled_bytes),
                _amount(metrics.peak_memory_bytes),
            )
        )

    def columns(self, run_time_cpus: float, around_s: float) -> tuple[TaskColumns, int]:
        """All ends so far, and how many of them had a time that cannot be.

        Args:
            run_time_cpus: what this Spark multiplied the tasks' time by, > 0: their cpus from
                4.0 on, else 1.
            around_s: the middle of all stamps; NaN where that is not known.
        """
        cells = np.array(self._cells, dtype=np.float64).reshape(-1, len(_COLUMNS)).T
        column: dict[str, Column] = dict(zip(_COLUMNS, np.ascontiguousarray(cells), strict=True))
        run_s = column["run_s"]
        if run_time_cpus != 1:
            deserialize_s = np.nan_to_num(column["deserialize_s"])
            run_s = (run_s + deserialize_s) / run_time_cpus - deserialize_s
        column["run_s"] = np.where(run_s >= 0, run_s, np.nan)
        num_impossible = drop_impossible(column, around_s)
        for values in column.values():
            values.setflags(write=False)
        index, attempt, executor, host = (
            _fixed(column.pop(name), np.int64) for name in _IDENTITY[:4]
        )
        ok, speculative = (_fixed(column.pop(name), np.bool_) for name in _IDENTITY[4:])
        tasks = TaskColumns(
            index=index,
            attempt=attempt,
            executor=executor,
            host=host,
            ok=ok,
            speculative=speculative,
            **column,
        )
        return tasks, num_impossible


def stamp_s(time_ms: int | None) -> float:
    """Seconds of a stamp; NaN where it is not set."""
    return time_ms / _MS_PER_S if time_ms is not None and time_ms > 0 else math.nan


# Private functions


def _amount(number: int | None, per_unit: float = 1.0) -> float:
    return number / per_unit if number is not None and 0 <= number < _MOST_AMOUNT else math.nan


def _fixed(values: Column, kind: type[np.generic]) -> NDArray[Any]:
    fixed = values.astype(kind)
    fixed.setflags(write=False)
    return fixed
