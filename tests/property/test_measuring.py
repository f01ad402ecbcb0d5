"""Bandwidths learn in the right direction, and the clock of a shared resource keeps its books."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagopt.cost.bandwidth import MAX_STEP, Bandwidths
from dagopt.cost.share_clock import ShareClock
from tests.property.strategies import RACKS, bandwidths

spans_s = st.floats(1e-3, 1e4)
rack = st.sampled_from(RACKS)


@given(bandwidths(), rack, rack, spans_s, spans_s)
def test_slower_than_predicted_lowers_and_faster_raises(
    known: Bandwidths, reader: str, source: str, predicted_s: float, measured_s: float
) -> None:
    before = known.between(reader, source)
    after = known.observed(reader, [source], predicted_s, measured_s).between(reader, source)
    if measured_s > predicted_s:
        assert after < before
    elif measured_s < predicted_s:
        assert after > before
    else:
        assert after == pytest.approx(before)
    if (reader, source) in known.learned:
        assert before / MAX_STEP <= after <= before * MAX_STEP


@given(bandwidths(), rack, rack, spans_s, spans_s)
def test_other_pairs_and_the_priors_stay(
    known: Bandwidths, reader: str, source: str, predicted_s: float, measured_s: float
) -> None:
    after = known.observed(reader, [source], predicted_s, measured_s)
    assert after.network_bytes_per_s == known.network_bytes_per_s
    assert after.disk_bytes_per_s == known.disk_bytes_per_s
    for pair, rate in known.learned.items():
        if pair != (reader, source):
            assert after.learned[pair] == rate


@given(bandwidths(), rack, rack, st.floats(1e4, 1e9))
def test_repeated_observations_of_a_steady_link_come_to_its_rate(
    known: Bandwidths, reader: str, source: str, true_rate: float
) -> None:
    for _ in range(200):
        predicted_s = 1e6 / known.between(reader, source)
        known = known.observed(reader, [source], predicted_s, 1e6 / true_rate)
    assert known.between(reader, source) == pytest.approx(true_rate, rel=1e-3)


moves = st.lists(st.tuples(st.booleans(), st.integers(0, 20)), max_size=30)
"""Whether a sharer comes (or else goes), and tenths of a second until it does."""


@given(st.sampled_from((0.5, 1.0, 2.0, 4.0)), moves)
def test_the_clock_is_the_integral_of_the_share(
    capacity: float, found: list[tuple[bool, int]]
) -> None:
    clock = ShareClock(capacity=capacity, now_s=0.0)
    sharers, served_s, now_s = 0, 0.0, 0.0
    for comes, tenths in found:
        for _ in range(tenths):  # steps of a tenth, in which nothing changes
            served_s += 0.1 * min(1.0, capacity / max(1, sharers))
        now_s += tenths / 10
        if comes:
            assert clock.enter(now_s) == pytest.approx(served_s)
            sharers += 1
        else:
            assert clock.leave(now_s) == pytest.approx(served_s)
            sharers = max(0, sharers - 1)
        assert clock.sharers == sharers


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=1, max_size=8))
def test_a_resource_that_is_in_use_hands_out_exactly_what_it_has(
    found: list[tuple[float, float]],
) -> None:
    visits = [(begin_s, begin_s + stay_s) for begin_s, stay_s in found]
    clock = ShareClock(capacity=1.0, now_s=0.0)
    marks, got_s = [0.0] * len(visits), 0.0
    changes = [(b, 1, i) for i, (b, _) in enumerate(visits)]
    changes += [(e, 2, i) for i, (_, e) in enumerate(visits)]
    busy_s, inside, last_s = 0.0, 0, 0.0
    for at_s, kind, number in sorted(changes):
        busy_s += at_s - last_s if inside else 0.0
        last_s = at_s
        if kind == 1:
            marks[number] = clock.enter(at_s)
            inside += 1
        else:
            got_s += clock.leave(at_s) - marks[number]
            inside -= 1
    assert got_s == pytest.approx(busy_s, abs=1e-9)
