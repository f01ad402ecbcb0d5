"""Laws of slices that shift, over what simulated slots did: whatever is estimated, nothing breaks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagopt.cost.inserted_shuffle import ShuffleRates, shuffle_cost
from dagopt.model.pipeline import PartitionCosts
from dagopt.policy.boundary.slice_state import ShiftingState, new_slices
from tests.property.pipelines import quarters_s, slots_
from tests.property.slice_driver import Run, SliceDriver


@st.composite
def drivers(draw: st.DrawFn, *, exact: bool = False) -> SliceDriver:
    """Slices under way with nothing started; unless ``exact``, estimates and slots deceive."""
    slots = draw(slots_(most=16))
    num_slices = draw(st.integers(1, 10))
    count = draw(st.integers(num_slices, 60))
    costs = PartitionCosts(
        cpu_s=draw(quarters_s),
        gpu_s=draw(quarters_s),
        input_bytes=0,
        output_bytes=0,
        cpu_only_s=draw(st.none() | quarters_s),
    )
    measures = costs.cpu_only_s is None and not exact and draw(st.booleans())
    stage_s = draw(st.sampled_from((0.0, 0.25, 1.0)))
    state = ShiftingState(
        slices=new_slices(count, num_slices, costs),
        slots=slots,
        before=shuffle_cost("before", count, 0, slots, ShuffleRates(launch_s=0, stage_s=stage_s)),
        free_cpu_slots=slots.cores,
        free_gpus=slots.gpus,
        measures=measures,
        max_slices_ahead=draw(st.integers(1, 3)),
    )
    if exact:
        return SliceDriver(state, [1.0] * num_slices)
    slowness = st.sampled_from((0.0, 0.25, 1.0, 4.0))
    times = st.integers(0, 30)
    elsewhere = st.tuples(times, st.integers(1, 30), st.integers(1, slots.cores))
    return SliceDriver(
        state,
        draw(st.lists(slowness, min_size=num_slices, max_size=num_slices)),
        taken=[(at, at + long, num) for at, long, num in draw(st.lists(elsewhere, max_size=3))],
        submit_s=draw(st.sampled_from((0.0, 0.5, 2.0))),
        unmeasured_s=draw(quarters_s) if measures else 0.0,
    )


def of_slice(runs: list[Run], index: int, part: str) -> list[Run]:
    return [run for run in runs if (run.index, run.part) == (index, part)]


@given(drivers())
def test_every_partition_is_computed_exactly_once(driver: SliceDriver) -> None:
    has_cpu_form = driver.state.measures or driver.state.slices[0].costs.cpu_only_s is not None
    runs = driver.run()
    for found in driver.state.slices:
        parts = [len(of_slice(runs, found.index, part)) for part in ("cpu", "gpu", "cpu_only")]
        both, shifted = [found.num_partitions] * 2 + [0], [0, 0, found.num_partitions]
        assert parts in (both, shifted)
        if not has_cpu_form:
            assert parts == both


@given(drivers())
def test_a_gpu_part_begins_when_its_whole_cpu_part_has_ended(driver: SliceDriver) -> None:
    runs = driver.run()
    for found in driver.state.slices:
        gpu = of_slice(runs, found.index, "gpu")
        if gpu:
            ended_s = max(run.end_s for run in of_slice(runs, found.index, "cpu"))
            assert min(run.start_s for run in gpu) >= ended_s + driver.state.before.stage_s


@given(drivers())
def test_no_slot_is_used_twice_and_gpus_by_gpu_parts_only(driver: SliceDriver) -> None:
    runs, slots = driver.run(), driver.state.slots
    for moment in {run.start_s for run in runs}:
        now = [run.part for run in runs if run.start_s <= moment < run.end_s]
        on_gpu = now.count("gpu")
        assert on_gpu <= slots.gpus
        assert len(now) - on_gpu + on_gpu * slots.cpus_per_gpu_task <= slots.cores
    # A task holds a GPU from its start to its end, and is one part: busy and allocated are the same.
    for run in runs:
        estimate = driver.state.slices[run.index].costs
        if run.part == "gpu":
            held_s = run.end_s - run.start_s
            assert held_s == pytest.approx(estimate.gpu_s * driver.slowness[run.index])


@given(drivers())
def test_what_is_prepared_is_what_the_gpus_get_and_each_step_has_a_reason(
    driver: SliceDriver,
) -> None:
    runs = driver.run()
    kinds = [(action.kind, action.index) for _, action in driver.actions]
    begun = [index for kind, index in kinds if kind == "start_cpu"]
    assert len(begun) == len(set(begun))
    assert sorted(begun) == sorted(index for kind, index in kinds if kind == "start_gpu")
    assert all(action.reason for _, action in driver.actions)
    assert len(runs) >= len(driver.state.slices)


@given(drivers(exact=True))
def test_shifting_costs_at_most_one_task_where_it_does_not_pay(driver: SliceDriver) -> None:
    state = driver.state
    alone = replace(state.slices[0].costs, cpu_only_s=None)
    plain = SliceDriver(
        replace(state, slices=tuple(replace(found, costs=alone) for found in state.slices)),
        driver.slowness,
    )
    end_s = max(run.end_s for run in driver.run())
    plain_s = max(run.end_s for run in plain.run())
    costs = state.slices[0].costs
    assert end_s <= plain_s + costs.cpu_s + (costs.cpu_only_s or 0.0)
