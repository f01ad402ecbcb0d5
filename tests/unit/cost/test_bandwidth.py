"""Bandwidths: priors, what a group shows, and how far one observation moves what is known."""

from __future__ import annotations

import math

import pytest

from dagopt.cost.bandwidth import LINK_WEIGHT, MAX_STEP, Bandwidths
from dagopt.errors import InputError

PRIOR = Bandwidths(network_bytes_per_s=100.0, disk_bytes_per_s=200.0)


def test_the_prior_holds_between_all_networks() -> None:
    assert PRIOR.between("a", "b") == PRIOR.between("b", "b") == 100.0


def test_the_first_observation_replaces_the_prior_of_its_pair() -> None:
    seen = PRIOR.observed("a", ["b"], predicted_s=1.0, measured_s=4.0)
    assert seen.between("a", "b") == 25.0
    assert seen.between("b", "a") == 100.0
    assert PRIOR.learned == {}


def test_a_later_observation_counts_by_its_weight() -> None:
    seen = PRIOR.observed("a", ["b"], 1.0, 1.0).observed("a", ["b"], 1.0, 2.0)
    assert seen.between("a", "b") == pytest.approx(100.0 * (1 - LINK_WEIGHT / 2))


def test_one_later_observation_moves_by_a_bounded_factor() -> None:
    seen = PRIOR.observed("a", ["b"], 1.0, 1.0).observed("a", ["b"], 1000.0, 1.0)
    assert seen.between("a", "b") == 100.0 * MAX_STEP


def test_every_source_of_a_group_is_corrected_alike() -> None:
    seen = PRIOR.observed("a", ["b", "c"], 1.0, 2.0)
    assert seen.learned == {("a", "b"): 50.0, ("a", "c"): 50.0}


@pytest.mark.parametrize(("predicted_s", "measured_s"), [(0, 1), (1, 0), (-1, 1), (math.nan, 1)])
def test_an_observation_without_time_shows_nothing(predicted_s: float, measured_s: float) -> None:
    assert PRIOR.observed("a", ["b"], predicted_s, measured_s) is PRIOR


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan])
def test_a_bandwidth_must_be_positive(value: float) -> None:
    with pytest.raises(InputError) as caught:
        Bandwidths(network_bytes_per_s=value, disk_bytes_per_s=1.0)
    assert str(caught.value) == f"network_bytes_per_s is {value}, must be > 0"
    with pytest.raises(InputError) as caught:
        Bandwidths(network_bytes_per_s=1.0, disk_bytes_per_s=value)
    assert str(caught.value) == f"disk_bytes_per_s is {value}, must be > 0"
