"""The simulator of clusters: what must hold under every policy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagopt.errors import InfeasibleError, InputError
from dagopt.model.training import ClusterView, JobView, Plan, TrainingJob
from dagopt.sim.cluster.baselines.pollux import Pollux
from dagopt.sim.cluster.outcome import alone_on_s, outcome_of
from dagopt.sim.cluster.policies import POLICIES
from dagopt.sim.cluster.policy import Oracle, Policy
from dagopt.sim.cluster.simulate import ClusterSpec, Failure, Run, simulate
from tests.cluster_cases import application, job

APPS = {
    "net": application(),
    "big": application("big", epochs=8),
    "long": application("long", epochs=40),
}
SPEC = ClusterSpec(hosts=(4, 4), restart_s=30.0, interval_s=60.0)


def small_pollux(_: Oracle) -> Policy:
    """A search that takes milliseconds."""
    return Pollux(population=10, generations=5)


MAKERS = {**POLICIES, "pollux": small_pollux}


@dataclass
class Scripted:
    """Gives what a list says, plan after plan, and the last one for ever."""

    plans: list[Plan]
    name: str = "scripted"
    tunes_batch: bool = False
    seen: list[list[JobView]] = field(default_factory=list)
    capacities: list[tuple[int, ...]] = field(default_factory=list)

    def plan(self, jobs: Sequence[JobView], cluster: ClusterView, now_s: float) -> Plan:  # noqa: ARG002
        self.seen.append(list(jobs))
        self.capacities.append(cluster.capacity)
        plan = self.plans[min(len(self.seen), len(self.plans)) - 1]
        there = {each.job.job_id for each in jobs}
        return {job_id: where for job_id, where in plan.items() if job_id in there}


def run_scripted(
    jobs: list[TrainingJob], *plans: Plan, spec: ClusterSpec = SPEC
) -> tuple[Run, Scripted]:
    policy = Scripted(list(plans))
    return simulate(jobs, APPS, lambda _: policy, spec), policy


def check_stays(run: Run, spec: ClusterSpec) -> None:
    """No accelerator is in two jobs, and all are of the cluster."""
    by_place = defaultdict(list)
    for stay in run.stays:
        assert 0 <= stay.place < spec.hosts[stay.host]
        assert stay.start_s < stay.end_s
        by_place[stay.host, stay.place].append((stay.start_s, stay.end_s))
    for spans in by_place.values():
        spans.sort()
        assert all(a[1] <= b[0] + 1e-9 for a, b in pairwise(spans))


def test_one_job_takes_its_restart_and_its_steps() -> None:
    run, _ = run_scripted([job("a", asked=2)], {"a": ((0, 2),)})
    expected_s = 60.0 + 30.0 + alone_fixed_s(2)
    assert run.ended_s["a"] == pytest.approx(expected_s)
    assert run.num_moves == 0


def alone_fixed_s(number: int) -> float:
    """Seconds of the whole job at the batch asked for, without restarts."""
    fixed = TrainingJob(
        job_id="x", arrival_s=0.0, application="net", batches=APPS["net"].batches, max_replicas=16,
        asked_replicas=number, asked_batch=128, is_batch_fixed=True,
    )  # fmt: skip
    return alone_on_s(fixed, APPS["net"], number, 4)


def test_a_move_loses_a_restart_and_nothing_else() -> None:
    here: Plan = {"a": ((0, 2),)}
    still, _ = run_scripted([job("a")], here)
    moved, policy = run_scripted([job("a")], here, here, {"a": ((1, 2),)})
    late_s = moved.ended_s["a"] - still.ended_s["a"]
    assert moved.num_moves == 1
    assert late_s == pytest.approx(30.0, abs=0.5)
    # It went on from where it was: its progress never fell.
    progress = [views[0].progress for views in policy.seen]
    assert progress == sorted(progress)
    check_stays(moved, SPEC)


def test_a_job_waits_for_the_boundary_of_whoever_leaves() -> None:
    first: Plan = {"a": ((0, 4),)}
    second: Plan = {"a": ((1, 4),), "b": ((0, 4),)}
    run, policy = run_scripted(
        [job("a", asked=4, name="long"), job("b", asked=4)], first, first, second
    )
    check_stays(run, SPEC)
    boundary_s = next(each for each in policy.seen[2] if each.job.job_id == "a").next_boundary_s
    begun = [stay.start_s for stay in run.stays if stay.job_id == "b"]
    assert min(begun) == pytest.approx(boundary_s)
    assert boundary_s >= 180.0


def test_a_failed_host_costs_its_jobs_a_step_and_gives_nothing_until_it_is_back() -> None:
    spec = ClusterSpec(hosts=(4, 4), failures=(Failure(host=0, at_s=200.0, for_s=300.0),))
    here: Plan = {"a": ((0, 2),)}
    plans: list[Plan] = [here, here, here, {"a": ((1, 2),)}]
    run, policy = run_scripted([job("a", name="long")], *plans, spec=spec)
    without, _ = run_scripted([job("a", name="long")], {"a": ((0, 2),)})
    assert policy.capacities[2] == (4, 4)
    assert policy.capacities[3] == (0, 4)
    assert policy.capacities[8] == (4, 4)
    assert policy.seen[3][0].held == ()
    assert run.ended_s["a"] > without.ended_s["a"] + 30.0
    assert not [s for s in run.stays if s.host == 0 and s.end_s > 200.0]
    with pytest.raises(InputError, match="the plan gives 2 accelerators of host 0, which has 0"):
        run_scripted([job("a", name="long")], {"a": ((0, 2),)}, spec=spec)


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ([job("a", asked=9)], "job a asks for 9 accelerators, the cluster has 8"),
        ([job("a"), job("a")], "job a is there twice"),
        ([job("a", name="gone")], "job a: no measurements of gone; there are big, long, net"),
    ],
)
def test_impossible_workloads_are_one_error(jobs: list[TrainingJob], message: str) -> None:
    with pytest.raises(InputError) as found:
        simulate(jobs, APPS, POLICIES["fifo"], SPEC)
    assert str(found.value) == message


def test_a_policy_that_gives_nothing_for_ever_is_told_so() -> None:
    with pytest.raises(InfeasibleError, match="scripted: 1 jobs wait and none runs"):
        run_scripted([job("a")], {})


@pytest.mark.parametrize("plan", [{"a": ((0, 5),)}, {"a": ((7, 1),)}, {"z": ((0, 1),)}])
def test_impossible_plans_are_refused(plan: Plan) -> None:
    class Wrong(Scripted):
        def plan(self, jobs: Sequence[JobView], cluster: ClusterView, now_s: float) -> Plan:  # noqa: ARG002
            return self.plans[0]

    with pytest.raises(InputError, match="the plan"):
        simulate([job("a")], APPS, lambda _: Wrong([plan]), SPEC)


@st.composite
def workloads(draw: st.DrawFn) -> list[TrainingJob]:
    num = draw(st.integers(1, 6))
    return [
        job(
            f"j{at}",
            arrival_s=draw(st.floats(0.0, 2000.0)),
            asked=draw(st.integers(1, 8)),
            name=draw(st.sampled_from(["net", "big"])),
        )
        for at in range(num)
    ]


@pytest.mark.parametrize("name", sorted(MAKERS))
@settings(max_examples=4)
@given(jobs=workloads())
def test_every_policy_ends_all_jobs_and_shares_no_accelerator(
    name: str, jobs: list[TrainingJob]
) -> None:
    run = simulate(jobs, APPS, MAKERS[name], SPEC)
    assert set(run.ended_s) == {each.job_id for each in jobs}
    assert all(run.ended_s[each.job_id] > each.arrival_s + 30.0 for each in jobs)
    check_stays(run, SPEC)
    outcome = outcome_of(run, jobs, APPS, SPEC)
    assert 0 < outcome.utilisation <= 1
    assert outcome.avg_jct_s <= outcome.makespan_s
    again = simulate(jobs, APPS, MAKERS[name], SPEC)
    assert again.ended_s == run.ended_s


@pytest.mark.parametrize("name", ["dagopt", "sia", "optimus", "tiresias"])
def test_every_policy_survives_a_lost_host(name: str) -> None:
    jobs = [job(f"j{at}", arrival_s=50.0 * at, asked=1 + at % 4) for at in range(6)]
    failures = (Failure(host=0, at_s=250.0, for_s=400.0), Failure(host=1, at_s=900.0, for_s=60.0))
    spec = ClusterSpec(hosts=(4, 4), failures=failures)
    run = simulate(jobs, APPS, MAKERS[name], spec)
    assert len(run.ended_s) == len(jobs)
    check_stays(run, spec)
    assert not [s for s in run.stays if s.host == 0 and s.start_s < 650.0 and s.end_s > 250.0]
