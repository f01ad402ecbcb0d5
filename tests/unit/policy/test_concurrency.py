"""How many tasks share a core, and why, in words."""

from __future__ import annotations

import pytest

from dagopt.errors import InputError
from dagopt.policy.grouping.concurrency import ConcurrencyChoice, choose_concurrency


def choice(
    io_s: float,
    cpu_s: float | None,
    *,
    cores: float = 4,
    most: int = 4,
    memory_bound_from: int | None = None,
) -> ConcurrencyChoice:
    return choose_concurrency(
        io_s=io_s,
        cpu_s=cpu_s,
        cores=cores,
        max_tasks_per_core=most,
        memory_bound_from=memory_bound_from,
    )


def test_equal_io_and_cpu_take_two_tasks_a_core_and_one_more() -> None:
    assert choice(1.0, 1.0, cores=4) == ConcurrencyChoice(
        tasks_per_core=3, per_executor=9, reason="I/O-bound: I/O 1.00 s and CPU 1.00 s a task"
    )


def test_the_bound_holds_for_core_and_executor() -> None:
    assert choice(10.0, 1.0, cores=4, most=2).per_executor == 8
    assert choice(10.0, 1.0, cores=4, most=2).tasks_per_core == 2


def test_a_stage_that_computes_keeps_one_task_a_core() -> None:
    assert choice(0.1, 9.9) == ConcurrencyChoice(
        tasks_per_core=1,
        per_executor=4,
        reason="CPU-bound: I/O 0.10 s of 10.00 s a task",
        is_io_bound=False,
    )


def test_a_stage_that_spilled_stays_below_what_spilled() -> None:
    assert choice(10.0, 1.0, memory_bound_from=3).tasks_per_core == 2
    for spilled in (1, 2):
        assert choice(10.0, 1.0, memory_bound_from=spilled) == ConcurrencyChoice(
            tasks_per_core=1,
            per_executor=4,
            reason=f"memory-bound: it spilled at {spilled} tasks per core",
            is_io_bound=False,
        )


def test_where_it_cannot_be_raised_it_is_not() -> None:
    assert choice(10.0, 1.0, most=1).reason == "more tasks at once are not possible here"


def test_unknown_cpu_time_takes_the_bound() -> None:
    assert choice(1.0, None) == ConcurrencyChoice(
        tasks_per_core=4, per_executor=16, reason="I/O-bound: CPU time not yet known"
    )


def test_no_cpu_time_takes_the_bound() -> None:
    assert choice(1.0, 0.0).tasks_per_core == 4
    assert choice(1.0, 0.0).reason == "I/O-bound: I/O 1.00 s and no CPU time a task"


def test_a_fraction_of_a_core_runs_one_task() -> None:
    assert choice(0.0, 1.0, cores=0.5).per_executor == 1


def test_almost_no_cpu_time_is_a_number_too() -> None:
    assert choice(1.0, 5e-324).tasks_per_core == 4


@pytest.mark.parametrize(
    ("io_s", "cpu_s", "cores", "most"),
    [(-1.0, 1.0, 1.0, 1), (1.0, -1.0, 1.0, 1), (1.0, 1.0, 0.0, 1), (1.0, 1.0, 1.0, 0)],
)
def test_impossible_numbers_are_refused(io_s: float, cpu_s: float, cores: float, most: int) -> None:
    with pytest.raises(InputError) as caught:
        choice(io_s, cpu_s, cores=cores, most=most)
    assert str(caught.value) == f"io_s {io_s}, cpu_s {cpu_s}, cores {cores}, max {most}"
