"""The closed forms for a stage's time, against sums by hand."""

from __future__ import annotations

import pytest

from dagopt.cost.stage_time import grouped_s, stock_s
from dagopt.errors import InputError


@pytest.mark.parametrize(("cpu_s", "expected_s"), [(2.0, 20.0), (8.0, 32.0)])
def test_two_waves_of_eight_tasks_as_spark_runs_them(cpu_s: float, expected_s: float) -> None:
    assert stock_s(16, 1, 8, 1.0, cpu_s) == expected_s


def test_a_wave_that_is_not_full_shares_the_link_among_fewer() -> None:
    assert stock_s(2, 1, 8, 1.0, 3.0) == 2 * 1.0 + 3.0
    assert stock_s(1, 4, 8, 1.0, 3.0) == 1.0 + 3.0
    assert stock_s(21, 3, 3, 1.0, 0.0) == 7.0
    assert stock_s(10, 1, 8, 1.0, 3.0) == (8.0 + 3.0) + (2.0 + 3.0)


def test_groups_hide_the_shorter_resource_behind_the_longer() -> None:
    assert grouped_s(16, 1, 8, 1.0, 2.0) == 16.0 + 1.0
    assert grouped_s(16, 1, 8, 1.0, 12.0) == 24.0 + 1.0
    assert grouped_s(16, 1, 8, 1.0, 99.0) == 2 * 99.0
    assert grouped_s(1, 1, 8, 1.0, 2.0) == 3.0


def test_a_task_that_only_reads_or_only_computes_gains_nothing() -> None:
    for io_s, cpu_s in ((1.0, 0.0), (0.0, 1.0)):
        assert grouped_s(16, 1, 4, io_s, cpu_s) == stock_s(16, 1, 4, io_s, cpu_s)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1, 1.0, 1.0, 1.0), "num_tasks 0, num_executors 1 and cores 1.0 must be positive,"),
        ((1, 0, 1.0, 1.0, 1.0), "num_tasks 1, num_executors 0 and cores 1.0 must be positive,"),
        ((1, 1, 0.0, 1.0, 1.0), "num_tasks 1, num_executors 1 and cores 0.0 must be positive,"),
        ((1, 1, 1.0, -1.0, 1.0), " io_s -1.0 and cpu_s 1.0 not negative"),
        ((1, 1, 1.0, 1.0, -2.0), " io_s 1.0 and cpu_s -2.0 not negative"),
    ],
)
def test_impossible_stages_are_refused(
    arguments: tuple[int, int, float, float, float], message: str
) -> None:
    for function in (stock_s, grouped_s):
        with pytest.raises(InputError) as caught:
            function(*arguments)
        assert message in str(caught.value)
