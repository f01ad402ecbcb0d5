"""Cost of an inserted shuffle, summed up by hand, and what measurements make of it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from dagopt.cost.bandwidth import LINK_WEIGHT, MAX_STEP
from dagopt.cost.inserted_shuffle import Measured, ShuffleRates, shuffle_cost
from dagopt.errors import InputError
from dagopt.model.pipeline import Slots

RATES = ShuffleRates(
    serialise_bytes_per_s=100.0,
    disk_bytes_per_s=400.0,
    network_bytes_per_s=50.0,
    launch_s=0.25,
    stage_s=0.5,
)
SLOTS = Slots(cores=8, gpus=2, num_hosts=2)


def test_eight_write_and_two_read_before_the_gpu_part() -> None:
    cost = shuffle_cost("before", 16, 200.0, SLOTS, RATES)
    assert cost.write_s == 200 / 100 + 200 / (400 / 4)
    assert cost.read_s == 200 / 100 + 200 / 400
    assert (cost.launch_s, cost.stage_s) == (0.25, 0.5)
    assert cost.reading_task_s == 2.75
    assert cost.serialise_s == 2 * 2 + 8 * 2
    assert cost.disk_s == 2 * 2 + 8 * 0.5
    assert cost.network_s == 0.0
    assert cost.launches_s == 8 * 0.25
    assert cost.total_s == 2 * cost.write_s + 8 * cost.reading_task_s + 0.5 == 30.5


def test_two_write_and_eight_read_after_it() -> None:
    cost = shuffle_cost("after", 16, 200.0, SLOTS, RATES)
    assert cost.write_s == 200 / 100 + 200 / 400
    assert cost.read_s == 200 / 100 + 200 / (400 / 4)
    assert cost.total_s == 8 * 2.5 + 2 * (4.0 + 0.25) + 0.5


def test_what_is_read_on_another_host_crosses_its_disk_and_the_network() -> None:
    one_gpu = Slots(cores=8, gpus=1, num_hosts=4)
    cost = shuffle_cost("before", 8, 100.0, one_gpu, RATES)
    assert cost.read_s == 100 / 100 + 100 / 400 + 75 / 50
    assert cost.network_s == 8 * 75 / 50
    seen = replace(RATES, local_fraction=1.0)
    assert shuffle_cost("before", 8, 100.0, one_gpu, seen).network_s == 0.0


def test_what_was_just_written_may_be_read_faster_than_it_was_written() -> None:
    rates = replace(RATES, reread_bytes_per_s=800.0)
    cost = shuffle_cost("before", 16, 200.0, SLOTS, rates)
    assert cost.write_s == 200 / 100 + 200 / (400 / 4)
    assert cost.read_s == 200 / 100 + 200 / 800
    with pytest.raises(InputError, match="reread_bytes_per_s is 0, must be > 0"):
        replace(RATES, reread_bytes_per_s=0)


def test_few_partitions_share_a_disk_among_few() -> None:
    cost = shuffle_cost("before", 2, 200.0, Slots(cores=8, gpus=2), RATES)
    assert cost.write_s == 200 / 100 + 200 / (400 / 2)


def test_nothing_to_shuffle_costs_the_barrier() -> None:
    assert shuffle_cost("before", 0, 100.0, SLOTS, RATES).total_s == 0.5


def test_the_parts_are_told() -> None:
    assert str(shuffle_cost("before", 16, 200.0, SLOTS, RATES)) == (
        "30.5 s (serialising 20.0 s, disk 8.00 s, network 0.00 s, launches 2.00 s, barrier 0.50 s)"
    )


@pytest.mark.parametrize("what", ["write", "read", "launch"])
def test_the_first_observation_replaces_the_prior(what: Measured) -> None:
    slots, name = Slots(cores=8, gpus=1, num_hosts=2), f"{what}_s"
    before = shuffle_cost("before", 16, 200.0, slots, RATES)
    seen = RATES.observed(what, predicted_s=2.0, measured_s=6.0)
    after = shuffle_cost("before", 16, 200.0, slots, seen)
    assert getattr(after, name) == 3 * getattr(before, name)
    others = {"write_s", "read_s", "launch_s"} - {name}
    assert all(getattr(after, other) == getattr(before, other) for other in others)
    assert after.total_s == pytest.approx(
        2 * after.write_s + 16 * after.reading_task_s + after.stage_s
    )


def test_later_observations_count_by_their_weight_in_bounded_steps() -> None:
    first = RATES.observed("read", 1.0, 2.0)
    assert first.observed("read", 1.0, 2.0).learned["read"] == 2 * (1 + LINK_WEIGHT)
    assert first.observed("read", 1.0, 1e9).learned["read"] == 2 * MAX_STEP
    assert RATES.learned == {}


@pytest.mark.parametrize("seconds", [(0, 1), (1, 0), (-1, 1), (math.nan, 1), (1, math.inf)])
def test_an_observation_without_time_shows_nothing(seconds: tuple[float, float]) -> None:
    assert RATES.observed("read", *seconds) is RATES


def test_locality_is_what_was_seen_of_it() -> None:
    seen = RATES.observed_locality(30.0, 40.0)
    assert seen.local_fraction == 0.75
    assert seen.observed_locality(0.0, 40.0).local_fraction == pytest.approx(
        0.75 * (1 - LINK_WEIGHT)
    )
    assert RATES.observed_locality(0.0, 0.0) is RATES
    assert RATES.observed_locality(2.0, 1.0) is RATES


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("serialise_bytes_per_s", 0.0, "> 0"),
        ("disk_bytes_per_s", -1.0, "> 0"),
        ("network_bytes_per_s", math.nan, "> 0"),
        ("launch_s", -0.1, ">= 0 and finite"),
        ("stage_s", math.inf, ">= 0 and finite"),
        ("local_fraction", 1.5, "0 to 1"),
    ],
)
def test_impossible_rates_are_refused(name: str, value: float, allowed: str) -> None:
    with pytest.raises(InputError) as caught:
        replace(RATES, **{name: value})  # type: ignore[arg-type]
    assert str(caught.value) == f"{name} is {value}, must be {allowed}"


@pytest.mark.parametrize(("count", "size"), [(-1, 1.0), (1, -1.0), (1, math.nan)])
def test_impossible_shuffles_are_refused(count: int, size: float) -> None:
    with pytest.raises(InputError) as caught:
        shuffle_cost("before", count, size, SLOTS, RATES)
    assert str(caught.value) == (
        f"num_partitions {count} and partition_bytes {size} must be >= 0 and finite"
    )
