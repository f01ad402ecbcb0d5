"""Laws of inserted shuffles, of the forms of a GPU pipeline, and of the choice between them.

Not a law, on purpose: "a longer task never makes a sliced pipeline end sooner". List scheduling has
anomalies: a slower CPU task may leave its slot to a GPU task that would have missed it.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagopt.cost.inserted_shuffle import ShuffleCost, ShuffleRates, Side, shuffle_cost
from dagopt.cost.pipeline_makespan import (
    FormTime,
    fused_time,
    sliced_time,
    split_time,
)
from dagopt.cost.slice_schedule import last_gpu_end_s, slice_sizes
from dagopt.model.pipeline import GpuPipeline, PartitionCosts, Slots
from dagopt.policy.boundary.choose_form import BoundarySettings, choose_form
from tests.property.pipelines import partition_costs, quarters_s, shuffle_rates, slots_
from tests.property.slice_oracle import simulated_tasks
from tests.property.strategies import sizes, times_s

_MORE = 1 + 1e-9

counts = st.integers(1, 2000)
sides = st.sampled_from(("before", "after"))


@given(sides, counts, sizes, slots_(), shuffle_rates)
def test_the_parts_of_a_shuffle_are_what_its_tasks_take_longer(
    side: Side, count: int, size: float, slots: Slots, rates: ShuffleRates
) -> None:
    cost = shuffle_cost(side, count, size, slots, rates)
    cpu_waves, gpu_waves = math.ceil(count / slots.cores), math.ceil(count / slots.gpu_tasks)
    write_waves, read_waves = (cpu_waves, gpu_waves) if side == "before" else (gpu_waves, cpu_waves)
    assert cost.total_s == pytest.approx(
        write_waves * cost.write_s + read_waves * cost.reading_task_s + cost.stage_s
    )


@given(sides, counts, sizes, slots_(), shuffle_rates, st.floats(1, 1000), st.data())
def test_each_effect_moves_the_cost_in_its_direction(
    side: Side,
    count: int,
    size: float,
    slots: Slots,
    rates: ShuffleRates,
    factor: float,
    data: st.DataObject,
) -> None:
    cost_s = shuffle_cost(side, count, size, slots, rates).total_s

    def total_s(count: int = count, size: float = size, rates: ShuffleRates = rates) -> float:
        return shuffle_cost(side, count, size, slots, rates).total_s

    assert total_s(size=size * factor) * _MORE >= cost_s
    assert total_s(count=math.ceil(count * factor)) * _MORE >= cost_s
    for name in ("serialise_bytes_per_s", "disk_bytes_per_s", "network_bytes_per_s"):
        faster = replace(rates, **{name: getattr(rates, name) * factor})
        assert total_s(rates=faster) <= cost_s * _MORE
    for name in ("launch_s", "stage_s"):
        slower = replace(rates, **{name: getattr(rates, name) * factor})
        assert total_s(rates=slower) * _MORE >= cost_s
    low, high = sorted((data.draw(st.floats(0, 1)), data.draw(st.floats(0, 1))))
    remote_s = total_s(rates=replace(rates, local_fraction=low))
    assert total_s(rates=replace(rates, local_fraction=high)) <= remote_s * _MORE


@given(sides, counts, st.integers(1, 2**30), slots_(), shuffle_rates)
def test_the_same_bytes_in_more_partitions_are_launched_more_often(
    side: Side, count: int, all_bytes: int, slots: Slots, rates: ShuffleRates
) -> None:
    few = shuffle_cost(side, count, all_bytes / count, slots, rates)
    many = shuffle_cost(side, 2 * count, all_bytes / count / 2, slots, rates)
    assert many.launches_s >= few.launches_s


@given(shuffle_rates, st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_measuring_moves_a_prediction_towards_what_was_measured(
    rates: ShuffleRates, predicted_s: float, measured_s: float
) -> None:
    slots = Slots(cores=4, gpus=1)
    before_s = shuffle_cost("before", 8, 1e6, slots, rates).read_s
    seen = rates.observed("read", predicted_s, measured_s)
    after_s = shuffle_cost("before", 8, 1e6, slots, seen).read_s
    if measured_s > predicted_s and "read" in rates.learned:
        assert after_s >= before_s
    if measured_s < predicted_s and "read" in rates.learned:
        assert after_s <= before_s
    again = seen.observed("read", predicted_s, predicted_s)
    assert again.learned["read"] == pytest.approx(seen.learned["read"])


def shuffles(
    count: int, costs: PartitionCosts, slots: Slots, rates: ShuffleRates
) -> tuple[ShuffleCost, ShuffleCost]:
    before = shuffle_cost("before", count, costs.input_bytes, slots, rates)
    return before, shuffle_cost("after", count, costs.output_bytes, slots, rates)


def closed_forms(
    count: int, costs: PartitionCosts, slots: Slots, before: ShuffleCost, after: ShuffleCost
) -> list[FormTime]:
    return [
        fused_time(count, costs, slots),
        split_time(count, costs, slots, before=before),
        split_time(count, costs, slots, after=after),
        split_time(count, costs, slots, before=before, after=after),
    ]


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=5),
    slots_(most=6),
    quarters_s.filter(bool),
    quarters_s.filter(bool),
    quarters_s,
    st.integers(0, 6),
)
def test_the_end_of_slices_is_that_of_single_tasks(
    slices: list[int], slots: Slots, cpu_s: float, gpu_s: float, handover_s: float, limit: int
) -> None:
    expected = simulated_tasks(slices, cpu_s, gpu_s, handover_s, slots, limit)
    end_s = last_gpu_end_s(
        slices,
        cpu_task_s=cpu_s,
        gpu_task_s=gpu_s,
        handover_s=handover_s,
        slots=slots,
        max_cpu_tasks=limit,
    )
    assert end_s == max(task.end for task in expected if task.end is not None)
    assert all(task.end is not None for task in expected)


@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=5),
    slots_(most=6),
    quarters_s,
    quarters_s,
    quarters_s,
    st.sampled_from((0.1, 1 / 3, 1e-6, 1e6)),
)
def test_the_unit_of_time_does_not_matter(
    slices: list[int], slots: Slots, cpu_s: float, gpu_s: float, handover_s: float, unit: float
) -> None:
    # In tenths and thirds, ends of one moment differ by rounding.
    one, other = (
        last_gpu_end_s(
            slices,
            cpu_task_s=cpu_s * scale,
            gpu_task_s=gpu_s * scale,
            handover_s=handover_s * scale,
            slots=slots,
        )
        for scale in (1.0, unit)
    )
    assert other == pytest.approx(one * unit)


@given(counts, st.integers(1, 64), slots_(), times_s, times_s, st.floats(0, 100))
def test_slices_end_no_sooner_than_either_resource_allows(
    count: int, num_slices: int, slots: Slots, cpu_s: float, gpu_s: float, handover_s: float
) -> None:
    slices = slice_sizes(count, min(num_slices, count))
    end_s = last_gpu_end_s(
        slices, cpu_task_s=cpu_s, gpu_task_s=gpu_s, handover_s=handover_s, slots=slots
    )
    assert math.isfinite(end_s)
    slot_s = count * (cpu_s + gpu_s * slots.cpus_per_gpu_task)
    waves = math.ceil(slices[-1] / slots.gpu_tasks)
    least_s = max(
        cpu_s + handover_s + count / slots.gpu_tasks * gpu_s,
        math.ceil(count / slots.cores) * cpu_s + handover_s + waves * gpu_s,
        slot_s / slots.cores,
    )
    assert end_s * _MORE >= least_s


@given(counts, st.integers(1, 64), slots_(), times_s, times_s)
def test_slices_that_compete_for_no_slot_are_no_slower_than_one_after_the_other(
    count: int, num_slices: int, slots: Slots, cpu_s: float, gpu_s: float
) -> None:
    free = replace(slots, cpus_per_gpu_task=0)

    def end_s(slices: tuple[int, ...]) -> float:
        return last_gpu_end_s(slices, cpu_task_s=cpu_s, gpu_task_s=gpu_s, handover_s=0, slots=free)

    slices = slice_sizes(count, min(num_slices, count))
    assert end_s(slices) <= end_s((count,)) * _MORE


@given(counts, st.integers(2, 64), slots_(), quarters_s, quarters_s, st.integers(0, 5))
def test_a_limit_on_cpu_tasks_that_they_do_not_reach_changes_nothing(
    count: int, num_slices: int, slots: Slots, cpu_s: float, gpu_s: float, more: int
) -> None:
    limits = (0, min(slots.cores, count) + more)
    ends_s = [
        last_gpu_end_s(
            slice_sizes(count, min(num_slices, count)),
            cpu_task_s=cpu_s,
            gpu_task_s=gpu_s,
            handover_s=0.0,
            slots=slots,
            max_cpu_tasks=limit,
        )
        for limit in limits
    ]
    assert ends_s[0] == ends_s[1]


@given(counts, partition_costs, slots_(), shuffle_rates)
def test_one_slice_is_the_split_form_with_both_shuffles(
    count: int, costs: PartitionCosts, slots: Slots, rates: ShuffleRates
) -> None:
    before, after = shuffles(count, costs, slots, rates)
    split = split_time(count, costs, slots, before=before, after=after)
    sliced = sliced_time(count, costs, slots, before, after, num_slices=1)
    assert sliced.elapsed_s == pytest.approx(split.elapsed_s)
    assert sliced.gpu_allocated_s == split.gpu_allocated_s


@given(
    counts,
    partition_costs,
    slots_(),
    shuffle_rates,
    st.sampled_from(("cpu_s", "gpu_s", "rest_s", "cpu_only_s")),
    times_s,
)
def test_more_work_and_fewer_slots_never_end_a_closed_form_sooner(
    count: int,
    costs: PartitionCosts,
    slots: Slots,
    rates: ShuffleRates,
    name: str,
    more_s: float,
) -> None:
    before, after = shuffles(count, costs, slots, rates)
    found = closed_forms(count, costs, slots, before, after)
    longer = replace(costs, **{name: (getattr(costs, name) or 0.0) + more_s})
    wider = replace(slots, cores=slots.cores + 1, gpus=slots.gpus + 1)
    for form, slower, larger, faster in zip(
        found,
        closed_forms(count, longer, slots, before, after),
        closed_forms(count + 1, costs, slots, before, after),
        closed_forms(count, costs, wider, before, after),
        strict=True,
    ):
        assert slower.elapsed_s >= form.elapsed_s
        assert larger.elapsed_s >= form.elapsed_s
        assert faster.elapsed_s <= form.elapsed_s


@given(counts, st.floats(0.01, 100), st.floats(0.01, 100), slots_())
def test_gpus_are_busy_while_allocated_where_split_and_for_their_share_where_fused(
    count: int, cpu_s: float, gpu_s: float, slots: Slots
) -> None:
    costs = PartitionCosts(cpu_s=cpu_s, gpu_s=gpu_s, input_bytes=0, output_bytes=0)
    barrier = shuffle_cost("before", count, 0, slots, ShuffleRates(launch_s=0))
    fused = fused_time(count, costs, slots)
    split = split_time(count, costs, slots, before=barrier)
    sliced = sliced_time(count, costs, slots, barrier, barrier, num_slices=min(count, 4))
    assert fused.gpu_busy_s / fused.gpu_allocated_s == pytest.approx(gpu_s / (cpu_s + gpu_s))
    for found in (split, sliced):
        assert found.gpu_busy_s == found.gpu_allocated_s


settings_ = st.builds(
    BoundarySettings,
    boundary=st.sampled_from(("auto", "always", "never")),
    min_gain_fraction=st.floats(0, 0.5),
    max_slices=st.integers(1, 20),
)
pipelines = st.builds(
    GpuPipeline, num_partitions=st.integers(0, 500), costs=st.none() | partition_costs
).map(lambda found: replace(found, has_cpu_form=_knows_cpu_form(found)))


def _knows_cpu_form(pipeline: GpuPipeline) -> bool:
    return pipeline.costs is not None and pipeline.costs.cpu_only_s is not None


@given(pipelines, slots_(), shuffle_rates, settings_)
def test_there_is_a_form_with_a_reason_for_every_pipeline(
    pipeline: GpuPipeline, slots: Slots, rates: ShuffleRates, settings: BoundarySettings
) -> None:
    found = choose_form(pipeline, slots, rates, settings)
    assert found.reason
    assert found == choose_form(pipeline, slots, rates, settings)
    assert (found.num_slices > 1) is (found.form in ("sliced", "shifting"))
    assert (found.num_probe_partitions > 0) is (found.form == "probe")
    if found.form == "fused":
        assert not found.boundary_before
        assert not found.boundary_after
    else:
        assert found.boundary_before or found.boundary_after
    if found.form == "sliced":
        assert found.num_slices <= settings.max_slices
        assert pipeline.num_partitions // found.num_slices >= slots.gpu_tasks
    if settings.boundary == "never":
        assert found.form == "fused"


@given(pipelines, slots_(), shuffle_rates, settings_)
def test_no_form_is_chosen_that_is_predicted_to_gain_less_than_asked(
    pipeline: GpuPipeline, slots: Slots, rates: ShuffleRates, settings: BoundarySettings
) -> None:
    found = choose_form(pipeline, slots, rates, replace(settings, boundary="auto"))
    if found.predicted_s is None:
        return
    fused_s = next(form.elapsed_s for form in found.considered if form.form == "fused")
    assert found.predicted_s <= fused_s
    if found.form != "fused":
        assert found.predicted_s < fused_s
        assert found.predicted_s <= fused_s * (1 - settings.min_gain_fraction)
    fastest_s = min(form.elapsed_s for form in found.considered)
    lost = settings.min_gain_fraction if found.form == "fused" else settings.alike_fraction
    assert found.predicted_s * (1 - lost) <= fastest_s * _MORE


@given(st.integers(1, 500), partition_costs, slots_(), shuffle_rates)
def test_a_shuffle_that_costs_as_much_as_the_stage_is_not_inserted(
    count: int, costs: PartitionCosts, slots: Slots, rates: ShuffleRates
) -> None:
    pipeline = GpuPipeline(num_partitions=count, costs=costs)
    fused_s = fused_time(count, costs, slots).elapsed_s
    dear = replace(rates, stage_s=fused_s)
    assert choose_form(pipeline, slots, dear, BoundarySettings()).form == "fused"


@given(st.integers(1, 500), partition_costs, slots_(), shuffle_rates)
def test_always_keeps_cpu_operators_out_of_gpu_tasks(
    count: int, costs: PartitionCosts, slots: Slots, rates: ShuffleRates
) -> None:
    pipeline = GpuPipeline(num_partitions=count, costs=costs)
    found = choose_form(pipeline, slots, rates, BoundarySettings(boundary="always"))
    assert found.boundary_before or costs.cpu_s == 0
    assert found.boundary_after or costs.rest_s == 0


@given(st.integers(0, 500), slots_())
def test_a_probe_fills_the_gpus_and_leaves_three_quarters(count: int, slots: Slots) -> None:
    pipeline = GpuPipeline(num_partitions=count, costs=None)
    found = choose_form(pipeline, slots, ShuffleRates(), BoundarySettings())
    if count >= 4 * slots.gpu_tasks:
        assert slots.gpu_tasks <= found.num_probe_partitions <= count / 4
    else:
        assert found.form == "fused"
