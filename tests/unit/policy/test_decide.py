"""What is done with a task set, and the reason that an operator reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dagopt.errors import InputError
from dagopt.policy.grouping.decide import (
    GroupingDecision,
    GroupingSettings,
    StageOutlook,
    decide,
)

OUTLOOK = StageOutlook(
    num_tasks=16,
    num_executors=1,
    cores=8,
    io_s=1.0,
    cpu_s=2.0,
    reads_blocks=False,
    num_sources=1,
    memory_bound_from=None,
    can_raise=True,
)


def decided(**changes: object) -> GroupingDecision:
    return decide(replace(OUTLOOK, **changes), GroupingSettings())  # type: ignore[arg-type]


def test_reading_and_computing_that_can_overlap_are_grouped() -> None:
    decision = decided()
    assert decision.action == "group"
    assert (decision.stock_s, decision.grouped_s) == (20.0, 17.0)
    assert decision.reason == (
        "I/O-bound: I/O 1.00 s and CPU 2.00 s a task; 16 tasks on 1 executors x 8 cores:"
        " 20.0 s as Spark runs it, 17.0 s in groups; 2 tasks per core"
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"num_executors": 0}, "no executor is known yet"),
        ({"num_tasks": 15}, "its 15 tasks are not 2 waves on 8 cores"),
        ({"num_tasks": 15, "num_sources": 3}, "its 15 tasks are not 2 waves on 8 cores"),
        (
            {"reads_blocks": True, "cpu_s": None},
            "reads blocks: how long is only known once it has run",
        ),
        ({"can_pin": False}, "reads blocks of single executors, which Spark places"),
        ({"cpu_s": None, "io_s": 0.05}, "reads 0.050 s a task, too short for delays"),
        (
            {"cpu_s": 99.0},
            (
                "CPU-bound: I/O 1.00 s of 100.00 s a task; 16 tasks on 1 executors x 8 cores:"
                " 214.0 s as Spark runs it, 198.0 s in groups"
            ),
        ),
        (
            {"can_raise": False},
            (
                "more tasks at once are not possible here; 16 tasks on 1 executors x 8 cores:"
                " 20.0 s as Spark runs it, 17.0 s in groups"
            ),
        ),
        (
            {"memory_bound_from": 1},
            (
                "memory-bound: it spilled at 1 tasks per core; 16 tasks on 1 executors x 8 cores:"
                " 20.0 s as Spark runs it, 17.0 s in groups"
            ),
        ),
        (
            {"cpu_s": 0.0},
            (
                "nothing to gain; 16 tasks on 1 executors x 8 cores:"
                " 16.0 s as Spark runs it, 16.0 s in groups"
            ),
        ),
    ],
)
def test_a_task_set_is_passed_with_its_reason(changes: dict[str, object], reason: str) -> None:
    decision = decided(**changes)
    assert (decision.action, decision.reason) == ("pass", reason)
    assert decision.concurrency.tasks_per_core == 1
    assert decision.concurrency.per_executor == 8


@pytest.mark.parametrize("why", [{"cpu_s": 99.0}, {"memory_bound_from": 1}])
def test_what_computes_or_is_short_of_memory_is_left_alone(why: dict[str, object]) -> None:
    decision = decided(num_sources=3, **why)
    assert (decision.action, decision.concurrency.tasks_per_core) == ("pass", 1)


def test_what_is_not_grouped_is_ordered_where_source_hosts_can_take_turns() -> None:
    decision = decided(reads_blocks=True, cpu_s=None, num_sources=3)
    assert decision.action == "order"
    assert decision.reason == (
        "reads blocks: how long is only known once it has run; tasks of 3 source hosts take turns"
    )


@pytest.mark.parametrize("cores", [0.5, 1.0, 7.9, 8.0])
def test_what_need_not_be_held_is_what_is_passed_whatever_it_reads(cores: float) -> None:
    least = GroupingSettings().hold_from(cores)
    for num_sources, cpu_s in [(1, None), (3, None), (1, 0.1), (3, 0.1)]:
        below = decided(num_tasks=least - 1, cores=cores, num_sources=num_sources, cpu_s=cpu_s)
        assert (below.action, below.concurrency.tasks_per_core) == ("pass", 1)
    assert decided(num_tasks=least, cores=cores, num_sources=3).action != "pass"


def test_short_reads_are_not_delayed_but_share_cores() -> None:
    decision = decided(io_s=0.05, cpu_s=0.1)
    assert decision.action == "pass"
    assert decision.concurrency.tasks_per_core == 2
    assert decision.reason.startswith("reads 0.050 s a task, too short for delays; I/O-bound: ")
    assert decision.stock_s is not None


def test_a_stage_not_seen_before_is_grouped_without_a_prediction() -> None:
    decision = decided(cpu_s=None)
    assert (decision.action, decision.stock_s, decision.grouped_s) == ("group", None, None)
    assert decision.reason == (
        "I/O-bound: CPU time not yet known; I/O 1.00 s a task; 16 tasks on 1 executors x 8 cores"
    )


@pytest.mark.parametrize(("most", "delay_s"), [(0, 10.0), (4, -1.0)])
def test_impossible_settings_are_refused(most: int, delay_s: float) -> None:
    with pytest.raises(InputError) as caught:
        GroupingSettings(max_tasks_per_core=most, max_delay_s=delay_s)
    assert str(caught.value) == (
        f"max_tasks_per_core {most} must be >= 1, max_delay_s {delay_s} must be >= 0"
    )
