"""Seconds of each form of a pipeline, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dagopt.cost.inserted_shuffle import ShuffleCost, ShuffleRates, shuffle_cost
from dagopt.cost.pipeline_makespan import fused_time, shifting_time, sliced_time, split_time
from dagopt.cost.slice_schedule import last_gpu_end_s, slice_sizes
from dagopt.errors import InputError
from dagopt.model.pipeline import PartitionCosts, Slots

COSTS = PartitionCosts(cpu_s=3.0, gpu_s=1.0, input_bytes=0.0, output_bytes=0.0)
SLOTS = Slots(cores=8, gpus=2)


def barrier(stage_s: float) -> ShuffleCost:
    """A shuffle that costs so many seconds once, whatever it carries."""
    return shuffle_cost("before", 16, 0.0, SLOTS, ShuffleRates(launch_s=0.0, stage_s=stage_s))


def per_task(write_s: float, read_s: float, launch_s: float) -> ShuffleCost:
    """A shuffle that lengthens tasks and is ready at once."""
    return replace(barrier(0.0), write_s=write_s, read_s=read_s, launch_s=launch_s)


def test_the_worked_example() -> None:
    """16 partitions of CPU 3 s + GPU 1 s, 8 CPU slots, 2 GPUs; 18 s of shuffle eat up the gain."""
    assert fused_time(16, COSTS, SLOTS).elapsed_s == 8 * 4
    assert split_time(16, COSTS, SLOTS, before=barrier(1.0)).elapsed_s == 2 * 3 + 1 + 8 * 1 == 15
    assert split_time(16, COSTS, SLOTS, before=barrier(18.0)).elapsed_s == 32


def test_gpus_are_held_by_cpu_work_in_the_fused_form_only() -> None:
    fused = fused_time(16, COSTS, SLOTS)
    assert fused.gpu_busy_s / fused.gpu_allocated_s == 1 / (3 + 1)
    split = split_time(16, COSTS, SLOTS, before=barrier(1.0))
    sliced = sliced_time(16, COSTS, SLOTS, barrier(1.0), barrier(1.0), num_slices=4)
    for found in (split, sliced):
        assert found.gpu_busy_s == found.gpu_allocated_s == 16


def test_a_gpu_is_held_while_its_task_reads_and_writes_inserted_shuffles() -> None:
    before, after = per_task(0.5, 0.25, 0.0625), per_task(0.125, 0.75, 0.5)
    found = split_time(16, COSTS, SLOTS, before=before, after=after)
    gpu_task_s = 0.25 + 0.0625 + 1 + 0.125
    assert found.gpu_allocated_s == 16 * gpu_task_s
    assert found.elapsed_s == 2 * 3.5 + 8 * gpu_task_s + 2 * 1.25


def test_cpu_operators_behind_the_gpu_run_in_its_tasks_or_behind_a_second_shuffle() -> None:
    costs = replace(COSTS, rest_s=2.0)
    one, two = barrier(1.0), barrier(4.0)
    assert fused_time(16, costs, SLOTS).elapsed_s == 8 * 6
    assert split_time(16, costs, SLOTS, before=one).elapsed_s == 2 * 3 + 1 + 8 * 3
    assert split_time(16, costs, SLOTS, after=two).elapsed_s == 8 * 4 + 4 + 2 * 2
    both = split_time(16, costs, SLOTS, before=one, after=two)
    assert both.elapsed_s == 2 * 3 + 1 + 8 * 1 + 4 + 2 * 2
    assert both.gpu_busy_s == both.gpu_allocated_s


def test_lent_cpu_slots_work_beside_the_gpus() -> None:
    before, after = barrier(1.0), barrier(2.0)
    # Three slots feed two GPUs of 1 s with 1 s of CPU work, three of the six beside them are lent.
    costs = replace(COSTS, cpu_s=1.0, cpu_only_s=5.0)
    found = shifting_time(16, costs, SLOTS, before, after, num_slices=8)
    assert found is not None
    # Three in a wave of 6 s, thirteen on the GPUs by 2 + 7 s, and then the stage behind.
    assert found.elapsed_s == 2.0 + 7.0 + 2.0
    assert (found.gpu_allocated_s, found.num_slices, found.max_cpu_tasks) == (13.0, 8, 6)
    unknown = shifting_time(16, replace(costs, cpu_only_s=None), SLOTS, before, after, num_slices=8)
    assert unknown is not None
    assert unknown.elapsed_s == 2.0 + 8.0 + 2.0
    # All slots are needed to feed the GPUs.
    assert shifting_time(16, COSTS, SLOTS, before, after, num_slices=8) is None


def test_gpu_tasks_wait_for_the_cpu_slots_that_they_need() -> None:
    slots = Slots(cores=8, gpus=4, cpus_per_gpu_task=4)
    assert fused_time(16, COSTS, slots).elapsed_s == 8 * 4


def test_slices_overlap_where_gpu_tasks_need_no_cpu_slot() -> None:
    free = Slots(cores=8, gpus=2, cpus_per_gpu_task=0)
    # CPU parts of 8 end at 3 and 6, GPU parts of 8 take 4 each.
    assert sliced_time(16, COSTS, free, barrier(0), barrier(0), num_slices=2).elapsed_s == 3 + 8
    # A third slice's CPU part would end at 9, before the GPUs have done with the first two.
    assert sliced_time(24, COSTS, free, barrier(0), barrier(0), num_slices=3).elapsed_s == 3 + 12


def test_running_gpu_tasks_leave_fewer_slots_to_cpu_tasks() -> None:
    # Of the second slice's 8 CPU tasks, 6 run from 3 to 6 beside 2 GPU tasks, and 2 from 6 to 9.
    assert sliced_time(16, COSTS, SLOTS, barrier(0), barrier(0), num_slices=2).elapsed_s == 9 + 4


def test_a_slice_is_handed_over_after_its_last_cpu_task() -> None:
    sizes = slice_sizes(16, 2)
    free = Slots(cores=8, gpus=2, cpus_per_gpu_task=0)
    end_s = last_gpu_end_s(sizes, cpu_task_s=3, gpu_task_s=1, handover_s=2.0, slots=free)
    assert end_s == 3 + 2 + 4 + 4
    late_s = last_gpu_end_s(sizes, cpu_task_s=3, gpu_task_s=0.25, handover_s=2.0, slots=free)
    assert late_s == 6 + 2 + 1


def test_a_gpu_task_that_needs_more_slots_than_are_free_lets_cpu_tasks_pass() -> None:
    slots = Slots(cores=2, gpus=1, cpus_per_gpu_task=2)
    # The first slice is ready at 2, but the third CPU task has taken a slot at 1 and the fourth at 2.
    end_s = last_gpu_end_s((1, 3), cpu_task_s=1, gpu_task_s=1, handover_s=0.5, slots=slots)
    assert end_s == 2 + 4


def test_tasks_without_duration_end_at_once() -> None:
    slots = Slots(cores=2, gpus=1)
    end_s = last_gpu_end_s((2, 2), cpu_task_s=0, gpu_task_s=0, handover_s=0, slots=slots)
    assert end_s == 0


def test_slices_are_even_and_the_larger_ones_come_first() -> None:
    assert slice_sizes(11, 4) == (3, 3, 3, 2)
    assert slice_sizes(4, 4) == (1, 1, 1, 1)
    for num_slices in (0, 5):
        with pytest.raises(InputError) as caught:
            slice_sizes(4, num_slices)
        assert str(caught.value) == f"num_slices is {num_slices}, must be 1 to 4 (partitions)"


def test_a_split_form_is_split_somewhere() -> None:
    with pytest.raises(InputError) as caught:
        split_time(16, COSTS, SLOTS)
    assert str(caught.value) == (
        "a split form has a shuffle before the GPU part, after it, or both"
    )


def test_forms_have_names() -> None:
    before, after = barrier(1.0), barrier(2.0)
    costs = replace(COSTS, cpu_only_s=1.0)
    found = [
        fused_time(16, costs, SLOTS),
        split_time(16, costs, SLOTS, before=before),
        split_time(16, costs, SLOTS, after=after),
        split_time(16, costs, SLOTS, before=before, after=after),
        sliced_time(16, costs, SLOTS, before, after, num_slices=4),
        shifting_time(16, replace(costs, cpu_s=1.0), SLOTS, before, after, num_slices=4),
    ]
    assert [str(form) for form in found] == [
        "fused 32.0 s",
        "split before 15.0 s",
        "split after 34.0 s",
        "split before and after 17.0 s",
        "sliced in 4 16.0 s",
        "shifting 4 slices 8.00 s",
    ]


def test_a_slot_left_free_saves_the_gpu_a_wave_of_cpu_tasks() -> None:
    slots = Slots(cores=8, gpus=1)

    def end_s(max_cpu_tasks: int) -> float:
        return last_gpu_end_s(
            (8, 7, 7),
            cpu_task_s=2.5,
            gpu_task_s=0.5,
            handover_s=0.25,
            slots=slots,
            max_cpu_tasks=max_cpu_tasks,
        )

    # The next slices take all 8 slots before the first has been handed over, or leave one.
    assert end_s(0) == 5.0 + 22 * 0.5
    assert end_s(7) == 2.5 + 0.25 + 22 * 0.5


@pytest.mark.parametrize("num_slices", [2, 7, 16])
def test_many_partitions_are_simulated_by_fewer_and_come_out_alike(num_slices: int) -> None:
    count, after = 20_011, barrier(0)
    found = sliced_time(count, COSTS, SLOTS, barrier(0), after, num_slices=num_slices)
    exact_s = last_gpu_end_s(
        slice_sizes(count, num_slices), cpu_task_s=3, gpu_task_s=1, handover_s=0, slots=SLOTS
    )
    assert found.elapsed_s == pytest.approx(exact_s, rel=0.02)


@pytest.mark.parametrize("cpu_only_s", [0.0, 0.3, 1.7, 20.0])
@pytest.mark.parametrize("count", [8, 37, 300])
def test_as_many_partitions_go_to_cpu_slots_as_end_with_those_on_the_gpus(
    count: int, cpu_only_s: float
) -> None:
    costs, slots = replace(COSTS, cpu_s=0.2, cpu_only_s=cpu_only_s), Slots(cores=8, gpus=1)
    found = shifting_time(count, costs, slots, barrier(0.1), barrier(0), num_slices=4)
    assert found is not None
    lent, both_s = slots.lendable(0.2, costs.gpu_s), 0.2 + cpu_only_s
    expected_s = min(
        max(
            waves * both_s,
            0.2 + 0.1 + (count - waves * lent) * costs.gpu_s if count > waves * lent else 0.0,
        )
        for waves in range(count)
    )
    assert found.elapsed_s == pytest.approx(expected_s)
