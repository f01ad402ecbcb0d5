"""The size of a group, from the rates that numbers of readers have shown."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dagopt.errors import InputError
from dagopt.policy.grouping.group_size import saturating_group_size


@pytest.mark.parametrize(
    ("rates", "size"),
    [
        ({}, 4),
        ({2: 0.0}, 4),
        ({1: 100.0}, 1),
        ({1: 50.0, 2: 99.0, 4: 100.0}, 2),
        ({1: 86.0, 2: 100.0}, 1),
        ({4: 100.0, 8: 40.0}, 4),
        ({1: 50.0, 2: 100.0}, 4),
        ({1: 50.0, 2: 60.0}, 2),
    ],
)
def test_the_fewest_readers_that_saturate_the_link(rates: Mapping[int, float], size: int) -> None:
    assert saturating_group_size(rates, cores=4, limit=16) == size


def test_a_group_is_never_larger_than_its_limit() -> None:
    assert saturating_group_size({}, cores=8, limit=3) == 3
    assert saturating_group_size({1: 50.0, 2: 100.0}, cores=8, limit=3) == 3


def test_a_fraction_of_a_core_makes_a_group_of_one() -> None:
    assert saturating_group_size({}, cores=0.5, limit=3) == 1


@pytest.mark.parametrize(("cores", "limit"), [(4.0, 0), (0.0, 4)])
def test_impossible_limits_are_refused(cores: float, limit: int) -> None:
    with pytest.raises(InputError) as caught:
        saturating_group_size({}, cores=cores, limit=limit)
    assert str(caught.value) == f"limit is {limit}, must be >= 1; cores is {cores}, must be > 0"
