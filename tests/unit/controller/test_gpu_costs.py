"""Costs of GPU stages from the profile of earlier applications."""

from __future__ import annotations

from typing import Literal

import pytest

from dagopt.controller.gpu_costs import GpuCosts
from dagopt.model.stage_profile import (
    StageProfile,
    StageProfiles,
    gpu_part_signature,
    is_gpu_part,
)
from dagopt.model.wire_gpu import TaskSums


def part(name: Literal["cpu", "gpu", "rest"], cpu_s: float, read_bytes: float = 0) -> StageProfile:
    return StageProfile(
        signature=gpu_part_signature("7", name),
        num_runs=1,
        num_tasks=4,
        read_bytes_per_task=read_bytes,
        cpu_s_per_task=cpu_s,
        io_wait_s_per_task=0,
        io_bytes_per_s=None,
        spilled_bytes_per_task=0,
        peak_memory_bytes=0,
        python=True,
        coverage=1,
    )


def test_a_stage_of_earlier_runs_is_known() -> None:
    parts = [part("cpu", 0.8, 50), part("gpu", 0.2, 1000), part("rest", 0.1, 100)]
    costs = GpuCosts(StageProfiles(parts)).find("7")
    assert costs is not None
    assert (costs.cpu_s, costs.gpu_s, costs.rest_s) == (0.8, 0.2, 0.1)
    assert (costs.input_bytes, costs.output_bytes) == (1000, 100)


@pytest.mark.parametrize("known", ["cpu", "gpu"])
def test_half_a_stage_is_none(known: Literal["cpu", "gpu"]) -> None:
    assert GpuCosts(StageProfiles([part(known, 0.8), part("rest", 0.1)])).find("7") is None


def test_another_plan_is_another_stage() -> None:
    costs = GpuCosts(StageProfiles([part("cpu", 0.8), part("gpu", 0.2)]))
    assert costs.find("7") is not None
    assert costs.find("8") is None
    assert GpuCosts().find("7") is None


def test_names_are_told_from_other_names() -> None:
    assert is_gpu_part(gpu_part_signature("123", "rest"))
    assert not is_gpu_part("MapInPandas")
    assert not is_gpu_part("GPU stage 1, cpu part of another")


def test_a_profile_that_fused_tasks_contradict_does_not_come_back() -> None:
    costs = GpuCosts(StageProfiles([part("cpu", 0.8), part("gpu", 0.2)]))
    assert costs.why_forgotten("7") is None
    tasks = TaskSums(
        num_tasks=4,
        held_ms=400,
        run_ms=400,
        start_ms=0,
        read_ms=0,
        write_ms=0,
        bytes_read=0,
        local_bytes_read=0,
        bytes_written=0,
    )
    costs.saw_fused("7", tasks, told_s=1.0, all_told=True)
    assert costs.find("7") is None
    assert costs.why_forgotten("7") == "its fused tasks took 0.10 s where 1.00 s were predicted"
