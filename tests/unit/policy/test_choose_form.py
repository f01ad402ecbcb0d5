"""Which form is chosen, and the reason that an operator reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dagopt.cost.inserted_shuffle import ShuffleRates
from dagopt.errors import InputError
from dagopt.model.pipeline import GpuPipeline, PartitionCosts, Slots
from dagopt.policy.boundary.choose_form import (
    Boundary,
    BoundaryDecision,
    BoundarySettings,
    choose_form,
    slice_counts,
)

COSTS = PartitionCosts(cpu_s=3.0, gpu_s=1.0, input_bytes=0.0, output_bytes=0.0)
SLOTS = Slots(cores=8, gpus=2)
FREE = ShuffleRates(launch_s=0.0, stage_s=0.0)


def decided(
    costs: PartitionCosts | None = COSTS,
    *,
    num_partitions: int = 16,
    slots: Slots = SLOTS,
    rates: ShuffleRates = FREE,
    settings: BoundarySettings | None = None,
) -> BoundaryDecision:
    pipeline = GpuPipeline(num_partitions=num_partitions, costs=costs)
    return choose_form(pipeline, slots, rates, settings or BoundarySettings())


def barrier(stage_s: float) -> ShuffleRates:
    return replace(FREE, stage_s=stage_s)


def test_the_worked_example_is_split() -> None:
    decision = decided(rates=barrier(1.0), settings=BoundarySettings(max_slices=2))
    assert (decision.form, decision.predicted_s) == ("split", 15.0)
    assert (decision.boundary_before, decision.boundary_after) == (True, False)
    assert decision.before is not None
    assert decision.before.total_s == 1.0
    assert decision.reason == (
        "split before 15.0 s against fused 32.0 s, sliced in 2 15.0 s"
        " (and 1 more slicing, from 15.0 s); 16 partitions of CPU 3.00 s + GPU 1.00 s on 8 CPU slots and 2 GPUs;"
        " shuffle before of 0 B each 1.00 s (serialising 0.00 s, disk 0.00 s, network 0.00 s,"
        " launches 0.00 s, barrier 1.00 s); shuffle after of 0 B each 1.00 s (serialising 0.00 s,"
        " disk 0.00 s, network 0.00 s, launches 0.00 s, barrier 1.00 s)"
    )


def test_of_the_forms_that_lost_the_fastest_are_named_and_the_others_counted() -> None:
    costs = replace(COSTS, rest_s=2.0)
    decision = decided(costs, num_partitions=64, rates=barrier(0.125))
    slicings = sorted(one.elapsed_s for one in decision.considered if one.form == "sliced")
    assert (len(slicings), len(decision.considered)) == (10, 14)
    assert decision.predicted_s in slicings
    assert decision.reason.split("; ")[0] == (
        "sliced in 8 with 6 CPU tasks at once 53.2 s against fused 192 s,"
        " split before and after 72 s (and 2 more splits, from 120 s),"
        " sliced in 11 with 6 CPU tasks at once 52.2 s (and 8 more slicings, from 52.2 s)"
    )


def test_a_limit_on_cpu_tasks_that_changes_nothing_is_not_predicted() -> None:
    def slicings(slots: Slots, count: int = 64) -> list[tuple[int, int]]:
        found = decided(num_partitions=count, slots=slots, settings=BoundarySettings(max_slices=2))
        return [
            (one.num_slices, one.max_cpu_tasks) for one in found.considered if one.num_slices > 1
        ]

    assert slicings(SLOTS) == [(2, 0), (2, 6)]
    assert slicings(SLOTS, count=6) == [(2, 0)]
    assert slicings(replace(SLOTS, cpus_per_gpu_task=0.0)) == [(2, 0)]
    assert slicings(Slots(cores=1, gpus=1)) == [(2, 0)]


def test_a_shuffle_that_eats_up_the_gain_keeps_it_fused() -> None:
    decision = decided(rates=barrier(18.0))
    assert (decision.form, decision.predicted_s, decision.num_slices) == ("fused", 32.0, 1)
    assert not decision.boundary_before
    assert not decision.boundary_after
    assert decision.reason.startswith(
        "less than 5% to gain; fused 32.0 s against split before 32.0 s, sliced in 2 "
    )


def test_a_small_gain_is_none() -> None:
    # Split takes 14 s of work and its barriers, against 32 s.
    assert decided(rates=barrier(16.5)).form == "fused"
    assert decided(rates=barrier(16.0)).form == "split"
    eager = BoundarySettings(min_gain_fraction=0.0)
    assert decided(rates=barrier(16.5), settings=eager).form == "split"
    assert decided(rates=barrier(18.0), settings=eager).form == "fused"


def test_long_pipelines_are_sliced_in_no_more_slices_than_pay() -> None:
    decision = decided(num_partitions=64, rates=barrier(0.125))
    assert (decision.form, decision.num_slices, decision.max_cpu_tasks) == ("sliced", 8, 6)
    assert (decision.boundary_before, decision.boundary_after) == (True, True)
    times = {found.name: found.elapsed_s for found in decision.considered}
    chosen_s = times["sliced in 8 with 6 CPU tasks at once"]
    assert decision.predicted_s == chosen_s
    assert chosen_s <= 1.03 * min(times.values())
    assert times["sliced in 4 with 6 CPU tasks at once"] > 1.03 * min(times.values())
    assert chosen_s < times["sliced in 8"] < times["split before"] < times["fused"]


def test_more_slices_that_gain_next_to_nothing_are_not_made() -> None:
    costs, slots = replace(COSTS, cpu_s=1.0, gpu_s=4.0), Slots(cores=8, gpus=1)
    exact = BoundarySettings(alike_fraction=0.0)
    assert decided(costs, num_partitions=64, slots=slots, settings=exact).num_slices == 8
    assert decided(costs, num_partitions=64, slots=slots).form == "split"


def test_bytes_across_the_boundary_count() -> None:
    heavy = replace(COSTS, input_bytes=2e9)
    assert decided(heavy).form == "fused"
    fast = replace(FREE, disk_bytes_per_s=1e12, serialise_bytes_per_s=1e12)
    assert decided(heavy, rates=fast).form != "fused"


def test_cpu_operators_behind_the_gpu_get_a_boundary_of_their_own_where_that_is_cheaper() -> None:
    settings = BoundarySettings(max_slices=1)
    costs = replace(COSTS, rest_s=2.0)
    both = decided(costs, rates=barrier(1.0), settings=settings)
    assert (both.boundary_before, both.boundary_after, both.predicted_s) == (True, True, 20.0)
    heavy = decided(replace(costs, output_bytes=1e9), rates=barrier(1.0), settings=settings)
    assert (heavy.boundary_before, heavy.boundary_after, heavy.predicted_s) == (True, False, 31.0)
    behind = decided(replace(costs, cpu_s=0.0), rates=barrier(1.0), settings=settings)
    assert (behind.boundary_before, behind.boundary_after, behind.predicted_s) == (False, True, 13)


def with_cpu_form(costs: PartitionCosts, count: int = 64) -> BoundaryDecision:
    pipeline = GpuPipeline(num_partitions=count, costs=costs, has_cpu_form=True)
    return choose_form(pipeline, SLOTS, ShuffleRates(launch_s=0.0, stage_s=0.0), BoundarySettings())


def test_slices_shift_where_cpu_slots_can_be_lent_to_the_cpu_form() -> None:
    costs = PartitionCosts(cpu_s=0.5, gpu_s=2.0, input_bytes=0, output_bytes=0, cpu_only_s=7.5)
    found = with_cpu_form(costs)
    # Of six slots beside the GPUs one feeds them; five do 5 partitions in 8 s, the GPUs 8.
    assert found.form == "shifting"
    assert (found.num_slices, found.max_cpu_tasks) == (32, 6)
    assert (found.boundary_before, found.boundary_after) == (True, True)
    assert found.predicted_s == pytest.approx(0.5 + 40.0)
    # With CPU work that takes all of them there is none to lend.
    busy = with_cpu_form(replace(costs, cpu_s=6.0))
    assert busy.form == "sliced"
    assert busy.reason.endswith("; no CPU slots to lend to the CPU form")


def test_what_the_cpu_form_costs_is_found_out_where_that_is_cheap() -> None:
    costs = PartitionCosts(cpu_s=0.5, gpu_s=2.0, input_bytes=0, output_bytes=0)
    assert with_cpu_form(costs).form == "shifting"
    without = GpuPipeline(num_partitions=64, costs=costs)
    assert decided_form(without) != "shifting"
    # As many partitions as GPUs have no wait that it could shorten.
    assert with_cpu_form(costs, count=2).form != "shifting"


def decided_form(pipeline: GpuPipeline) -> str:
    rates = ShuffleRates(launch_s=0.0, stage_s=0.0)
    return choose_form(pipeline, SLOTS, rates, BoundarySettings()).form


def test_a_stage_without_cpu_work_has_nothing_to_cut() -> None:
    for boundary in ("auto", "always"):
        settings = BoundarySettings(boundary=boundary)
        decision = decided(replace(COSTS, cpu_s=0.0), settings=settings)
        assert (decision.form, len(decision.considered)) == ("fused", 1)


def test_never_is_as_spark_runs_it() -> None:
    decision = decided(settings=BoundarySettings(boundary="never"))
    assert (decision.form, decision.predicted_s) == ("fused", 32.0)
    assert decision.reason.startswith("boundary is never; fused 32.0 s; 16 partitions of ")


def test_always_leaves_no_cpu_operator_in_a_gpu_task() -> None:
    settings = BoundarySettings(boundary="always")
    decision = decided(rates=barrier(18.0), settings=settings)
    assert (decision.form, decision.predicted_s) == ("split", 32.0)
    assert decision.reason.startswith("boundary is always; split before 32.0 s against fused ")
    costs = replace(COSTS, rest_s=0.001, cpu_only_s=0.0)
    decision = decided(costs, rates=barrier(18.0), settings=replace(settings, max_slices=1))
    assert (decision.form, decision.boundary_before, decision.boundary_after) == (
        "split",
        True,
        True,
    )


@pytest.mark.parametrize(
    ("num_partitions", "slots", "size"),
    [
        (64, SLOTS, 8),
        (16, SLOTS, 4),
        (8, SLOTS, 2),
        (400, Slots(cores=4, gpus=8, cpus_per_gpu_task=0), 8),
    ],
)
def test_unknown_costs_are_measured_on_a_first_slice(
    num_partitions: int, slots: Slots, size: int
) -> None:
    decision = decided(None, num_partitions=num_partitions, slots=slots)
    assert (decision.form, decision.num_probe_partitions) == ("probe", size)
    assert (decision.boundary_before, decision.boundary_after) == (True, True)
    assert decision.reason == (
        f"costs are not known: {size} of {num_partitions} partitions run split to measure them"
    )


@pytest.mark.parametrize(
    ("boundary", "form", "reason"),
    [
        (
            "auto",
            "fused",
            "costs are not known, and 25% of 7 partitions do not fill 2 GPUs to measure them",
        ),
        (
            "always",
            "split",
            (
                "boundary is always; costs are not known, and 25% of 7 partitions do not fill"
                " 2 GPUs to measure them"
            ),
        ),
        ("never", "fused", "boundary is never; costs are not known"),
    ],
)
def test_a_pipeline_too_small_for_a_probe_is_not_measured(
    boundary: Boundary, form: str, reason: str
) -> None:
    decision = decided(None, num_partitions=7, settings=BoundarySettings(boundary=boundary))
    assert (decision.form, decision.predicted_s, decision.reason) == (form, None, reason)


def test_the_rest_after_a_probe_is_decided_like_any_pipeline() -> None:
    probe = decided(None, num_partitions=64)
    rest = decided(COSTS, num_partitions=64 - probe.num_probe_partitions)
    assert rest.form == "sliced"


def test_no_partitions_are_left_alone() -> None:
    for costs in (None, COSTS):
        decision = decided(costs, num_partitions=0)
        assert (decision.form, decision.reason) == ("fused", "no partitions")


def test_a_stage_that_takes_no_time_is_left_alone() -> None:
    costs = replace(COSTS, cpu_s=0.0, gpu_s=0.0, cpu_only_s=0.0)
    assert decided(costs, settings=BoundarySettings(min_gain_fraction=0.0)).form == "fused"


@pytest.mark.parametrize(
    ("num_partitions", "most", "expected"),
    [
        (16, 16, [2, 3, 4, 8]),
        (1000, 16, [2, 4, 8, 16]),
        (100, 20, [2, 4, 8, 13, 16, 17, 20]),
        (7, 16, [2, 3]),
        (3, 16, []),
        (16, 1, []),
    ],
)
def test_slices_are_as_wide_as_the_gpus(
    num_partitions: int, most: int, expected: list[int]
) -> None:
    assert slice_counts(num_partitions, SLOTS, most) == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"boundary": "yes"}, "boundary is 'yes': allowed is auto, always, never"),
        (
            {"min_gain_fraction": 1.0},
            "min_gain_fraction 1.0 must be >= 0 and < 1, alike_fraction 0.03 must be >= 0",
        ),
        (
            {"alike_fraction": -1.0},
            "min_gain_fraction 0.05 must be >= 0 and < 1, alike_fraction -1.0 must be >= 0",
        ),
        ({"max_slices": 0}, "max_slices is 0, must be >= 1"),
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        BoundarySettings(**changes)  # type: ignore[arg-type]
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("boundary", "num_partitions", "form"),
    [("auto", 16, "split"), ("auto", 2, "fused"), ("always", 2, "split"), ("never", 16, "fused")],
)
def test_what_cannot_be_sliced_is_measured_by_running_split(
    boundary: Boundary, num_partitions: int, form: str
) -> None:
    pipeline = GpuPipeline(num_partitions=num_partitions, costs=None, sliceable=False)
    settings = BoundarySettings(boundary=boundary)
    chosen = choose_form(pipeline, Slots(cores=8, gpus=2), ShuffleRates(), settings)
    assert chosen.form == form
    assert chosen.boundary_before == (form == "split")
    assert "costs are not known" in chosen.reason


def test_what_cannot_be_sliced_is_never_sliced() -> None:
    costs = PartitionCosts(cpu_s=1.0, gpu_s=0.5, input_bytes=1000, output_bytes=0)
    slots = Slots(cores=8, gpus=2)
    forms = [
        choose_form(
            GpuPipeline(num_partitions=64, costs=costs, sliceable=sliceable),
            slots,
            ShuffleRates(),
            BoundarySettings(),
        )
        for sliceable in (True, False)
    ]
    assert [chosen.form for chosen in forms] == ["sliced", "split"]
    assert not forms[1].boundary_after
