"""Lanes: when everybody starts when they are told, links are neither crowded nor left idle."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dagopt.policy.grouping.lanes import Lanes

groups = st.lists(
    st.tuples(st.sampled_from(("h1", "h2", "h3", "h4")), st.integers(1, 9), st.integers(0, 3)),
    max_size=25,
)
Groups = list[tuple[str, int, int]]
"""Of each group the reading host, how long it reads, and how long after the one before it comes."""


def planned(lanes: Lanes, found: Groups) -> list[tuple[str, float, float, float]]:
    """Host, arrival, start and end of every group; what has been read is freed in time."""
    out: list[tuple[str, float, float, float]] = []
    now_s = 0.0
    for number, (host, io_s, wait_s) in enumerate(found):
        now_s += wait_s
        for other, (other_host, _, _, end_s) in enumerate(out):
            if end_s <= now_s:
                lanes.free(other, other_host)
        start_s = lanes.start_s(host, now_s)
        lanes.occupy(number, host, start_s + io_s)
        out.append((host, now_s, start_s, start_s + io_s))
    return out


@given(st.integers(1, 4), groups)
def test_never_more_groups_read_at_once_than_there_are_lanes(num: int, found: Groups) -> None:
    plan = planned(Lanes(num_lanes=num), found)
    for _, _, start_s, _ in plan:
        assert sum(begin <= start_s < end for _, _, begin, end in plan) <= num


@given(st.integers(1, 4), groups)
def test_never_two_groups_of_one_host_read_at_once(num: int, found: Groups) -> None:
    plan = planned(Lanes(num_lanes=num), found)
    for host, _, start_s, _ in plan:
        assert sum(h == host and begin <= start_s < end for h, _, begin, end in plan) == 1


@given(st.integers(1, 4), groups)
def test_a_group_starts_at_once_or_when_another_one_ends(num: int, found: Groups) -> None:
    plan = planned(Lanes(num_lanes=num), found)
    for place, (_, now_s, start_s, _) in enumerate(plan):
        assert start_s == now_s or start_s in {end for _, _, _, end in plan[:place]}


@given(st.integers(1, 4), groups)
def test_a_group_that_waits_finds_its_host_or_every_lane_in_use(num: int, found: Groups) -> None:
    plan = planned(Lanes(num_lanes=num), found)
    for place, (host, now_s, start_s, _) in enumerate(plan):
        if start_s == now_s:
            continue
        busy = {h for h, _, _, end in plan[:place] if end >= start_s}
        assert host in busy or len(busy - {host}) >= num


@given(st.integers(1, 4), groups)
def test_when_all_have_read_nothing_is_left(num: int, found: Groups) -> None:
    lanes = Lanes(num_lanes=num)
    for number, (host, _, _, _) in enumerate(planned(lanes, found)):
        lanes.free(number, host)
    assert lanes == Lanes(num_lanes=num)
