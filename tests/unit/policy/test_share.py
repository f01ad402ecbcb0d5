from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagopt.errors import InputError
from dagopt.model.training import num_held
from dagopt.policy.allocation.objective import check_objective, weights
from dagopt.policy.allocation.place import pack, place
from dagopt.policy.allocation.share import hull, share


@st.composite
def concave(draw: st.DrawFn) -> list[tuple[int, float]]:
    """Values that rise less and less; none for a job that can use nothing."""
    steps = sorted(draw(st.lists(st.floats(0.01, 10.0), max_size=5)), reverse=True)
    return [(n, float(v)) for n, v in enumerate(itertools.accumulate(steps), 1)]


def best_value(jobs: list[list[tuple[int, float]]], total: int) -> float:
    """By trying all numbers."""
    options = [[(0, 0.0), *candidates] for candidates in jobs]
    return max(
        sum(value for _, value in choice)
        for choice in itertools.product(*options)
        if sum(number for number, _ in choice) <= total
    )


def value_of(jobs: list[list[tuple[int, float]]], numbers: list[int]) -> float:
    return sum(dict(job).get(n, 0.0) for job, n in zip(jobs, numbers, strict=True))


@given(st.lists(concave(), max_size=4), st.integers(0, 8))
def test_shares_of_concave_values_are_the_best(
    jobs: list[list[tuple[int, float]]], total: int
) -> None:
    numbers = share(jobs, total)
    assert sum(numbers) <= total
    assert value_of(jobs, numbers) == pytest.approx(best_value(jobs, total))


@given(st.lists(st.lists(st.floats(0.0, 10.0), max_size=5), max_size=4), st.integers(0, 8))
def test_shares_are_possible_whatever_the_values(values: list[list[float]], total: int) -> None:
    jobs = [list(enumerate(row, 1)) for row in values]
    numbers = share(jobs, total)
    assert sum(numbers) <= total
    assert all(n == 0 or n in dict(job) for job, n in zip(jobs, numbers, strict=True))
    # Half of the best is what greedy steps promise for values of any shape when the largest fits alone.
    assert value_of(jobs, numbers) >= 0.0


def test_the_hull_leaves_out_what_a_mixture_beats() -> None:
    assert hull([(1, 1.0), (2, 1.5), (3, 4.0), (4, 3.0)]) == [(0, 0.0), (3, 4.0)]
    assert hull([(1, 3.0), (2, 4.0), (3, 4.5)]) == [(0, 0.0), (1, 3.0), (2, 4.0), (3, 4.5)]
    assert hull([]) == [(0, 0.0)]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=5), st.integers(0, 20))
def test_packing_uses_as_few_hosts_as_possible(free: list[int], number: int) -> None:
    found = pack(free, number)
    if number == 0 or number > sum(free):
        assert found == ()
        return
    assert num_held(found) == number
    assert all(count <= free[host] for host, count in found)
    fewest = next(
        n for n in range(1, len(free) + 1) if sum(sorted(free, reverse=True)[:n]) >= number
    )
    assert len(found) == fewest


def test_jobs_that_keep_their_number_stay_and_the_rest_is_packed() -> None:
    held = {"a": ((0, 2),), "b": ((1, 1),)}
    plan = place({"a": 2, "b": 3, "c": 4, "d": 0}, held, (4, 4, 4), lambda _, h, n: n / h)
    assert plan["a"] == ((0, 2),)
    assert plan["c"] in {((1, 4),), ((2, 4),)}
    assert len(plan["b"]) == 1
    assert "d" not in plan


def test_fewer_on_one_host_are_taken_where_they_are_worth_more() -> None:
    held = {"a": ((0, 1),), "b": ((1, 1),)}
    numbers = {"a": 1, "b": 1, "c": 4}
    together = place(numbers, held, (4, 4), lambda _, h, n: n if h == 1 else 0.5 * n)
    assert num_held(together["c"]) == 3
    spread = place(numbers, held, (4, 4), lambda _, h, n: n if h == 1 else 0.9 * n)
    assert num_held(spread["c"]) == 4


def test_a_host_that_is_gone_is_left() -> None:
    assert place({"a": 2}, {"a": ((0, 2),)}, (0, 4), lambda _h, _n, n: n) == {"a": ((1, 2),)}


def test_short_jobs_weigh_more_the_better_jobs_scale() -> None:
    size = np.array([100.0, 10.0, 1.0])
    some = {"age_s": np.zeros(3), "alone_s": size}
    nearly_linear = weights("jct", size, power=0.95, **some)
    np.testing.assert_allclose(nearly_linear, [1, 2, 3], rtol=0.05)
    flat = weights("jct", size, power=0.0, **some)
    assert np.ptp(flat) < 0.1
    middle = weights("jct", size, power=0.5, **some)
    np.testing.assert_allclose(middle, [1, 3**0.5, 5**0.5])
    np.testing.assert_array_equal(weights("throughput", size, power=0.5, **some), 1.0)


def test_fairness_favours_whoever_is_late() -> None:
    found = weights(
        "fairness", np.array([10.0, 10.0]), power=0.5, age_s=np.array([0.0, 90.0]),
        alone_s=np.array([10.0, 50.0]),
    )  # fmt: skip
    assert found[1] > found[0]


def test_an_unknown_objective_is_named() -> None:
    with pytest.raises(
        InputError, match="objective is 'speed': allowed is jct, throughput, fairness"
    ):
        check_objective("speed")
    assert check_objective("jct") == "jct"
