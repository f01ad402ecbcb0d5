"""Pipelines and slots: what is refused, and how many tasks fit."""

from __future__ import annotations

import math

import pytest

from dagopt.errors import InputError
from dagopt.model.pipeline import GpuPipeline, PartitionCosts, Slots


@pytest.mark.parametrize(
    "name", ["cpu_s", "gpu_s", "input_bytes", "output_bytes", "rest_s", "cpu_only_s"]
)
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_a_cost_is_a_finite_number_from_zero_on(name: str, value: float) -> None:
    costs = {"cpu_s": 1.0, "gpu_s": 1.0, "input_bytes": 1.0, "output_bytes": 1.0, name: value}
    with pytest.raises(InputError) as caught:
        PartitionCosts(**costs)
    assert str(caught.value) == f"{name} is {value}, must be >= 0 and finite"


def test_a_pipeline_may_be_empty_but_not_less() -> None:
    assert GpuPipeline(num_partitions=0, costs=None).num_partitions == 0
    with pytest.raises(InputError) as caught:
        GpuPipeline(num_partitions=-1, costs=None)
    assert str(caught.value) == "num_partitions is -1, must be >= 0"


@pytest.mark.parametrize("name", ["cores", "gpus", "num_hosts"])
def test_there_is_one_of_everything_at_least(name: str) -> None:
    with pytest.raises(InputError) as caught:
        Slots(**{"cores": 2, "gpus": 1, name: 0})
    assert str(caught.value) == f"{name} is 0, must be >= 1"


@pytest.mark.parametrize("cpus", [-1.0, 4.5, math.nan])
def test_a_gpu_task_fits_in_the_cpu_slots(cpus: float) -> None:
    with pytest.raises(InputError) as caught:
        Slots(cores=4, gpus=1, cpus_per_gpu_task=cpus)
    assert str(caught.value) == f"cpus_per_gpu_task is {cpus}, must be 0 to 4 (cores)"


@pytest.mark.parametrize(
    ("cores", "gpus", "cpus", "at_once"),
    [(8, 2, 1, 2), (8, 2, 0, 2), (8, 4, 3, 2), (8, 4, 8, 1), (1, 64, 0.1, 10), (3, 8, 0.3, 8)],
)
def test_cpu_slots_may_bound_the_gpu_tasks(
    cores: int, gpus: int, cpus: float, at_once: int
) -> None:
    assert Slots(cores=cores, gpus=gpus, cpus_per_gpu_task=cpus).gpu_tasks == at_once


def test_running_tasks_of_both_kinds_take_cpu_slots() -> None:
    slots = Slots(cores=8, gpus=4, cpus_per_gpu_task=1.5)
    assert slots.free_cores(cpu_tasks=3, gpu_tasks=2) == 2.0
    assert slots.free_cores(cpu_tasks=8, gpu_tasks=4) == 0.0


def test_fractions_of_a_core_add_up() -> None:
    slots = Slots(cores=12, gpus=10, cpus_per_gpu_task=1.1)
    assert slots.free_cores(cpu_tasks=0, gpu_tasks=10) == 1.0
    assert Slots(cores=1, gpus=10, cpus_per_gpu_task=0.1).gpu_tasks_in(0.7, 10) == 7
