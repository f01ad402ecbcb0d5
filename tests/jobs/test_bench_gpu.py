"""The parts of ``make bench-gpu`` that need neither Spark nor Ray."""

from __future__ import annotations

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jobs.gpu_bench.cases import CASES, REAL, WARM_UP
from jobs.gpu_bench.measure import Measurement, form_of, gpu_allocated_s, predicted_s
from jobs.gpu_bench.modes import DAGOPT, FIRST, FUSED, HAND, RAY
from jobs.gpu_bench.report import Verdict, verdicts
from jobs.gpu_bench.work import Load, busy_s, decode_rows, held_core, score_rows


def load(directory: Path, *, decode_s: float = 0.0, gpu_s: float = 0.0, num_cores: int = 2) -> Load:
    return Load(
        decode_s=decode_s,
        gpu_s=gpu_s,
        payload_bytes=100,
        num_cores=num_cores,
        lock_dir=str(directory),
        record=str(directory / "kernels"),
    )


def measured(case: str, mode: str, elapsed_s: float, **fields: object) -> Measurement:
    values: dict[str, object] = {
        "form": "fused",
        "gpu_allocated_s": 10.0,
        "gpu_busy_s": 9.5,
        "predicted_s": None,
        **fields,
    }
    return Measurement(case=case, mode=mode, elapsed_s=elapsed_s, **values)  # type: ignore[arg-type]


def test_no_more_tasks_compute_at_once_than_there_are_cores(tmp_path: Path) -> None:
    running: list[int] = []
    most = []

    def compute(_: int) -> int:
        with held_core(tmp_path, 2) as core:
            running.append(core)
            most.append(len(running))
            assert len(set(running)) == len(running)
            time.sleep(0.02)
            running.remove(core)
        return core

    with ThreadPoolExecutor(6) as pool:
        used = set(pool.map(compute, range(12)))
    assert used == {0, 1}
    assert max(most) == 2


def test_decoding_takes_its_time_on_a_core_and_gives_the_same_payloads(tmp_path: Path) -> None:
    start_s = time.monotonic()
    payloads = decode_rows([3, 4, 5], load(tmp_path, decode_s=0.05))
    assert time.monotonic() - start_s >= 0.15
    assert [len(one) for one in payloads] == [100, 100, 100]
    assert len(set(payloads)) == 3
    assert decode_rows([3, 4, 5], load(tmp_path)) == payloads


def test_two_kernels_never_run_on_a_device_at_once(tmp_path: Path) -> None:
    wanted = load(tmp_path, gpu_s=0.01)
    with ThreadPoolExecutor(4) as pool:
        scores = set(pool.map(lambda _: tuple(score_rows([b"a", b"b"], "0", wanted)), range(4)))
    assert len(scores) == 1
    assert busy_s(tmp_path / "kernels") >= 4 * 2 * 0.01


def test_a_device_used_twice_at_a_time_is_an_error(tmp_path: Path) -> None:
    record = tmp_path / "kernels"
    record.write_text("0 1.0 2.0\n1 1.5 2.5\n0 2.0 2.25\n")
    assert busy_s(record) == 2.25
    record.write_text("0 1.0 2.0\n0 1.5 2.5\n")
    with pytest.raises(ValueError, match="two kernels on device 0"):
        busy_s(record)


def test_no_case_has_the_key_of_another_one_without_digits() -> None:
    keys = [re.sub(r"[0-9\s]", "", case.key) for case in (*CASES.values(), WARM_UP)]
    assert len(set(keys)) == len(CASES) + 1 == 17


def test_allocated_seconds_are_those_of_tasks_with_a_profile(tmp_path: Path) -> None:
    def submitted(stage: int, profile: int, group: str) -> dict[str, object]:
        info = {"Stage ID": stage, "Resource Profile Id": profile}
        properties = {"spark.jobGroup.id": group}
        name = "SparkListenerStageSubmitted"
        return {"Event": name, "Stage Info": info, "Properties": properties}

    def ended(stage: int, launch_ms: int, finish_ms: int) -> dict[str, object]:
        info = {"Launch Time": launch_ms, "Finish Time": finish_ms}
        return {"Event": "SparkListenerTaskEnd", "Stage ID": stage, "Task Info": info}

    events = [submitted(1, 0, "a"), submitted(2, 3, "a"), submitted(4, 3, "b")]
    events += [ended(1, 0, 9000), ended(2, 1000, 2500), ended(2, 0, 250), ended(4, 0, 125)]
    log = tmp_path / "log"
    log.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    assert gpu_allocated_s(log) == {"a": 1.75, "b": 0.125}


def test_a_first_run_is_predicted_with_the_seconds_of_its_first_slice() -> None:
    probe = {"form": "probe", "time_s": 10.0, "predicted_s": None}
    rest = {"form": "sliced", "slices": [4, 4, 4], "time_s": 11.5, "predicted_s": 4.0}
    split = {
        **rest,
        "form": "split",
        "slices": [12],
        "boundary_before": True,
        "boundary_after": False,
    }
    assert predicted_s([]) is None
    assert predicted_s([probe]) is None
    assert predicted_s([probe, rest]) == 5.5
    assert predicted_s([split]) == 4.0
    assert form_of([probe, rest]) == "probe, sliced in 3"
    assert form_of([split]) == "split before"


def verdict_of(found: list[Verdict], text: str) -> Verdict:
    (one,) = [verdict for verdict in found if text in verdict.text]
    return one


def test_requirements_are_judged_by_medians() -> None:
    rows = [measured("8:1 1 KB", FUSED, seconds) for seconds in (30.0, 33.0, 90.0)]
    rows += [measured("8:1 1 KB", HAND, 11.0), measured("8:1 1 KB", RAY, 9.0)]
    rows += [
        measured("8:1 1 KB", DAGOPT, 10.0, form="sliced in 4", predicted_s=seconds)
        for seconds in (1.0, 8.0, 9.0)
    ]
    found = verdicts(rows)
    assert verdict_of(found, "fused / dagopt").measured == 3.3
    assert verdict_of(found, "fused / dagopt").is_met
    assert not verdict_of(found, "hand / dagopt").is_met
    assert verdict_of(found, "busy / allocated").measured == 0.95
    assert verdict_of(found, "predicted").measured == pytest.approx(0.2)
    assert verdict_of(found, "ray / dagopt").measured == 0.0
    assert verdict_of(found, "fastest Spark mode").is_met
    assert verdicts(rows, FIRST) == verdicts([], FIRST)


def test_where_there_is_nothing_to_win_nothing_may_be_lost() -> None:
    rows = [measured("1:8 1 MB", FUSED, 10.0), measured("1:8 1 MB", HAND, 12.0)]
    rows += [measured("1:8 1 MB", DAGOPT, 10.6)]
    found = verdicts(rows)
    assert not verdict_of(found, "best of fused and hand").is_met
    assert not verdict_of(found, "fastest Spark mode").is_met
    assert not [verdict for verdict in found if "busy" in verdict.text]  # it is not split


def test_the_real_case_has_a_requirement_of_its_own() -> None:
    found = verdicts([measured(REAL, FUSED, 16.0), measured(REAL, DAGOPT, 10.0)])
    assert verdict_of(found, "fused / dagopt").required == 1.6
    assert verdict_of(found, "fused / dagopt").is_met
