r"""The lines of one event log file, however it is compressed.

The compression is told by the first bytes, not by the name. Lines are split at ``\\n`` only, and
a line may be tens of MB long. Memory holds one chunk and one line.

A stream that ends early gives everything before the damage, then says so through
:class:`StreamEnd`; it never raises for what a cut file looks like.
"""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from dagopt.errors import InputError
from dagopt.events.block_streams import (
    LZ4_MAGIC,
    SNAPPY_MAGIC,
    DamagedStreamError,
    lz4_blocks,
    snappy_blocks,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dagopt.events.log_paths import LogPath

# Small, since after a cut as much as this is read byte by byte.
_CHUNK_BYTES = 64 << 10

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_REFUSED = {
    b"ZV": "lzf is not supported; read it with Spark's history server, or unpack it first",
    b"PK\x03\x04": "a zip file that is damaged, inside of another one, or not called .zip",
    b"\x04\x22\x4d\x18": "lz4 frames are not supported (Spark writes lz4 blocks); unpack it first",
    b"BZh": "bzip2 is not supported; unpack it first",
    b"PAR1": "this is a Parquet file, not an event log",
}


@dataclass(slots=True)
class StreamEnd:
    """How a file ended; filled while its lines are read."""

    problem: str = ""
    """Why the stream broke off; empty when it did not."""

    last_line_open: bool = False
    """Whether the last line lacked its line end."""


def read_lines(path: LogPath, end: StreamEnd) -> Iterator[bytes]:
    """Every line of the file without its line end, in order; empty lines are left out.

    Args:
        path: a file, plain, gzip, zstd, or lz4 or snappy as Spark writes them.
        end: filled in by the time the lines are exhausted.

    Raises:
        InputError: the file cannot be opened, or is compressed in a way not supported.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    with file:
        pending: list[bytes] = []  # a line that no chunk has ended yet, in pieces
        try:
            for chunk in _chunks(path, file):
                first, *lines = chunk.split(b"\n")
                pending.append(first)
                if lines:
                    if whole := b"".join(pending):
                        yield whole
                    pending = [lines.pop()]
                    yield from filter(None, lines)
        except (DamagedStreamError, EOFError, OSError, zlib.error) as error:
            end.problem = str(error) or type(error).__name__
        if last := b"".join(pending):
            end.last_line_open = True
            yield last


# Private functions


def _chunks(path: LogPath, file: BinaryIO) -> Iterator[bytes]:
    head = file.read(8)
    file.seek(0)
    for magic, problem in _REFUSED.items():
        if head.startswith(magic):
            raise InputError(f"{path}: {problem}")
    if head.startswith(LZ4_MAGIC):
        return lz4_blocks(file)
    if head.startswith(SNAPPY_MAGIC):
        return snappy_blocks(file)
    if head.startswith(_GZIP_MAGIC):
        # read1 gives what there is before a cut, where read would raise first.
        return _read(gzip.open(file).read1)
    if head.startswith(_ZSTD_MAGIC):
        return _zstd_chunks(path)
    return _read(file.read)


def _read(read: Callable[[int], bytes]) -> Iterator[bytes]:
    while chunk := read(_CHUNK_BYTES):
        yield chunk


def _zstd_chunks(path: LogPath) -> Iterator[bytes]:
    """The plain bytes of zstd frames, to the last one before a cut.

    The log of a running application always ends in a cut: its frame is not finished.
    """
    num_read = 0
    with pa.CompressedInputStream(_arrow_file(path), "zstd") as stream:
        while True:
            try:
                chunk = stream.read(_CHUNK_BYTES)
            except OSError as error:
                cut = error
                break
            if not chunk:
                return
            num_read += len(chunk)
            yield chunk
    # The read that met the cut gave nothing of what lies before it; single bytes lose nothing.
    tail = bytearray()
    with pa.CompressedInputStream(_arrow_file(path), "zstd") as stream:
        try:
            while num_read:
                num_read -= len(stream.read(min(num_read, _CHUNK_BYTES)))
            while byte := stream.read(1):
                tail += byte
        except OSError:
            pass
    yield bytes(tail)
    raise cut


def _arrow_file(path: LogPath) -> pa.NativeFile:
    return pa.OSFile(str(path)) if isinstance(path, Path) else pa.PythonFile(path.open("rb"), "r")
