"""Family 5 of the specification, line by line."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagopt.cost.step_time import StepTime
from dagopt.model.training import JobView, Plan, check_plan, num_held
from dagopt.policy.regrouping.metric import (
    Spread,
    accelerator_seconds,
    queue,
    selected,
    speed_lost,
    spread_of,
)
from dagopt.policy.regrouping.plans import moves_of, plans_for
from dagopt.policy.regrouping.regroup import Regrouping, best_plan, regroup, regrouping_plans
from tests.cluster_cases import cluster, view

# Packed jobs run 1.25 times as fast as those spread over two hosts.
QUARTER = StepTime(compute_s=0.4, example_s=0.0, remote_s=0.1)
EXAMPLE: Plan = {"a": ((0, 2), (1, 2)), "b": ((0, 2), (1, 2))}
TWO = replace(cluster(4, 4), restart_s=5.0)


def lasting(job_id: str, seconds: float, boundary_s: float = 0.0) -> JobView:
    """A job that has so long to go where the example has it."""
    one = view(job_id, EXAMPLE[job_id], remaining=1.0, truth=QUARTER, boundary_s=boundary_s)
    rate_s = spread_of(one, EXAMPLE[job_id], TWO).remaining_s
    return replace(one, remaining=seconds / rate_s)


def example(a_s: float, b_s: float) -> dict[str, JobView]:
    return {"a": lasting("a", a_s, 3.0), "b": lasting("b", b_s, 10.0)}


def spread(job_id: str = "j", n: int = 4, hosts: int = 2, remaining_s: float = 100.0) -> Spread:
    return Spread(
        job_id=job_id, num_accelerators=n, num_hosts=hosts, fewest_hosts=1, remaining_s=remaining_s
    )


def test_the_metric_depends_on_number_hosts_and_time() -> None:
    here = accelerator_seconds(spread())
    assert accelerator_seconds(spread(n=8)) > here
    assert accelerator_seconds(spread(hosts=3)) > here
    assert accelerator_seconds(spread(remaining_s=200.0)) > here
    assert accelerator_seconds(spread(n=0)) == 0.0


def test_the_queue_is_ascending_and_keeps_the_order_of_equals() -> None:
    jobs = [
        spread("long", remaining_s=9.0),
        spread("x"),
        spread("y"),
        spread("short", remaining_s=1.0),
    ]
    assert [each.job_id for each in queue(jobs)] == ["short", "long", "x", "y"]
    assert [each.job_id for each in queue(jobs, lambda each: -each.remaining_s)][-1] == "short"


def test_the_largest_are_selected_first_down_to_the_threshold() -> None:
    views = example(1000.0, 100.0)
    ordered = queue([spread_of(views[j], EXAMPLE[j], TWO) for j in ("a", "b")])
    assert [round(accelerator_seconds(each)) for each in ordered] == [800, 8000]
    assert [each.job_id for each in selected(ordered, threshold=0.0)] == ["a", "b"]
    assert [each.job_id for each in selected(ordered, threshold=1000.0)] == ["a"]
    packed = [replace(each, num_hosts=1) for each in ordered]
    assert selected(packed, threshold=0.0) == []


def test_the_worked_example_swaps_and_its_costs_are_there_to_see() -> None:
    settings = Regrouping(threshold=1000.0)
    best = best_plan(example(1000.0, 100.0), TWO, EXAMPLE, 0.0, settings)
    assert best is not None
    assert sorted(best.target.values()) == [((0, 4),), ((1, 4),)]
    costs = {move.job_id: (move.adjustment_s, move.wait_s) for move in best.moves}
    assert costs == {"a": (5.0, 7.0), "b": (5.0, 0.0)}
    assert best.cost_s == pytest.approx(17.0)
    assert best.benefit_s == pytest.approx(220.0)
    assert best.switch_s == 10.0
    assert (
        regroup(list(example(1000.0, 100.0).values()), TWO, EXAMPLE, 0.0, settings) == best.target
    )


def test_nothing_is_moved_where_it_costs_more_than_it_gains() -> None:
    jobs = example(20.0, 20.0)
    ordered = queue([spread_of(jobs[j], EXAMPLE[j], TWO) for j in ("a", "b")])
    chosen = selected(ordered, threshold=0.0)
    assert len(chosen) == 2
    found = regrouping_plans(jobs, TWO, EXAMPLE, 0.0, ordered, chosen)
    assert max(each.benefit_s for each in found) == pytest.approx(8.0)
    assert best_plan(jobs, TWO, EXAMPLE, 0.0, Regrouping()) is None
    assert regroup(list(jobs.values()), TWO, EXAMPLE, 0.0, Regrouping()) == EXAMPLE


def test_the_speed_lost_by_spread_jobs_counts_their_accelerators() -> None:
    views = example(1000.0, 100.0)
    assert speed_lost(views, EXAMPLE, TWO) == pytest.approx(0.2)
    assert speed_lost(views, {"a": EXAMPLE["a"], "b": ((0, 2),)}, TWO) == pytest.approx(0.2 * 4 / 6)
    assert speed_lost(views, {"a": ((0, 4),), "b": ((1, 4),)}, TWO) == 0.0
    assert speed_lost(views, {}, TWO) == 0.0


@pytest.mark.parametrize(("least", "moves"), [(0.19, True), (0.21, False)])
def test_nobody_is_moved_where_the_cluster_loses_little(least: float, moves: bool) -> None:  # noqa: FBT001
    jobs = list(example(1000.0, 1000.0).values())
    after = regroup(jobs, TWO, EXAMPLE, 0.0, Regrouping(least_loss=least))
    assert (after != EXAMPLE) == moves


def test_several_plans_are_made_and_the_one_with_most_left_over_is_taken() -> None:
    plan: Plan = {"a": ((0, 1), (1, 1)), "b": ((2, 2),), "c": ((0, 2),)}
    views = {
        "a": view("a", plan["a"], remaining=5000.0, truth=QUARTER),
        "b": view("b", plan["b"], remaining=10.0, truth=QUARTER, boundary_s=400.0),
        "c": view("c", plan["c"], remaining=10.0, truth=QUARTER),
    }
    three = cluster(4, 4, 4)
    ordered = queue([spread_of(views[j], plan[j], three) for j in sorted(plan)])
    found = regrouping_plans(views, three, plan, 0.0, ordered, selected(ordered, threshold=0.0))
    assert len({tuple(sorted(each.target.items())) for each in found}) > 1
    best = best_plan(views, three, plan, 0.0, Regrouping())
    assert best is not None
    assert best.net_s == max(each.net_s for each in found)
    assert [move.job_id for move in best.moves] == ["a"]


def test_jobs_that_start_anyway_are_moved_for_nothing() -> None:
    plan: Plan = {"a": ((0, 2), (1, 2)), "b": ((0, 2), (1, 2))}
    target: Plan = {"a": ((0, 4),), "b": ((1, 4),)}
    boundaries = {"a": 3.0, "b": 10.0}
    moves = moves_of(plan, target, boundary_s=boundaries, adjustment_s=5.0, running=frozenset("a"))
    assert [(move.job_id, move.cost_s) for move in moves] == [("a", 5.0), ("b", 0.0)]


@st.composite
def crowded(draw: st.DrawFn) -> tuple[Plan, tuple[int, ...], list[JobView]]:
    """Jobs put anywhere on some hosts, each with a long or a short time to go."""
    capacity = tuple(draw(st.lists(st.integers(1, 4), min_size=2, max_size=4)))
    slots = draw(st.permutations([h for h, n in enumerate(capacity) for _ in range(n)]))
    plan: Plan = {}
    views = []
    at = 0
    for name in "abcdef":
        size = draw(st.integers(1, 4))
        taken, at = slots[at : at + size], at + size
        if not taken:
            break
        plan[name] = tuple((host, taken.count(host)) for host in sorted(set(taken)))
        views.append(
            view(
                name, plan[name], remaining=draw(st.floats(1.0, 1e5)), truth=QUARTER,
                boundary_s=draw(st.floats(0.0, 5.0)),
            )
        )  # fmt: skip
    return plan, capacity, views


@given(crowded())
def test_every_plan_keeps_all_counts_and_fits(
    case: tuple[Plan, tuple[int, ...], list[JobView]],
) -> None:
    plan, capacity, views = case
    there = cluster(*capacity)
    rank = {view.job.job_id: at for at, view in enumerate(views)}
    for job_id in plan:
        for target in plans_for(job_id, plan, rank, capacity):
            check_plan(target, views, there)
            assert {j: num_held(p) for j, p in target.items()} == {
                j: num_held(p) for j, p in plan.items()
            }
            # Whoever has more to gain is never in anybody's way.
            assert all(target[j] == plan[j] for j in plan if rank[j] > rank[job_id])


@given(crowded())
def test_rounds_lower_the_spread_and_stop(
    case: tuple[Plan, tuple[int, ...], list[JobView]],
) -> None:
    plan, capacity, views = case
    there = cluster(*capacity)
    after = regroup(views, there, plan, 5.0, Regrouping(most_rounds=50))
    check_plan(after, views, there)
    moved = [replace(each, held=after[each.job.job_id]) for each in views]
    assert regroup(moved, there, after, 5.0, Regrouping(most_rounds=50)) == after
    weight = {each.job.job_id: each.remaining for each in views}
    lost = {j: (len(plan[j]) > 1) * weight[j] for j in plan}
    lost_after = {j: (len(after[j]) > 1) * weight[j] for j in plan}
    assert sum(lost_after.values()) <= sum(lost.values()) + 1e-9
