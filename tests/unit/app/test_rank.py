from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from dagopt.app.rank import rank
from dagopt.app.what_if import Cluster
from dagopt.errors import InputError
from dagopt.events.read import find_event_logs
from tests.unit.app.waiting_log import waiting_log
from tests.unit.events.event_lines import application_start, log_start, small_log


def joined(lines: list[bytes]) -> bytes:
    return b"\n".join(lines) + b"\n"


def test_what_surely_gains_most_is_first_and_the_unknown_last(tmp_path: Path) -> None:
    (tmp_path / "a-small").write_bytes(joined(small_log()))
    (tmp_path / "b-nothing").write_bytes(joined([log_start(), application_start()]))
    (tmp_path / "d-notes.txt").write_text("hello\n")
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as archive:
        archive.writestr("waiting", joined(waiting_log()))
    (tmp_path / "e.zip").write_bytes(b"PK\x03\x04 damaged")
    seen: list[tuple[int, int, str]] = []
    ranking = rank(find_event_logs(tmp_path), Cluster(), lambda *told: seen.append(told))
    names = [each.path.removeprefix(f"{tmp_path}/") for each in ranking.applications]
    assert names == ["c.zip/waiting", "a-small", "b-nothing"]
    first, second, last = ranking.applications
    assert first.saved_s is not None
    assert first.bound_s is not None
    assert first.sure_s == pytest.approx(first.saved_s - first.bound_s)
    assert first.sure_s > 1.0
    assert second.sure_s == 0.0
    assert last.saved_s is None
    assert [each.reason.removeprefix(f"{tmp_path}/") for each in ranking.failed] == [
        "d-notes.txt: not a Spark event log: no line of it is an event",
        "e.zip: a zip file that is damaged, inside of another one, or not called .zip",
    ]
    assert [done for done, _, _ in seen] == list(range(6))
    assert seen[-1] == (5, 5, "")


def test_a_folder_without_any_event_log_is_an_input_error(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("hello\n")
    with pytest.raises(
        InputError, match=r"a: not a Spark event log: .* \(and 1 more files like it\)"
    ):
        rank(find_event_logs(tmp_path), Cluster())
