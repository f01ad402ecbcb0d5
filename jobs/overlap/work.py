"""What the tasks of the benchmark do: functions for ``mapInArrow``, shipped by value.

Every function first consumes all its input (the fetch), then computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

Function = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]

RESULT = "bytes long, core_s double"
"""One row a task: bytes read, and core seconds that computing took."""

QUANTUM_S = 0.05
"""A time slice of an emulated core."""


def hold_core(core_dir: str, core_s: float) -> Function:
    """Compute for ``core_s`` on the host's emulated core, a lock taken slice by slice.

    A second lock, the queue, is taken first: a task that has just used the core must queue
    behind one that waits already, as a fair scheduler would have it. A network namespace is a
    host, so its inode names the host's locks.
    """
    num_quanta = round(core_s / QUANTUM_S)
    quantum_s = QUANTUM_S

    def function(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import fcntl
        import time
        from pathlib import Path

        import pyarrow as pa

        total_bytes = sum(sum(batch["bytes"].to_pylist()) for batch in batches)
        host = "".join(filter(str.isdigit, str(Path("/proc/self/ns/net").readlink())))
        name = Path(core_dir) / host
        with (
            name.with_suffix(".queue").open("w") as queue,
            name.with_suffix(".core").open("w") as core,
        ):
            for _ in range(num_quanta):
                fcntl.flock(queue, fcntl.LOCK_EX)
                fcntl.flock(core, fcntl.LOCK_EX)
                fcntl.flock(queue, fcntl.LOCK_UN)
                time.sleep(quantum_s)
                fcntl.flock(core, fcntl.LOCK_UN)
        yield pa.RecordBatch.from_pydict(
            {"bytes": [total_bytes], "core_s": [num_quanta * quantum_s]}
        )

    return function


def burn_cpu(core_dir: str, core_s: float) -> Function:
    """Compute for ``core_s`` of this thread's own CPU time; ``core_dir`` is not needed."""
    del core_dir

    def function(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import hashlib
        import time

        import pyarrow as pa

        total_bytes = sum(sum(batch["bytes"].to_pylist()) for batch in batches)
        start_s = time.thread_time()
        block = bytes(64 * 1024)
        while time.thread_time() - start_s < core_s:
            block = hashlib.sha256(block).digest() * 2048
        spent_s = time.thread_time() - start_s
        yield pa.RecordBatch.from_pydict({"bytes": [total_bytes], "core_s": [spent_s]})

    return function


def rows_of_source(sources: tuple[str, ...], half: int, rows_each: int) -> Function:
    """On source number s, ``rows_each`` rows for each partition of its half; elsewhere none."""

    def function(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        import pyarrow as pa

        for _ in batches:
            pass
        here = os.environ["SPARK_LOCAL_HOSTNAME"]
        if here in sources:
            first = sources.index(here) * half
            parts = [first + number // rows_each for number in range(half * rows_each)]
            yield pa.RecordBatch.from_pydict({"part": pa.array(parts, pa.int32())})

    return function
