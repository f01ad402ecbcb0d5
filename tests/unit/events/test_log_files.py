from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dagopt.errors import InputError
from dagopt.events.log_files import find_event_logs

if TYPE_CHECKING:
    from pathlib import Path


def make(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def test_a_file_is_one_log(tmp_path: Path) -> None:
    make(tmp_path, "app-1.inprogress")
    (log,) = find_event_logs(tmp_path / "app-1.inprogress")
    assert log.parts == (tmp_path / "app-1.inprogress",)
    assert log.has_first_part
    assert not log.is_compacted


def test_parts_of_a_rolling_log_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    folder = tmp_path / "eventlog_v2_app-1"
    make(folder, "events_10_app-1.zstd", "events_2_app-1.zstd", "events_1_app-1.zstd")
    make(folder, "appstatus_app-1.inprogress", ".events_3_app-1.crc")
    (log,) = find_event_logs(folder)
    assert [part.name for part in log.parts] == [f"events_{n}_app-1.zstd" for n in (1, 2, 10)]
    assert log.has_first_part


def test_a_rolling_log_without_its_beginning_says_so(tmp_path: Path) -> None:
    make(tmp_path, "events_3_app-1", "events_4_app-1")
    (log,) = find_event_logs(tmp_path)
    assert not log.has_first_part


def test_a_compacted_part_stands_for_all_before_it(tmp_path: Path) -> None:
    make(tmp_path, "events_1_app-1", "events_2_app-1.compact", "events_2_app-1", "events_3_app-1")
    (log,) = find_event_logs(tmp_path)
    assert [part.name for part in log.parts] == ["events_2_app-1.compact", "events_3_app-1"]
    assert log.is_compacted
    assert log.has_first_part


def test_a_folder_is_searched_and_sorted(tmp_path: Path) -> None:
    make(tmp_path, "b", "a/app-2.gz", "eventlog_v2_c/events_1_c", "_SUCCESS", ".hidden", "b.crc")
    names = [str(log.path).removeprefix(f"{tmp_path}/") for log in find_event_logs(tmp_path)]
    assert names == ["a/app-2.gz", "b", "eventlog_v2_c"]


@pytest.mark.parametrize("names", [(), (".hidden", "_SUCCESS")])
def test_a_folder_without_logs_is_an_input_error(names: tuple[str, ...], tmp_path: Path) -> None:
    make(tmp_path, *names)
    with pytest.raises(InputError, match="holds no event log"):
        find_event_logs(tmp_path)


def test_a_path_that_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="gone: no such file or folder"):
        find_event_logs(tmp_path / "gone")
