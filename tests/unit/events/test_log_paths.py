from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from dagopt.errors import InputError
from dagopt.events.log_paths import log_path
from dagopt.events.read import find_event_logs, read_trace
from tests.unit.events.event_lines import small_log

LOG = b"\n".join(small_log()) + b"\n"
ZSTD = bytes(pa.compress(LOG, "zstd", asbytes=True))


@pytest.mark.parametrize("data", [LOG, gzip.compress(LOG), ZSTD], ids=["plain", "gzip", "zstd"])
def test_a_log_in_a_zip_file(tmp_path: Path, data: bytes) -> None:
    archive = tmp_path / "logs.zip"
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("spark/app-1", data)
        out.writestr("spark/._app-1", b"what a Mac leaves")
    (log,) = find_event_logs(archive)
    trace, health = read_trace(log)
    assert trace.name == "etl"
    assert health.problems == ()
    assert str(log.path).endswith("logs.zip/spark/app-1")


def test_a_path_may_go_on_inside_of_a_zip_file(tmp_path: Path) -> None:
    archive = tmp_path / "logs.zip"
    with zipfile.ZipFile(archive, "w") as out:
        for name in ("a/app-1", "b/app-2"):
            out.writestr(name, LOG)
    (log,) = find_event_logs(log_path(f"{archive}/b"))
    assert str(log.path) == f"{archive}/b/app-2"
    assert read_trace(log)[0].name == "etl"
    with pytest.raises(InputError, match=r"logs\.zip/c: no such file or folder"):
        find_event_logs(log_path(f"{archive}/c"))


def test_a_rolling_log_in_a_zip_file(tmp_path: Path) -> None:
    archive = tmp_path / "logs.zip"
    half = len(small_log()) // 2
    with zipfile.ZipFile(archive, "w") as out:
        for number, lines in ((1, small_log()[:half]), (2, small_log()[half:])):
            out.writestr(f"eventlog_v2_app-1/events_{number}_app-1", b"\n".join(lines) + b"\n")
        out.writestr("eventlog_v2_app-1/appstatus_app-1", b"")
    (log,) = find_event_logs(archive)
    trace, _ = read_trace(log)
    assert [part.name for part in log.parts] == ["events_1_app-1", "events_2_app-1"]
    assert trace.is_complete


@pytest.mark.parametrize("data", [LOG, gzip.compress(LOG), ZSTD], ids=["plain", "gzip", "zstd"])
def test_a_log_behind_a_uri(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "app-1").write_bytes(data)
    uri = (tmp_path / "logs").as_uri()
    (log,) = find_event_logs(log_path(uri))
    trace, health = read_trace(log)
    assert str(log.path) == f"{uri}/app-1"
    assert trace.name == "etl"
    assert health.problems == ()


def test_what_cannot_be_opened_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nosuch://x: cannot be opened"):
        log_path("nosuch://x")
    with pytest.raises(InputError, match="no such file or folder"):
        find_event_logs(log_path((tmp_path / "none").as_uri()))
    broken = tmp_path / "broken.zip"
    broken.write_bytes(b"PK\x03\x04 and nothing more")
    with pytest.raises(InputError, match="a damaged zip file"):
        find_event_logs(broken)
    empty = tmp_path / "empty.zip"
    with zipfile.ZipFile(empty, "w") as out:
        out.writestr("folder/_SUCCESS", b"")
    with pytest.raises(InputError, match="the zip file holds no event log"):
        find_event_logs(empty)
