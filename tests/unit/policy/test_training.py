"""dagopt's plan for all jobs: what must hold for any jobs, cluster and time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagopt.model.training import ClusterView, JobView, check_plan, num_held, placement_of
from dagopt.policy.allocation.objective import Objective
from dagopt.policy.training import Scheduler
from tests.cluster_cases import SCALES, cluster, view

OBJECTIVES: tuple[Objective, ...] = ("jct", "throughput", "fairness")


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[JobView], ClusterView]:
    capacity = tuple(draw(st.lists(st.sampled_from([0, 2, 4]), min_size=1, max_size=4)))
    free = list(capacity)
    views = []
    for at in range(draw(st.integers(0, 6))):
        counts = {h: draw(st.integers(0, min(2, n))) for h, n in enumerate(free)}
        for host, number in counts.items():
            free[host] -= number
        measured = draw(st.booleans())
        views.append(
            view(
                f"j{at}", placement_of(counts), truth=SCALES if measured else None,
                remaining=draw(st.floats(0.0, 1e5)), age_s=draw(st.floats(0.0, 1e5)),
                most_replicas=draw(st.integers(1, 16)) if measured else 0,
                arrival_s=float(draw(st.integers(0, 3))),
            )
        )  # fmt: skip
    return views, cluster(*capacity)


@pytest.mark.parametrize("objective", OBJECTIVES)
@given(case=situations())
def test_plans_can_be_carried_out_and_do_not_depend_on_order(
    objective: Objective, case: tuple[list[JobView], ClusterView]
) -> None:
    views, there = case
    policy = Scheduler(objective=objective)
    plan = policy.plan(views, there, 0.0)
    check_plan(plan, views, there)
    assert policy.plan(list(reversed(views)), there, 0.0) == plan
    # Nobody who holds nothing waits beside an idle accelerator.
    given = sum(map(num_held, plan.values()))
    waiting = [each for each in views if not each.held and each.job.job_id not in plan]
    assert given == there.num_accelerators or not waiting


def test_what_a_job_leaves_since_it_is_not_together_goes_to_one_that_waits() -> None:
    views = [
        view("a", ((0, 1),), truth=None, remaining=0.0, most_replicas=1, age_s=0.0),
        view("b", remaining=1.0, most_replicas=1, age_s=0.0),
        view("c", remaining=0.0, most_replicas=2, age_s=0.0),
        view("d", truth=None, remaining=0.0, most_replicas=0, age_s=0.0),
    ]
    plan = Scheduler().plan(views, cluster(4, 2), 0.0)
    assert {job_id: num_held(placement) for job_id, placement in plan.items()} == {
        "a": 1, "b": 1, "c": 3, "d": 1,
    }  # fmt: skip


def test_by_fairness_a_job_that_nothing_is_known_of_comes_to_run() -> None:
    """Whoever holds the accelerators is late, but not by as much as one that never ran."""
    late = [view(f"a{at}", ((at, 1),), remaining=1e6, age_s=1e5, most=1) for at in range(2)]
    new = view("new", truth=None, most_replicas=0, age_s=4000.0, arrival_s=1e5)
    assert "new" in Scheduler(objective="fairness").plan([*late, new], cluster(1, 1), 0.0)


def test_a_single_job_gets_what_it_can_use() -> None:
    plan = Scheduler().plan([view("a", ((0, 2),), most_replicas=2, remaining=1e5)], cluster(4), 0.0)
    assert num_held(plan["a"]) == 4


def test_a_job_is_not_grown_for_less_than_its_restart() -> None:
    done_soon = view("a", ((0, 2),), remaining=20.0)
    assert Scheduler().plan([done_soon], cluster(4), 0.0) == {"a": ((0, 2),)}


@pytest.mark.parametrize(("num_restarts", "number"), [(1, 4), (60, 3)])
def test_whoever_was_moved_every_other_minute_is_not_moved_for_a_little(
    num_restarts: int, number: int
) -> None:
    views = [replace(view("a", ((0, 3),), remaining=1e6, age_s=6000.0), num_restarts=num_restarts)]
    plan = Scheduler().plan(views, cluster(4), 0.0)
    assert num_held(plan["a"]) == number


def test_short_jobs_come_first_for_jct_and_not_for_throughput() -> None:
    jobs = [view("long", remaining=1e6), view("short", remaining=1e3)]
    plan = Scheduler(objective="jct").plan(jobs, cluster(4), 0.0)
    assert num_held(plan["short"]) > num_held(plan.get("long", ()))
    equal = Scheduler(objective="throughput").plan(jobs, cluster(4), 0.0)
    assert num_held(equal["short"]) == num_held(equal["long"])


def test_constant_load_is_planned_once() -> None:
    views = [view(f"j{at}", remaining=1e5 * (at + 1)) for at in range(3)]
    there = cluster(4, 4)
    policy = Scheduler()
    plan = policy.plan(views, there, 0.0)
    for _ in range(5):
        views = [replace(each, held=plan.get(each.job.job_id, ())) for each in views]
        assert policy.plan(views, there, 60.0) == plan


def test_a_lost_host_is_planned_around() -> None:
    views = [view("a", ((0, 4),)), view("b", ((1, 4),))]
    there = replace(cluster(4, 4), capacity=(0, 4))
    plan = Scheduler().plan(views, there, 0.0)
    check_plan(plan, views, there)
    assert plan
