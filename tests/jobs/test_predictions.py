"""What advise predicts from stock logs, against made-up measurements of dagopt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from jobs.overlap.event_log import split_log
from jobs.predictions import Prediction, gpu_predictions, main, overlap_predictions
from tests.unit.app.waiting_log import waiting_log
from tests.unit.events.event_lines import (
    application_start,
    line,
    log_start,
    metrics,
    rdd,
    stage_info,
    task_end,
)

GPU_TASKS = 12


def rows(**seconds: list[float]) -> list[dict[str, object]]:
    """Of the modes, whose names have ``_`` for ``-``."""
    return [
        {"case": "shuffle", "mode": mode.replace("_", "-"), "stage_s": one}
        for mode, all_s in seconds.items()
        for one in all_s
    ]


def overlap_folder(folder: Path, **seconds: list[float]) -> Path:
    (folder / "overlap.json").write_text(json.dumps(rows(**seconds)))
    logs = folder / "eventlogs"
    logs.mkdir()
    for run in (1, 2):
        (logs / f"shuffle-stock-1x-{run}").write_bytes(b"\n".join(waiting_log()))
    return folder


def test_the_savings_of_the_log_are_taken_from_what_stock_took(tmp_path: Path) -> None:
    out = overlap_folder(tmp_path, stock_4x=[9.0], stock_1x=[16.0, 17.0], dagopt=[10.0, 11.0])
    (found,) = overlap_predictions(out)
    assert (found.case, found.stock_mode) == ("shuffle", "stock-1x")
    assert (found.stock_s, found.measured_s) == (16.5, 10.5)
    # 16 s of the log become 9 to 12 s: eight fetches of a second an executor, and what follows.
    assert 9.5 <= found.predicted_s <= 12.5
    assert found.is_met


def test_a_run_without_its_log_and_a_case_without_dagopt_are_left_out(tmp_path: Path) -> None:
    out = overlap_folder(tmp_path, stock_1x=[16.0, 17.0, 900.0], dagopt=[10.0])
    assert overlap_predictions(out)[0].predicted_s < 12.5
    (out / "overlap.json").write_text(json.dumps(rows(stock_1x=[16.0])))
    assert overlap_predictions(out) == []


def gpu_log(group: str, stage_id: int = 0) -> list[bytes]:
    """Tasks that hold the only GPU one after another, 3 s of 4 for JVM work; told by the job group."""
    info = {**executor_info(cores=4), "Resources": {"gpu": {"name": "gpu", "addresses": ["0"]}}}
    requests = {"cpus": {"Amount": 1.0}, "gpu": {"Amount": 1.0}}
    stage = stage_info(
        stage_id,
        GPU_TASKS,
        Resource_Profile_Id=1,
        RDD_Info=[{"RDD ID": 1, "Name": "x", "Scope": '{"id":"1","name":"MapInPandas"}'}],
        Submission_Time=2_000,
    )
    used = metrics(Executor_Run_Time=4_000, Executor_CPU_Time=3_000_000_000, JVM_GC_Time=0)
    used["Shuffle Read Metrics"]["Fetch Wait Time"] = 0
    return [
        log_start(),
        application_start(),
        line("ExecutorAdded", Timestamp=1_100, Executor_ID="1", Executor_Info=info),
        line("ResourceProfileAdded", Resource_Profile_Id=1, Task_Resource_Requests=requests),
        line("StageSubmitted", Stage_Info=stage, Properties={"spark.jobGroup.id": group}),
        *(
            task_end(
                index,
                stage_id,
                Launch_Time=2_000 + 4_000 * index,
                Finish_Time=6_000 + 4_000 * index,
                task_metrics=used,
            )
            for index in range(GPU_TASKS)
        ),
        line("StageCompleted", Stage_Info={**stage, "Completion Time": 2_000 + 4_000 * GPU_TASKS}),
    ]


def executor_info(*, cores: int) -> dict[str, object]:
    return {"Host": "host-a", "Total Cores": cores, "Log Urls": {}}


def test_runs_of_gpu_cases_are_told_apart_by_their_group(tmp_path: Path) -> None:
    found = [{"case": "8:1 1 KB", "mode": mode, "elapsed_s": 48.0} for mode in ("fused", "dagopt")]
    (tmp_path / "gpu.json").write_text(json.dumps(found))
    folder = tmp_path / "gpu-sweep"
    folder.mkdir()
    lines = [*gpu_log("case_a-fused-1"), *gpu_log("case_b-fused-1", 1)[4:]]
    (folder / "fused.events").write_bytes(b"\n".join(lines))
    (prediction,) = gpu_predictions(tmp_path)
    # A second of GPU a task, behind the CPU part of the first ones.
    assert GPU_TASKS * 1.0 + 3.0 <= prediction.predicted_s < 24.0
    assert not prediction.is_met


def test_the_log_of_a_run_keeps_the_maps_that_it_reads(tmp_path: Path) -> None:
    def submitted(stage_id: int, rdds: list[int], group: str) -> bytes:
        info = stage_info(stage_id, RDD_Info=[rdd(number) for number in rdds])
        return line("StageSubmitted", Stage_Info=info, Properties={"spark.jobGroup.id": group})

    reads = metrics(Shuffle_Write_Metrics={"Shuffle Bytes Written": 0, "Shuffle Write Time": 0})
    infos = [stage_info(at, RDD_Info=[rdd(at)]) for at in (5, 6)]
    log = tmp_path / "log"
    lines = [
        submitted(0, [5], ""),
        task_end(0, 0),
        submitted(1, [6], ""),
        task_end(0, 1, task_metrics=reads),
        submitted(2, [9], ""),
        task_end(0, 2),
        line(
            "JobStart", Job_ID=1, Stage_Infos=infos, Properties={"spark.jobGroup.id": "shuffle-1"}
        ),
        submitted(7, [6], "shuffle-1"),
    ]
    log.write_bytes(b"\n".join(lines))
    split_log(log, {"shuffle-1": tmp_path / "1"})
    kept = [json.loads(text) for text in (tmp_path / "1").read_bytes().splitlines()]
    assert [event.get("Stage ID", event.get("Stage Info", {}).get("Stage ID")) for event in kept] == [
        0, 0, None, 7,
    ]  # fmt: skip


@pytest.mark.parametrize(("measured_s", "is_met"), [(8.4, True), (12.4, True), (8.3, False)])
def test_a_fifth_off_is_near_enough(measured_s: float, *, is_met: bool) -> None:
    each = Prediction(
        case="a", stock_mode="stock-1x", stock_s=20.0, predicted_s=10.0, measured_s=measured_s
    )
    assert each.is_met == is_met


def test_the_exit_code_says_whether_all_are_met(tmp_path: Path) -> None:
    assert CliRunner().invoke(main, [str(tmp_path)]).exit_code == 1
    out = overlap_folder(tmp_path, stock_1x=[16.0, 16.0], dagopt=[10.0])
    good = CliRunner().invoke(main, [str(out)])
    assert (good.exit_code, "not met" in good.output) == (0, False)
    (out / "overlap.json").write_text(json.dumps(rows(stock_1x=[16.0, 16.0], dagopt=[3.0])))
    bad = CliRunner().invoke(main, [str(out)])
    assert (bad.exit_code, "not met" in bad.output) == (1, True)
