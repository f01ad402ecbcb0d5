"""Bounds and monotony of the choices for one stage, whatever is known of it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dagopt.cost.stage_time import grouped_s, stock_s
from dagopt.policy.grouping.concurrency import ConcurrencyChoice, choose_concurrency
from dagopt.policy.grouping.decide import GroupingSettings, StageOutlook, decide
from dagopt.policy.grouping.group_size import saturating_group_size
from tests.property.strategies import times_s

core_counts = st.one_of(st.integers(1, 64).map(float), st.floats(0.25, 64))
small_s = st.one_of(times_s, st.sampled_from((5e-324, 1e-300, 1e-9)))

outlooks = st.builds(
    StageOutlook,
    num_tasks=st.integers(1, 100_000),
    num_executors=st.integers(0, 200),
    cores=core_counts,
    io_s=small_s,
    cpu_s=st.none() | small_s,
    reads_blocks=st.booleans(),
    num_sources=st.integers(0, 20),
    memory_bound_from=st.none() | st.integers(1, 16),
    can_raise=st.booleans(),
    can_pin=st.booleans(),
)
settings_ = st.builds(
    GroupingSettings,
    max_tasks_per_core=st.integers(1, 16),
    min_delay_s=st.floats(0, 10),
    max_delay_s=st.floats(0.001, 100),
)


def choice(io_s: float, cpu_s: float | None, cores: float, most: int) -> ConcurrencyChoice:
    return choose_concurrency(io_s=io_s, cpu_s=cpu_s, cores=cores, max_tasks_per_core=most)


@given(small_s, st.none() | small_s, core_counts, st.integers(1, 16))
def test_concurrency_stays_between_one_and_its_bound(
    io_s: float, cpu_s: float | None, cores: float, most: int
) -> None:
    found = choice(io_s, cpu_s, cores, most)
    assert 1 <= found.tasks_per_core <= most
    assert 1 <= found.per_executor <= max(1.0, found.tasks_per_core * cores)


@given(small_s, small_s, small_s, core_counts, st.integers(1, 16))
def test_more_io_never_lowers_concurrency(
    io_s: float, more_s: float, cpu_s: float, cores: float, most: int
) -> None:
    low, high = choice(io_s, cpu_s, cores, most), choice(io_s + more_s, cpu_s, cores, most)
    assert high.tasks_per_core >= low.tasks_per_core
    assert high.per_executor >= low.per_executor


@given(st.floats(1e-3, 1e6), st.floats(0, 0.099), core_counts, st.integers(1, 16))
def test_a_stage_that_computes_is_left_at_one(
    cpu_s: float, io_fraction: float, cores: float, most: int
) -> None:
    # The tasks of all cores share the link.
    io_s = cpu_s * io_fraction / (1 - io_fraction) / max(1, int(cores))
    assert choice(io_s, cpu_s, cores, most).tasks_per_core == 1


@given(st.dictionaries(st.integers(1, 64), st.floats(0, 1e10)), core_counts, st.integers(1, 100))
def test_a_group_has_between_one_task_and_its_limit(
    rates: dict[int, float], cores: float, limit: int
) -> None:
    size = saturating_group_size(rates, cores=cores, limit=limit)
    assert 1 <= size <= limit
    assert size <= 2 * max([1.0, cores, *rates])


@given(outlooks, settings_)
def test_there_is_a_decision_with_a_reason_for_every_outlook(
    outlook: StageOutlook, settings: GroupingSettings
) -> None:
    decision = decide(outlook, settings)
    assert decision.reason
    assert 1 <= decision.concurrency.tasks_per_core <= settings.max_tasks_per_core
    if not outlook.can_raise:
        assert decision.concurrency.tasks_per_core == 1


@given(outlooks, settings_)
def test_nothing_is_grouped_without_a_gain_or_on_unknown_ground(
    outlook: StageOutlook, settings: GroupingSettings
) -> None:
    decision = decide(outlook, settings)
    if decision.action != "group":
        return
    assert outlook.num_executors > 0
    assert outlook.num_tasks > outlook.num_executors * outlook.cores
    assert outlook.can_pin
    assert outlook.io_s >= settings.min_delay_s
    if outlook.num_sources < 2 and decision.stock_s is not None:
        assert decision.grouped_s is not None
        assert decision.grouped_s <= (1 - settings.min_gain_fraction) * decision.stock_s


@given(outlooks, settings_)
def test_a_stage_that_only_reads_or_only_computes_from_one_source_is_passed(
    outlook: StageOutlook, settings: GroupingSettings
) -> None:
    one = replace(outlook, num_sources=1)
    assert decide(replace(one, cpu_s=0.0), settings).action == "pass"
    assert decide(replace(one, io_s=0.0, cpu_s=1.0), settings).action == "pass"


@given(st.integers(1, 1000), st.integers(1, 50), st.integers(1, 64), times_s, times_s)
def test_groups_are_predicted_no_slower_than_spark_and_no_faster_than_either_resource(
    num_tasks: int, num_executors: int, cores: int, io_s: float, cpu_s: float
) -> None:
    found_s = grouped_s(num_tasks, num_executors, cores, io_s, cpu_s)
    per_executor = num_tasks / num_executors
    assert found_s <= stock_s(num_tasks, num_executors, cores, io_s, cpu_s) * (1 + 1e-9)
    assert found_s >= max(per_executor * io_s, per_executor * cpu_s / cores, io_s + cpu_s) * (
        1 - 1e-9
    )


@given(st.integers(1, 500), st.integers(1, 20), st.integers(1, 16), times_s, times_s)
def test_more_tasks_never_take_spark_less_time(
    num_tasks: int, num_executors: int, cores: int, io_s: float, cpu_s: float
) -> None:
    less_s = stock_s(num_tasks, num_executors, cores, io_s, cpu_s)
    assert stock_s(num_tasks + 1, num_executors, cores, io_s, cpu_s) >= less_s * (1 - 1e-9)
