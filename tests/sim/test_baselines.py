"""What the papers of the schedulers that dagopt is compared with say of them."""

from __future__ import annotations

from dataclasses import replace

from dagopt.model.training import JobView, num_held
from dagopt.sim.cluster.baselines.fifo import Fifo
from dagopt.sim.cluster.baselines.optimus import Optimus
from dagopt.sim.cluster.baselines.pollux import Pollux
from dagopt.sim.cluster.baselines.shortest_remaining import ShortestRemaining
from dagopt.sim.cluster.baselines.sia import Sia, configurations
from dagopt.sim.cluster.baselines.tiresias import THRESHOLD_S, Tiresias
from tests.cluster_cases import cluster, job, view


class Known:
    """An oracle of jobs that halve their step on twice as many accelerators."""

    def __init__(self, **remaining: float) -> None:
        self._remaining = remaining

    def step_s(self, job_id: str, num_replicas: int) -> float:  # noqa: ARG002
        return 1.0 / num_replicas

    def remaining_steps(self, job_id: str) -> float:
        return self._remaining[job_id]


def asking(job_id: str, asked: int, arrival_s: float = 0.0, attained_s: float = 0.0) -> JobView:
    base = view(job_id)
    return replace(base, job=job(job_id, asked=asked, arrival_s=arrival_s), attained_s=attained_s)


def test_fifo_lets_nobody_overtake() -> None:
    jobs = [asking("a", 3), asking("b", 2, 1.0), asking("c", 1, 2.0)]
    assert set(Fifo().plan(jobs, cluster(4), 0.0)) == {"a"}


def test_the_shortest_runs_first_and_others_fill_up() -> None:
    jobs = [asking("long", 3), asking("short", 2), asking("fits", 2)]
    oracle = Known(long=1e6, short=10.0, fits=1e7)
    assert set(ShortestRemaining(oracle).plan(jobs, cluster(4), 0.0)) == {"short", "fits"}


def test_tiresias_demotes_jobs_by_their_service() -> None:
    old = replace(asking("old", 4, 0.0, THRESHOLD_S), held=((0, 4),))
    new = asking("new", 4, 5.0)
    assert set(Tiresias().plan([old, new], cluster(4), 0.0)) == {"new"}
    young = replace(old, attained_s=THRESHOLD_S - 1)
    assert Tiresias().plan([young, new], cluster(4), 0.0) == {"old": ((0, 4),)}


def test_optimus_gives_where_the_rest_shrinks_most() -> None:
    jobs = [asking("long", 1), asking("short", 1)]
    plan = Optimus(Known(long=100.0, short=10.0)).plan(jobs, cluster(4, 4), 0.0)
    # The gain of the k-th accelerator is remaining / (k (k-1)).
    assert {name: num_held(where) for name, where in plan.items()} == {"long": 6, "short": 2}


def test_sia_has_powers_of_two_and_whole_hosts() -> None:
    assert configurations(cluster(4, 4, 4)) == [1, 2, 4, 8, 12]
    assert configurations(cluster(8, 8)) == [1, 2, 4, 8, 16]


def test_sia_and_pollux_share_among_equals_and_never_grow_more_than_twice() -> None:
    jobs = [view(name, remaining=1e5, most_replicas=1) for name in ("a", "b", "c", "d")]
    for policy in (Sia(), Pollux(population=40, generations=40)):
        plan = policy.plan(jobs, cluster(4, 4), 0.0)
        assert set(plan) == {"a", "b", "c", "d"}
        assert max(map(num_held, plan.values())) <= 2


def test_sia_keeps_partial_hosts_whole() -> None:
    jobs = [view(f"j{at}", remaining=1e5, most_replicas=4) for at in range(3)]
    plan = Sia().plan(jobs, cluster(4, 4, 4), 0.0)
    assert all(len(where) == 1 for where in plan.values() if num_held(where) <= 4)
