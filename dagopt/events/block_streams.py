"""Spark's own lz4 and snappy streams, which are not the formats of the tools of that name.

Spark writes with ``LZ4BlockOutputStream`` of lz4-java and ``SnappyOutputStream`` of snappy-java:
blocks behind headers of their own. Checksums are not verified; a damaged block shows as one that
does not decompress, or as broken lines.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

LZ4_MAGIC = b"LZ4Block"
SNAPPY_MAGIC = b"\x82SNAPPY\x00"

# After the magic: token, compressed and plain length, checksum.
_LZ4_HEADER = struct.Struct("<BIII")
_LZ4_RAW = 0x10
_LZ4_COMPRESSED = 0x20
_SNAPPY_HEADER = struct.Struct(">II")  # version and lowest compatible version
_SNAPPY_LENGTH = struct.Struct(">I")

#: No writer makes larger blocks (Spark's default is 32 KiB); beyond, a length is damage.
_MAX_BLOCK_BYTES = 64 << 20


class DamagedStreamError(Exception):
    """The compressed stream ends early or makes no sense from here on."""


def lz4_blocks(file: BinaryIO) -> Iterator[bytes]:
    """The plain bytes of an lz4-java block stream.

    Raises:
        DamagedStreamError: after the last whole block.
    """
    codec = pa.Codec("lz4_raw")
    while magic := file.read(len(LZ4_MAGIC)):
        if magic != LZ4_MAGIC:
            raise DamagedStreamError("lz4: no block where one must start")
        token, stored_bytes, plain_bytes, _ = _LZ4_HEADER.unpack(_exactly(file, _LZ4_HEADER.size))
        # An empty block ends a stream; an appended one may follow.
        if plain_bytes:
            block = _exactly(file, stored_bytes)
            raw = token & 0xF0 == _LZ4_RAW
            yield block if raw else _decompress(codec, block, plain_bytes)


def snappy_blocks(file: BinaryIO) -> Iterator[bytes]:
    """The plain bytes of a snappy-java stream.

    Raises:
        DamagedStreamError: after the last whole block.
    """
    codec = pa.Codec("snappy")
    while head := file.read(_SNAPPY_LENGTH.size):
        if head == SNAPPY_MAGIC[: len(head)]:  # also where another stream was appended
            rest = len(SNAPPY_MAGIC) - len(head) + _SNAPPY_HEADER.size
            _exactly(file, rest)
            continue
        if len(head) < _SNAPPY_LENGTH.size:
            raise DamagedStreamError("the stream ends inside a block")
        block = _exactly(file, _SNAPPY_LENGTH.unpack(head)[0])
        yield _decompress(codec, block, _varint(block))


# Private functions


def _exactly(file: BinaryIO, num_bytes: int) -> bytes:
    if num_bytes > _MAX_BLOCK_BYTES:
        raise DamagedStreamError(f"a block of {num_bytes} bytes")
    data = file.read(num_bytes)
    if len(data) < num_bytes:
        raise DamagedStreamError("the stream ends inside a block")
    return data


def _decompress(codec: pa.Codec, block: bytes, plain_bytes: int) -> bytes:
    if plain_bytes > _MAX_BLOCK_BYTES:
        raise DamagedStreamError(f"a block of {plain_bytes} bytes")
    try:
        plain: bytes = codec.decompress(block, plain_bytes, asbytes=True)
    except (OSError, ValueError) as error:
        raise DamagedStreamError(f"a block does not decompress: {error}") from error
    return plain


def _varint(block: bytes) -> int:
    """The plain length that every raw snappy block starts with."""
    value = shift = 0
    for byte in block[:5]:
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
        shift += 7
    raise DamagedStreamError("a snappy block without a length")
