from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dagopt.app.advise import Advice, advise, stage_row
from dagopt.app.what_if import Cluster
from dagopt.errors import InputError
from tests.unit.events.event_lines import (
    application_end,
    application_start,
    line,
    log_start,
    metrics,
    rdd,
    stage_completed,
    stage_submitted,
    task_end,
)

NUM_TASKS = 16
TASK_MS = 2_000


def log_of(
    *,
    cpu_ms: int = 0,
    code_ms: tuple[int, ...] = (),
    rows: int = 100,
    scopes: tuple[str, ...] = ("MapInPandas",),
    profile: int = 1,
    version: str = "4.3.0",
) -> list[bytes]:
    """16 tasks of 2 s, one after the other on one GPU and one of four cores.

    Args:
        cpu_ms: JVM CPU time of each.
        code_ms: of each Python operator, from the lowest, the time of its code in each task.
        rows: that each operator gives.
        scopes: of the stage's RDDs.
        profile: which the stage runs under; 1 takes a GPU a task.
        version: of Spark.
    """
    accumulables: list[dict[str, Any]] = []
    for number, took_ms in enumerate(code_ms):
        named = {
            "data sent to Python workers": 1_000_000 * NUM_TASKS,
            "data returned from Python workers": 1_000_000 * NUM_TASKS,
            "time to execute Python code": took_ms * NUM_TASKS,
            "number of output rows": rows * NUM_TASKS,
        }
        accumulables += [
            {"ID": 10 * number + at, "Name": name, "Value": str(value)}
            for at, (name, value) in enumerate(named.items())
        ]
    more: dict[str, Any] = {
        "Submission_Time": 2_000,
        "Completion_Time": 2_000 + NUM_TASKS * TASK_MS,
        "Resource_Profile_Id": profile,
        "Accumulables": accumulables,
        "RDD_Info": [rdd(number + 1, scope) for number, scope in enumerate(scopes)],
    }
    ends = [
        task_end(
            index,
            Launch_Time=2_000 + TASK_MS * index,
            Finish_Time=2_000 + TASK_MS * (index + 1),
            task_metrics=metrics(
                Executor_Run_Time=TASK_MS,
                Executor_Deserialize_Time=0,
                Executor_CPU_Time=cpu_ms * 1_000_000,
                JVM_GC_Time=0,
                Shuffle_Read_Metrics={},
                Shuffle_Write_Metrics={},
            ),
        )
        for index in range(NUM_TASKS)
    ]
    info = {
        "Host": "host-a",
        "Total Cores": 4,
        "Resources": {"gpu": {"name": "gpu", "addresses": ["0"]}},
    }
    return [
        log_start(version),
        application_start(),
        line(
            "ResourceProfileAdded",
            Resource_Profile_Id=1,
            Task_Resource_Requests={"cpus": {"Amount": 1.0}, "gpu": {"Amount": 1.0}},
        ),
        line("ExecutorAdded", Timestamp=1_100, Executor_ID="1", Executor_Info=info),
        stage_submitted(Submission_Time=2_000, num_tasks=NUM_TASKS),
        *ends,
        stage_completed(num_tasks=NUM_TASKS, **more),
        application_end(2_000 + NUM_TASKS * TASK_MS),
    ]


def advice_on(folder: Path, lines: list[bytes], cluster: Cluster | None = None) -> Advice:
    log = folder / "log"
    log.write_bytes(b"\n".join(lines) + b"\n")
    return advise(log, cluster)


def test_a_python_operator_below_the_gpu_operator_is_no_gpu_work(tmp_path: Path) -> None:
    advice = advice_on(tmp_path, log_of(code_ms=(1_500, 2_000)))
    (stage,) = advice.stages
    assert stage.gpu is not None
    assert stage.gpu.held_s == pytest.approx(NUM_TASKS * 2.0)
    assert stage.gpu.other_s == pytest.approx(NUM_TASKS * 1.5)
    assert stage.gpu.form == "sliced"
    # Four cores decode 16 x 1.5 s in 6 s at best, the GPU infers 16 x 0.5 s in 8.
    assert stage.predicted_s is not None
    assert 8.0 < stage.predicted_s < 16.0
    assert advice.gain is not None
    assert advice.gain.outcome.boundaries is not None
    assert advice.gain.outcome.boundaries.stage_s == pytest.approx((stage.predicted_s,))
    assert stage_row(stage)["gpu_form"] == "sliced"


def test_the_bound_holds_shuffles_that_cost_nothing(tmp_path: Path) -> None:
    (stage,) = advice_on(tmp_path, log_of(code_ms=(1_500, 2_000))).stages
    assert stage.gpu is not None
    assert stage.recorded_s is not None
    assert stage.saved_s is not None
    assert stage.bound_s is not None
    # 18 launches of 0.02 s and barriers of 0.1 s at least, which may be none.
    assert stage.gpu.ratio_error * stage.recorded_s > 0.2
    assert stage.bound_s >= 0.3 * stage.saved_s + stage.gpu.ratio_error * stage.recorded_s - 1e-6


def test_what_the_jvm_did_is_no_gpu_work(tmp_path: Path) -> None:
    (stage,) = advice_on(tmp_path, log_of(cpu_ms=1_500)).stages
    assert stage.gpu is not None
    assert stage.gpu.other_s == pytest.approx(NUM_TASKS * 1.5)
    assert stage.gpu.form == "sliced"


@pytest.mark.parametrize(
    "log",
    [
        log_of(),
        log_of(code_ms=(2_000,)),
        log_of(code_ms=(1_500, 2_000), rows=20_000),
        log_of(code_ms=(1_500, 2_000), scopes=("MapInPandas", "Union")),
    ],
    ids=["not told", "one operator", "several batches", "two branches"],
)
def test_python_time_that_is_not_told_apart_counts_as_the_gpus(
    tmp_path: Path, log: list[bytes]
) -> None:
    (stage,) = advice_on(tmp_path, log).stages
    assert stage.gpu is not None
    assert (stage.gpu.form, stage.gpu.time_ratio, stage.gpu.other_s) == ("fused", 1.0, 0.0)


def test_no_shuffle_is_put_where_no_python_operator_asked_for_the_gpu(tmp_path: Path) -> None:
    (stage,) = advice_on(tmp_path, log_of(cpu_ms=1_500, scopes=("GpuScan parquet",))).stages
    assert stage.gpu is not None
    assert stage.gpu.form == ""
    assert stage.gpu.other_s == pytest.approx(NUM_TASKS * 1.5)


def test_a_stage_without_gpus_has_no_advice_on_them(tmp_path: Path) -> None:
    (stage,) = advice_on(tmp_path, log_of(cpu_ms=1_500, profile=0)).stages
    assert stage.gpu is None
    assert stage_row(stage)["gpu_held_s"] is None


def test_more_gpus_take_less_time(tmp_path: Path) -> None:
    gain = advice_on(tmp_path, log_of(), Cluster(num_gpus=4)).gain
    assert gain is not None
    assert gain.outcome.recorded_s == pytest.approx((32.0,))
    assert gain.outcome.baseline.stage_s == pytest.approx((8.0,))


def test_a_cluster_without_gpus_cannot_run_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a task of stage 0 takes 1 cores and 1 GPUs, which no"):
        advice_on(tmp_path, log_of(), Cluster(num_gpus=0))
    with pytest.raises(InputError, match="gpus is -1"):
        Cluster(num_gpus=-1)
