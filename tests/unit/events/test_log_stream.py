from __future__ import annotations

import gzip
import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from dagopt.errors import InputError
from dagopt.events.log_stream import StreamEnd, read_lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LINES = [b'{"Event":"a"}', b'{"Event":"' + b"b" * 700_000 + b'"}', b"\xff\xfe", b"last"]


def lines_of(path: Path) -> tuple[list[bytes], StreamEnd]:
    end = StreamEnd()
    return list(read_lines(path, end)), end


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as out:
        out.write(data)
    compressed: bytes = sink.getvalue().to_pybytes()
    return compressed


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstd], ids=["plain", "gzip", "zstd"])
def test_lines_are_the_same_however_the_file_is_compressed(
    compress: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.write_bytes(compress(b"\n".join(LINES) + b"\n"))
    assert lines_of(log) == (LINES, StreamEnd())


def test_an_open_last_line_is_given_and_said(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\n\n\ntwo\r\nthr")
    assert lines_of(log) == ([b"one", b"two\r", b"thr"], StreamEnd(last_line_open=True))


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"")
    assert lines_of(log) == ([], StreamEnd())


@pytest.mark.parametrize("compress", [gzip.compress, zstd], ids=["gzip", "zstd"])
def test_a_cut_compressed_file_gives_what_is_before_the_cut(
    compress: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    rows = [b"%d %s" % (n, os.urandom(400).hex().encode()) for n in range(10_000)]  # 8 MB
    data = compress(b"\n".join(rows) + b"\n")
    log = tmp_path / "log"
    log.write_bytes(data[: len(data) * 3 // 4])
    lines, end = lines_of(log)
    assert end.problem
    assert len(lines) > 7_000
    assert lines[:-1] == rows[: len(lines) - 1]


def test_the_unfinished_frame_of_a_running_application_is_read_to_its_end(tmp_path: Path) -> None:
    rows = [b"%d" % n for n in range(50_000)]
    sink = pa.BufferOutputStream()
    out = pa.CompressedOutputStream(sink, "zstd")
    out.write(b"\n".join(rows) + b"\n")
    out.flush()
    out.close()
    log = tmp_path / "log"
    log.write_bytes(sink.getvalue().to_pybytes()[:-3])  # without the empty block that ends it
    lines, end = lines_of(log)
    assert lines == rows
    assert end.problem


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"ZV\x01", "lzf is not supported"),
        (b"PK\x03\x04", "a zip file that is damaged, inside of another one"),
        (b"\x04\x22\x4d\x18", "lz4 frames are not supported"),
        (b"BZh9", "bzip2 is not supported"),
        (b"PAR1", "this is a Parquet file"),
    ],
)
def test_what_cannot_be_read_is_named(head: bytes, said: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(head + b"\x00" * 20)
    with pytest.raises(InputError, match=said) as raised:
        lines_of(log)
    assert str(raised.value).startswith(f"{log}: ")


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        lines_of(tmp_path / "gone")


@pytest.mark.parametrize(
    "data",
    [
        b"LZ4Block",  # no header
        b"LZ4Block\x20" + b"\xff" * 12,  # sizes of 4 GB
        b"LZ4Block\x20" + (9).to_bytes(4, "little") + (99).to_bytes(4, "little") + b"\0" * 13,
        b"\x82SNAPPY\x00",
        b"\x82SNAPPY\x00" + b"\0" * 8 + b"\x7f\xff\xff\xff",
        b"\x82SNAPPY\x00" + b"\0" * 8 + b"\x00\x00\x00\x02\xff\xff",
        b"\x28\xb5\x2f\xfd\x00\x00",
        b"\x1f\x8b\x08\x00",
    ],
)
def test_a_damaged_stream_ends_with_a_problem_and_no_error(data: bytes, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(data)
    lines, end = lines_of(log)
    assert lines == []
    assert end.problem
