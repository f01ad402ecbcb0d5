from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dagopt.app.learn import learn
from dagopt.errors import InputError
from dagopt.events.profile_file import read_profile
from dagopt.model.stage_profile import gpu_part_signature
from tests.unit.events import event_lines as lines

if TYPE_CHECKING:
    from pathlib import Path

SIGNATURE = "count at job.py:12 [Exchange > WholeStageCodegen]"


def write_log(path: Path, *, start_ms: int = 1_000, finish_ms: int = 5_000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    log = [
        lines.log_start(),
        lines.application_start(start_ms),
        lines.task_end(0, Finish_Time=finish_ms),
        lines.task_end(1, Finish_Time=finish_ms),
        lines.stage_completed(),
    ]
    path.write_bytes(b"".join(line + b"\n" for line in log))


def test_one_log(tmp_path: Path) -> None:
    write_log(tmp_path / "app-1")
    output = tmp_path / "profile.parquet"
    summary = learn(tmp_path / "app-1", output)
    assert summary.output == output
    assert (summary.num_logs, summary.num_logs_read, summary.failed) == (1, 1, ())
    assert (summary.num_stages, summary.num_unknown_stages, summary.num_profiles) == (1, 0, 1)
    found = read_profile(output).find(SIGNATURE)
    assert found is not None
    assert (found.num_runs, found.num_tasks, found.cpu_s_per_task) == (1, 2, 2.0)


def test_later_applications_weigh_more_whatever_their_files_are_called(tmp_path: Path) -> None:
    write_log(tmp_path / "logs" / "a", start_ms=900_000, finish_ms=7_000)  # 4 s of compute
    write_log(tmp_path / "logs" / "b", start_ms=100_000, finish_ms=4_000)  # 1 s
    learn(tmp_path / "logs", tmp_path / "p")
    found = read_profile(tmp_path / "p").find(SIGNATURE)
    assert found is not None
    assert found.num_runs == 2
    assert found.cpu_s_per_task == pytest.approx((2 * 4.0 + 1.0) / 3)


def test_a_bad_file_does_not_spoil_the_good_ones(tmp_path: Path) -> None:
    write_log(tmp_path / "logs" / "good")
    (tmp_path / "logs" / "bad").write_bytes(b"hello\n")
    (tmp_path / "logs" / "worse.zip").write_bytes(b"PK\x03\x04")
    (tmp_path / "logs" / "cut").write_bytes(lines.log_start() + b"\n" + lines.task_end()[:-3])
    summary = learn(tmp_path / "logs", tmp_path / "p")
    assert (summary.num_logs, summary.num_logs_read, summary.num_broken_lines) == (4, 2, 1)
    assert [failed.path.name for failed in summary.failed] == ["bad", "worse.zip"]
    assert "not a Spark event log" in summary.failed[0].reason
    assert summary.problems == (f"{tmp_path / 'logs' / 'cut'}:2: Input data was truncated",)


def test_stages_with_too_little_data_are_counted(tmp_path: Path) -> None:
    write_log(tmp_path / "log")
    with (tmp_path / "log").open("ab") as log:
        log.write(lines.stage_completed(1, 1_000) + b"\n")
    summary = learn(tmp_path / "log", tmp_path / "p")
    assert (summary.num_stages, summary.num_unknown_stages, summary.num_profiles) == (2, 1, 1)


def test_progress_is_told(tmp_path: Path) -> None:
    for name in "ab":
        write_log(tmp_path / "logs" / name)
    told: list[tuple[int, int, str]] = []
    learn(tmp_path / "logs", tmp_path / "p", progress=lambda *step: told.append(step))
    first, second = (str(tmp_path / "logs" / name) for name in "ab")
    assert told == [(0, 2, first), (1, 2, second), (2, 2, "")]


def test_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    write_log(tmp_path / "log")
    (tmp_path / "p").write_bytes(b"mine")
    with pytest.raises(InputError) as raised:
        learn(tmp_path / "log", tmp_path / "p")
    assert str(raised.value) == f"{tmp_path / 'p'} exists; --force overwrites"
    assert (tmp_path / "p").read_bytes() == b"mine"
    learn(tmp_path / "log", tmp_path / "p", force=True)
    assert read_profile(tmp_path / "p").find(SIGNATURE) is not None


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    write_log(tmp_path / "log")
    learn(tmp_path / "log", tmp_path / "p")
    before = (tmp_path / "p").read_bytes()
    (tmp_path / "log").write_bytes(b"hello")
    with pytest.raises(InputError):
        learn(tmp_path / "log", tmp_path / "p", force=True)
    assert (tmp_path / "p").read_bytes() == before


@pytest.mark.parametrize(
    ("output", "said"),
    [(".", ": is a folder, must be a file to write"), ("gone/p", "does not exist")],
)
def test_where_nothing_can_be_written(output: str, said: str, tmp_path: Path) -> None:
    write_log(tmp_path / "log")
    with pytest.raises(InputError) as raised:
        learn(tmp_path / "log", tmp_path / output, force=True)
    assert said in str(raised.value)


def test_sources_that_are_no_logs(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match="the folder holds no event log"):
        learn(empty, tmp_path / "p")
    with pytest.raises(InputError, match="no such file or folder"):
        learn(tmp_path / "gone", tmp_path / "p")
    for name in "xyz":
        (empty / name).write_bytes(b"hello")
    with pytest.raises(InputError) as raised:
        learn(empty, tmp_path / "p")
    said = f"{empty / 'x'}: not a Spark event log: no line of it is an event"
    assert str(raised.value) == f"{said} (and 2 more files like it)"
    assert not (tmp_path / "p").exists()


def test_logs_without_any_known_stage(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(lines.log_start() + b"\n" + lines.stage_completed() + b"\n")
    with pytest.raises(InputError, match="none of the 1 stages has enough task data"):
        learn(tmp_path / "log", tmp_path / "p")


def test_parts_of_gpu_stages_are_found_by_their_plan(tmp_path: Path) -> None:
    part = {**lines.rdd(8, "GpuStage"), "Name": gpu_part_signature("7", "cpu")}
    (tmp_path / "app-1").write_bytes(
        b"".join(
            line + b"\n"
            for line in (
                lines.log_start(),
                lines.application_start(),
                lines.task_end(0),
                lines.task_end(1),
                lines.stage_completed(RDD_Info=[lines.rdd(7, "Exchange"), part]),
            )
        )
    )
    output = tmp_path / "profile.parquet"
    summary = learn(tmp_path / "app-1", output)
    assert (summary.num_stages, summary.num_unknown_stages, summary.num_profiles) == (1, 0, 2)
    found = read_profile(output).by_signature
    assert found[gpu_part_signature("7", "cpu")].num_tasks == 2
    assert found["count at job.py:12 [Exchange > GpuStage]"].num_tasks == 2
