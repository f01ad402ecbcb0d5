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


def map_rows(
    claim_dir: str, parts_of: dict[str, range], maps_per_host: int, rows_each: int
) -> Function:
    """Rows for a shuffle, from the same number of map tasks on each host.

    A map task's place is the scheduler's choice, so the stage has more tasks than needed: on each
    host of ``parts_of`` the first ``maps_per_host`` claim a number (a file in ``claim_dir``) and
    write ``rows_each`` rows for each of the host's partitions. The others write nothing, and hold
    their slots until everything is claimed, so that the rest comes to the other hosts.
    """
    num_claims = maps_per_host * len(parts_of)

    def function(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import time
        from pathlib import Path

        import pyarrow as pa

        for _ in batches:
            pass
        here = os.environ["SPARK_LOCAL_HOSTNAME"]
        for number in range(maps_per_host if here in parts_of else 0):
            try:
                os.close(os.open(f"{claim_dir}/{here}-{number}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            rows = [part for part in parts_of[here] for _ in range(rows_each)]
            yield pa.RecordBatch.from_pydict({"part": pa.array(rows, pa.int32())})
            return
        deadline_s = time.monotonic() + 60
        while len(list(Path(claim_dir).iterdir())) < num_claims and time.monotonic() < deadline_s:
            time.sleep(0.02)

    return function
