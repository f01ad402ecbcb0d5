"""Stage profiles in a Parquet file: what ``dagopt learn`` writes and the planner reads.

One row a signature, one column a field of :class:`StageProfile`. The schema's version stands in
the file's metadata and rises when a column changes its meaning or goes.
"""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from dagopt.errors import InputError
from dagopt.model.stage_profile import StageProfile, StageProfiles

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SCHEMA_VERSION: Final = 1
_VERSION_KEY: Final = b"dagopt.stage_profile.version"
_SCHEMA: Final = pa.schema(
    [
        pa.field("signature", pa.string(), nullable=False),
        pa.field("num_runs", pa.int64(), nullable=False),
        pa.field("num_tasks", pa.int64(), nullable=False),
        pa.field("read_bytes_per_task", pa.float64(), nullable=False),
        pa.field("cpu_s_per_task", pa.float64(), nullable=False),
        pa.field("io_wait_s_per_task", pa.float64(), nullable=False),
        pa.field("io_bytes_per_s", pa.float64()),
        pa.field("spilled_bytes_per_task", pa.float64(), nullable=False),
        pa.field("peak_memory_bytes", pa.int64(), nullable=False),
        pa.field("python", pa.bool_(), nullable=False),
        pa.field("coverage", pa.float64(), nullable=False),
        pa.field("executor_cpu_s_per_task", pa.float64()),
        pa.field("cost_spread", pa.float64(), nullable=False),
    ],
    metadata={_VERSION_KEY: str(SCHEMA_VERSION).encode()},
)


def write_profile(path: Path, profiles: Iterable[StageProfile]) -> None:
    """Write profiles, sorted by signature; the file is there whole or not at all.

    Raises:
        InputError: the file cannot be written there.
    """
    rows = [dataclasses.asdict(p) for p in sorted(profiles, key=lambda p: p.signature)]
    table = pa.Table.from_pylist(rows, schema=_SCHEMA)
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer)
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        try:
            scratch.write_bytes(buffer.getvalue().to_pybytes())
            scratch.replace(path)
        finally:
            scratch.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error


def read_profile(path: Path) -> StageProfiles:
    """The profiles of a file that :func:`write_profile` wrote.

    Raises:
        InputError: the file cannot be read, is no profile of dagopt's, is of a later version, or
            a row of it holds an impossible value; the message says which.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        table = pq.ParquetFile(pa.BufferReader(data)).read()
    except (pa.ArrowException, OSError) as error:  # pyarrow says OSError of damaged data too
        said = " ".join(str(error).split())
        raise InputError(f"{path}: not a Parquet file, or a damaged one: {said}") from error
    version = (table.schema.metadata or {}).get(_VERSION_KEY)
    if version is None:
        raise InputError(f"{path}: a Parquet file, but not a profile that dagopt learn wrote")
    if version != str(SCHEMA_VERSION).encode():
        raise InputError(
            f"{path}: schema version {version.decode('utf-8', 'replace')}, this dagopt reads"
            f" {SCHEMA_VERSION}; run dagopt learn again"
        )
    for field in _SCHEMA:
        if field.name not in table.schema.names:
            raise InputError(f"{path}: column {field.name} is missing")
        got = table.schema.field(field.name).type
        if got != field.type:
            raise InputError(f"{path}: column {field.name}: expected {field.type}, got {got}")
    rows: list[dict[str, Any]] = table.select(_SCHEMA.names).to_pylist()
    return StageProfiles(_profile(path, number, row) for number, row in enumerate(rows))


# Private functions


def _profile(path: Path, number: int, row: dict[str, Any]) -> StageProfile:
    missing = [f.name for f in _SCHEMA if not f.nullable and row[f.name] is None]
    if missing:
        raise InputError(f"{path}: row {number}: {missing[0]} is missing")
    try:
        return StageProfile(**row)
    except InputError as error:
        raise InputError(f"{path}: row {number}: {error}") from error
