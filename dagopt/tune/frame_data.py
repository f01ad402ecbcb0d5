"""A DataFrame as a data set: its partitions as Arrow files, read in order once a pass.

Columns become arrays without a look at single rows: numbers as ``(B,)``, lists of equal length as
``(B, n)``, other types as arrays of objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dagopt.errors import InputError
from dagopt.spark.phases import task_attempt
from dagopt.tune.checkpoint import Store
from dagopt.tune.trainable import Params

FOLDER = "data"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameData:
    """Batches of the files in a checkpoint folder."""

    path: str
    """The folder of the sweep."""
    files: tuple[str, ...]
    """Of the partitions that are not empty, in order."""
    batch_size: int
    """Rows of a batch where a trial has no parameter ``batch_size``; the last one may have fewer."""

    def dataset(self, params: Params) -> str:
        """Trials of one batch size read the same batches."""
        return f"DataFrame, batches of {self._rows(params)}"

    def __call__(self, params: Params) -> Iterator[dict[str, Any]]:
        """One pass."""
        rows = self._rows(params)
        waiting: list[pa.RecordBatch] = []
        num_waiting = 0
        for batch in self._record_batches():
            waiting.append(batch)
            num_waiting += batch.num_rows
            if num_waiting < rows:
                continue
            table = pa.Table.from_batches(waiting)
            whole = num_waiting - num_waiting % rows
            for first in range(0, whole, rows):
                yield arrays_of(table.slice(first, rows))
            waiting = table.slice(whole).to_batches()
            num_waiting -= whole
        if num_waiting:
            yield arrays_of(pa.Table.from_batches(waiting))

    def _rows(self, params: Params) -> int:
        return int(params.get("batch_size", self.batch_size))

    def _record_batches(self) -> Iterator[pa.RecordBatch]:
        store = Store(self.path)
        for name in self.files:
            with store.input(name) as file, pa.ipc.open_file(file) as reader:
                for index in range(reader.num_record_batches):
                    yield reader.get_batch(index)


def write_partition(
    path: str, application: str, number: int, batches: Iterable[pa.RecordBatch]
) -> tuple[str, int]:
    """Write one partition; returns the file and its rows.

    Each attempt of a task has a file of its own: one that is lost, or that another one overtakes, may
    end or go on as it will.
    """
    name = f"{FOLDER}/part-{number:05d}-{application}-{task_attempt()}.arrow"
    rows = 0
    writer = None
    with Store(path).output(name) as stream:
        for batch in batches:
            writer = writer or pa.ipc.new_file(stream, batch.schema)
            writer.write_batch(batch)
            rows += batch.num_rows
        if writer is not None:
            writer.close()
    return name, rows


def arrays_of(table: pa.Table) -> dict[str, Any]:
    """The columns of a table as arrays.

    Raises:
        InputError: lists of a column have different lengths, or nulls.
    """
    return {
        name: array_of(name, table.column(name).combine_chunks()) for name in table.column_names
    }


def array_of(name: str, column: pa.Array) -> Any:
    """One column as an array; see the module."""
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        values = column.flatten().to_numpy(zero_copy_only=False)
        lengths = np.diff(column.offsets.to_numpy())
        if column.null_count or (lengths != lengths[:1]).any():
            raise InputError(f"data: lists of column {name} differ in length, or are null")
        return values.reshape(len(column), -1)
    if pa.types.is_fixed_size_list(column.type):
        return column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), -1)
    return column.to_numpy(zero_copy_only=False)
