"""Laws of max-min fair rates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagopt.sim.links import max_min_rates

LINKS = ("a", "b", "c", "d")
crossings = st.lists(
    st.lists(st.sampled_from(LINKS), min_size=1, max_size=3, unique=True), max_size=12
)
capacities = st.fixed_dictionaries({link: st.floats(1, 1e9) for link in LINKS})
Crosses = list[list[str]]


@given(crossings, capacities)
def test_no_link_carries_more_than_it_can(crosses: Crosses, capacity: dict[str, float]) -> None:
    rates = max_min_rates(crosses, capacity)
    for link in LINKS:
        used = sum(rate for rate, links in zip(rates, crosses, strict=True) if link in links)
        assert used <= capacity[link] * (1 + 1e-9)


@given(crossings, capacities)
def test_every_transfer_has_a_full_link_on_which_none_is_faster(
    crosses: Crosses, capacity: dict[str, float]
) -> None:
    rates = max_min_rates(crosses, capacity)
    for rate, links in zip(rates, crosses, strict=True):
        assert rate > 0
        bottlenecks = []
        for link in links:
            on_link = [r for r, other in zip(rates, crosses, strict=True) if link in other]
            is_full = sum(on_link) >= capacity[link] * (1 - 1e-9)
            bottlenecks.append(is_full and rate >= max(on_link) * (1 - 1e-9))
        assert any(bottlenecks)


@given(crossings, capacities)
def test_the_order_of_transfers_does_not_matter(
    crosses: Crosses, capacity: dict[str, float]
) -> None:
    backwards = max_min_rates(crosses[::-1], capacity)
    assert max_min_rates(crosses, capacity)[::-1] == pytest.approx(backwards)


def test_a_transfer_on_a_narrow_link_leaves_the_rest_to_the_others() -> None:
    rates = max_min_rates([["a"], ["a", "b"]], {"a": 10.0, "b": 2.0})
    assert rates == [8.0, 2.0]
