"""The clock of a shared resource, in short scripts."""

from __future__ import annotations

from dagopt.cost.share_clock import ShareClock


def test_one_sharer_is_served_at_full_speed() -> None:
    clock = ShareClock(capacity=1.0, now_s=10.0)
    mark = clock.enter(10.0)
    assert clock.leave(13.0) - mark == 3.0
    assert clock.sharers == 0


def test_two_sharers_of_one_get_half_each() -> None:
    clock = ShareClock(capacity=1.0, now_s=0.0)
    first = clock.enter(0.0)
    second = clock.enter(2.0)
    assert clock.leave(6.0) - first == 2.0 + 2.0
    assert clock.leave(7.0) - second == 2.0 + 1.0


def test_sharers_below_the_capacity_do_not_slow_each_other() -> None:
    clock = ShareClock(capacity=2.0, now_s=0.0)
    mark = clock.enter(0.0)
    clock.enter(0.0)
    assert clock.advance(4.0) - mark == 4.0
    clock.enter(4.0)
    clock.enter(4.0)
    assert clock.advance(6.0) - mark == 4.0 + 1.0


def test_an_earlier_time_changes_nothing() -> None:
    clock = ShareClock(capacity=1.0, now_s=5.0)
    assert clock.advance(6.0) == 1.0
    assert clock.advance(3.0) == 1.0
    assert clock.now_s == 6.0


def test_more_leave_than_entered_is_none_left() -> None:
    clock = ShareClock(capacity=1.0, now_s=0.0)
    clock.leave(1.0)
    assert clock.sharers == 0
