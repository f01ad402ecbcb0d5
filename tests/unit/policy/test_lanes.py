"""When the next group of an input host set may read, in short scripts."""

from __future__ import annotations

import pytest

from dagopt.errors import InputError
from dagopt.policy.grouping.lanes import Lanes


def test_nothing_planned_means_at_once() -> None:
    assert Lanes(num_lanes=1).start_s("h1", 5.0) == 5.0


def test_groups_of_one_host_read_one_after_another() -> None:
    lanes = Lanes(num_lanes=3)
    lanes.occupy(1, "h1", 7.0)
    lanes.occupy(2, "h1", 9.0)
    assert lanes.start_s("h1", 5.0) == 9.0
    assert lanes.start_s("h2", 5.0) == 5.0


def test_with_one_lane_hosts_take_turns() -> None:
    lanes = Lanes(num_lanes=1)
    lanes.occupy(1, "h1", 7.0)
    assert lanes.start_s("h2", 5.0) == 7.0


def test_with_all_lanes_busy_the_first_that_is_free_counts() -> None:
    lanes = Lanes(num_lanes=2)
    lanes.occupy(1, "h1", 7.0)
    lanes.occupy(2, "h2", 8.0)
    assert lanes.start_s("h3", 5.0) == 7.0


def test_two_groups_of_one_host_use_one_lane() -> None:
    lanes = Lanes(num_lanes=2)
    lanes.occupy(1, "h1", 5.0)
    lanes.occupy(2, "h1", 10.0)
    lanes.occupy(3, "h2", 3.0)
    assert lanes.start_s("h3", 0.0) == 3.0


def test_a_second_call_corrects_the_first() -> None:
    lanes = Lanes(num_lanes=1)
    lanes.occupy(1, "h1", 7.0)
    lanes.occupy(1, "h1", 6.0)
    assert lanes.start_s("h1", 5.0) == 6.0


def test_a_freed_lane_is_free_and_no_state_stays() -> None:
    lanes = Lanes(num_lanes=1)
    lanes.occupy(1, "h1", 7.0)
    lanes.free(1, "h1")
    lanes.free(1, "h1")
    lanes.free(2, "h9")
    assert lanes.start_s("h2", 5.0) == 5.0
    assert lanes == Lanes(num_lanes=1)


def test_no_lane_at_all_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        Lanes(num_lanes=0)
    assert str(caught.value) == "num_lanes is 0, must be >= 1"
