"""The launch order of a few tasks, rule by rule."""

from __future__ import annotations

import numpy as np
import pytest

from dagopt.errors import InputError
from dagopt.policy.grouping.order import johnson_order, launch_order


def order(io_s: list[float], cpu_s: list[float], source: list[int]) -> list[int]:
    found = launch_order(np.array(io_s), np.array(cpu_s), np.array(source, dtype=np.int64))
    return [int(task) for task in found]


def test_johnson_puts_short_reads_first_and_short_computations_last() -> None:
    io_s, cpu_s = np.array([5.0, 1.0, 9.0, 3.0]), np.array([2.0, 6.0, 7.0, 8.0])
    assert johnson_order(io_s, cpu_s).tolist() == [1, 3, 2, 0]


def test_shapes_must_agree() -> None:
    with pytest.raises(InputError) as caught:
        johnson_order(np.zeros(2), np.zeros(3))
    assert str(caught.value) == "io_s and cpu_s must both be (T,), got (2,) and (3,)"
    with pytest.raises(InputError, match=r"must both be \(T,\)"):
        johnson_order(np.zeros((2, 2)), np.zeros((2, 2)))


def test_equal_tasks_keep_sparks_order() -> None:
    assert order([1.0] * 5, [0.0] * 5, [-1] * 5) == [0, 1, 2, 3, 4]


def test_tasks_of_different_hosts_take_turns() -> None:
    assert order([1.0] * 6, [1.0] * 6, [0, 0, 0, 1, 1, 2]) == [0, 3, 5, 1, 4, 2]


def test_a_task_much_longer_than_the_others_goes_first() -> None:
    assert order([1.0, 1.0, 9.0, 1.0], [1.0] * 4, [0] * 4)[0] == 2


def test_nearly_equal_times_do_not_change_the_order() -> None:
    assert order([1.00, 0.99, 1.01], [0.0] * 3, [0] * 3) == [0, 1, 2]


def test_no_tasks_have_no_order() -> None:
    assert order([], [], []) == []
