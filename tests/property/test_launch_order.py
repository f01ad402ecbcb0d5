"""Launch orders: permutations, the same every time, in turns, and the best where that is known."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dagopt.policy.grouping.order import johnson_order, launch_order
from tests.property.strategies import times_s

tasks = st.lists(st.tuples(times_s, times_s, st.integers(-1, 3)), max_size=30)
few_tasks = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=6)
Tasks = list[tuple[float, float, int]]


def ordered(found: Tasks) -> list[int]:
    io_s, cpu_s, source = (np.array([task[part] for task in found]) for part in range(3))
    order = launch_order(io_s.astype(float), cpu_s.astype(float), source.astype(np.int64))
    return [int(task) for task in order]


def makespan_s(jobs: Sequence[tuple[float, float]]) -> float:
    """Of a flow shop with one reader and one computer, jobs in this order on both."""
    read_s = done_s = 0.0
    for io_s, cpu_s in jobs:
        read_s += io_s
        done_s = max(done_s, read_s) + cpu_s
    return done_s


@given(tasks)
def test_every_task_is_launched_once_and_in_the_same_order_again(found: Tasks) -> None:
    order = ordered(found)
    assert sorted(order) == list(range(len(found)))
    assert ordered(found) == order


@given(tasks)
def test_sources_take_turns_as_long_as_they_have_tasks(found: Tasks) -> None:
    codes = [found[task][2] for task in ordered(found)]
    left = {code: codes.count(code) for code in set(codes)}
    while left:
        turn, codes = codes[: len(left)], codes[len(left) :]
        assert turn == sorted(left)
        left = {code: count - 1 for code, count in left.items() if count > 1}


@given(tasks)
def test_each_source_begins_with_its_longest_tasks(found: Tasks) -> None:
    work_s = [io_s + cpu_s for io_s, cpu_s, _ in found]
    limit_s = 2 * float(np.median(work_s)) if work_s else 0.0
    for code in {source for _, _, source in found}:
        is_long = [work_s[task] > limit_s for task in ordered(found) if found[task][2] == code]
        assert is_long == sorted(is_long, reverse=True)


@given(few_tasks)
def test_johnsons_order_is_the_best_of_all_permutations(jobs: list[tuple[int, int]]) -> None:
    io_s, cpu_s = (np.array([job[part] for job in jobs], dtype=float) for part in (0, 1))
    found_s = makespan_s([jobs[task] for task in johnson_order(io_s, cpu_s)])
    assert found_s == min(makespan_s(other) for other in itertools.permutations(jobs))


@given(tasks)
def test_times_within_a_step_do_not_move_a_task(found: Tasks) -> None:
    same = [(2.0, 1.0, source) for _, _, source in found]
    nearly = [(2.0 * (1 + 0.001 * (i % 3)), 1.0, source) for i, (_, _, source) in enumerate(found)]
    assert ordered(nearly) == ordered(same)
