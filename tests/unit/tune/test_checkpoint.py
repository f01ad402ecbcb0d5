"""Files of a sweep that several attempts of a task, or several drivers, write and delete."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from dagopt.tune import frame_data
from dagopt.tune.checkpoint import STATES, Store, states_name
from dagopt.tune.frame_data import FrameData, write_partition


def test_an_attempt_that_is_lost_or_late_does_not_touch_the_partition_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = iter(["7", "8"])
    monkeypatch.setattr(frame_data, "task_attempt", lambda: next(attempts))
    batch = pa.RecordBatch.from_pydict({"x": [1.0, 2.0, 3.0]})

    def broken() -> Iterator[pa.RecordBatch]:
        yield batch.slice(0, 1)
        raise OSError("the executor is gone")

    name, rows = write_partition(str(tmp_path), "app-1", 0, [batch])
    with pytest.raises(OSError, match="gone"):
        write_partition(str(tmp_path), "app-1", 0, broken())
    frame = FrameData(path=str(tmp_path), files=(name,), batch_size=2)
    assert rows == 3
    assert [one["x"].tolist() for one in frame({})] == [[1.0, 2.0], [3.0]]


def test_states_of_another_application_have_other_names() -> None:
    names = {states_name(1, 0, application, "3") for application in ("app-1", "app-2")}
    assert len(names) == 2


def test_a_file_that_another_deletes_first_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(str(tmp_path))
    for name in "abc":
        store.write(f"{STATES}/{name}", b"")
    delete = Store.delete

    def beaten(self: Store, name: str) -> None:
        (tmp_path / name).unlink()
        delete(self, name)

    monkeypatch.setattr(Store, "delete", beaten)
    store.keep(STATES, [f"{STATES}/b"])
    assert [one.name for one in (tmp_path / STATES).iterdir()] == ["b"]


def test_a_relative_folder_is_the_same_from_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = Store("sweep")
    store.write("states/one", b"1")
    monkeypatch.chdir("/")
    assert Store(store.path).read("states/one") == b"1"


def test_of_two_that_write_a_file_at_once_one_stands_there(tmp_path: Path) -> None:
    store, errors = Store(str(tmp_path)), list[BaseException]()

    def write(content: bytes) -> None:
        try:
            for _ in range(200):
                store.write("owner", content)
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(each,)) for each in (b"first", b"second")]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert errors == []
    assert store.read("owner") in (b"first", b"second")
    assert store.files() == ["owner"]
