"""Family 4 of the specification, line by line, on individual accelerators."""

from __future__ import annotations

from itertools import chain, combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagopt.cost.accelerator_metrics import AcceleratorMetrics, IterationRecord
from dagopt.errors import InputError
from dagopt.model.topology import Accelerator, Link, Topology, uniform_host
from dagopt.policy.allocation.one_job import JobCost, Members, applied, next_step, settled

LOCAL = Link(bandwidth_bytes_per_s=8e9)


def topology(remote_bytes_per_s: float, sizes: tuple[int, ...] = (5, 2)) -> Topology:
    network = Link(bandwidth_bytes_per_s=remote_bytes_per_s)
    return Topology(
        hosts=tuple(
            uniform_host(name, tuple(map(str, range(size))), local=LOCAL, network=network)
            for name, size in zip("abc", sizes, strict=False)
        )
    )


def on(host: str, *addresses: int) -> Members:
    return frozenset(Accelerator(host, str(each)) for each in addresses)


# The worked example: 400 ms of computing in all, 10 ms to synchronise four on a host, 45 ms or more
# across hosts.
EXAMPLE = JobCost(topology=topology(1.42e9), compute_s=lambda n: 0.4 / n, gradient_bytes=53.3e6)


def test_the_same_number_on_one_host_and_on_two_is_decided_differently() -> None:
    four = on("a", 0, 1, 2, 3)
    assert EXAMPLE.sync_s(four) == pytest.approx(0.010, rel=0.01)
    remote, local = Accelerator("b", "0"), Accelerator("a", "4")
    assert EXAMPLE.gain_s(four, local) == pytest.approx(0.020)
    assert EXAMPLE.cost_s(four, remote) > 0.035
    assert next_step(EXAMPLE, four, [remote]) is None
    step = next_step(EXAMPLE, four, [remote, local])
    assert step is not None
    assert (step.kind, step.new) == ("allocate", local)


def test_a_remote_accelerator_that_costs_more_than_it_gains_is_reclaimed() -> None:
    five = on("a", 0, 1, 2, 3) | on("b", 0)
    step = next_step(EXAMPLE, five, [])
    assert step is not None
    assert (step.kind, step.old) == ("reclaim", Accelerator("b", "0"))
    after = applied(five, step)
    assert EXAMPLE.iteration_s(after) < EXAMPLE.iteration_s(five)
    assert step.old not in after


def test_a_slower_link_raises_the_cost() -> None:
    new = Accelerator("b", "0")
    four = on("a", 0, 1, 2, 3)
    slower = JobCost(topology=topology(0.7e9), compute_s=lambda n: 0.4 / n, gradient_bytes=53.3e6)
    assert slower.cost_s(four, new) > EXAMPLE.cost_s(four, new)


def test_the_transfer_of_the_state_is_spread_over_what_is_left() -> None:
    def cost(remaining: float) -> float:
        job = JobCost(
            topology=topology(1e12),
            compute_s=lambda n: 0.4 / n,
            gradient_bytes=1e6,
            state_bytes=8e9,
            remaining_iterations=remaining,
        )
        return job.cost_s(on("a", 0), Accelerator("a", "1"))

    assert cost(10) - cost(1000) == pytest.approx(1 / 10 - 1 / 1000)


def test_measured_synchronisation_corrects_the_prior() -> None:
    four = on("a", 0, 1, 2, 3)
    metrics = AcceleratorMetrics()
    for iteration in range(3):
        for each in sorted(four):
            record = IterationRecord(
                iteration=iteration,
                compute_s=0.1,
                sync_s=3 * EXAMPLE.prior_sync_s(four),
                transfer_bytes=80_000_000,
                members=four,
            )
            metrics = metrics.recorded(each, record)
    assert {len(records) for records in metrics.records.values()} == {3}
    assert set(metrics.records) == set(four)
    job = JobCost(
        topology=EXAMPLE.topology,
        compute_s=EXAMPLE.compute_s,
        gradient_bytes=EXAMPLE.gradient_bytes,
        metrics=metrics,
    )
    five = four | on("a", 4)
    assert job.sync_s(five) == pytest.approx(3 * EXAMPLE.sync_s(five))
    with pytest.raises(InputError, match="b:0 took no part in iteration 0"):
        metrics.recorded(Accelerator("b", "0"), metrics.records[Accelerator("a", "0")][0])


def test_an_accelerator_is_never_held_and_free_at_once() -> None:
    with pytest.raises(InputError, match="a:1 is held and free at once"):
        next_step(EXAMPLE, on("a", 0, 1), on("a", 1, 2))
    with pytest.raises(InputError, match="without accelerators"):
        next_step(EXAMPLE, frozenset(), on("a", 1))


CASES = st.tuples(
    st.sampled_from([(3,), (2, 2), (3, 2), (2, 2, 1)]),
    st.floats(1e8, 1e11),
    st.floats(1e5, 1e9),
    st.floats(0.0, 0.05),
    st.floats(0.01, 1.0),
)


@given(CASES, st.data())
def test_it_settles_where_no_single_change_helps(
    case: tuple[tuple[int, ...], float, float, float, float], data: st.DataObject
) -> None:
    sizes, remote, size_bytes, fixed_s, work_s = case
    job = JobCost(
        topology=topology(remote, sizes),
        compute_s=lambda n: fixed_s + work_s / n,
        gradient_bytes=size_bytes,
    )
    everything = job.topology.accelerators
    start = frozenset({data.draw(st.sampled_from(everything))})
    members, steps = settled(job, start, set(everything) - start, hysteresis=0.0)
    here_s = job.iteration_s(members)
    free = set(everything) - members
    singles = chain(
        (members | {new} for new in free),
        (members - {old} for old in members if len(members) > 1),
        ((members - {old}) | {new} for old in members for new in free),
    )
    assert all(here_s <= job.iteration_s(each) * (1 + 1e-9) for each in singles)
    # Nothing was counted twice on the way, and every step helped.
    seen = start
    for step in steps:
        after = applied(seen, step)
        assert job.iteration_s(after) < job.iteration_s(seen)
        seen = after
    assert seen == members


def test_brute_force_agrees_where_hosts_are_alike() -> None:
    for remote in (1e8, 1e9, 1e10, 1e11):
        for size_bytes in (1e6, 5e7, 5e8):
            job = JobCost(
                topology=topology(remote, (3, 3)),
                compute_s=lambda n: 0.02 + 0.3 / n,
                gradient_bytes=size_bytes,
            )
            everything = job.topology.accelerators
            best_s = min(
                job.iteration_s(frozenset(each))
                for n in range(1, 7)
                for each in combinations(everything, n)
            )
            # From one accelerator no single step leads across the price of the second host; from all
            # of them reclaiming finds the way back.
            reached = (
                settled(job, frozenset(everything[:1]), everything[1:], hysteresis=0.0)[0],
                settled(job, frozenset(everything), (), hysteresis=0.0)[0],
            )
            assert min(map(job.iteration_s, reached)) <= best_s * (1 + 1e-9)


@given(st.floats(1e8, 1e11), st.floats(1e5, 1e9))
def test_constant_load_does_not_oscillate(remote: float, size_bytes: float) -> None:
    job = JobCost(topology=topology(remote), compute_s=lambda n: 0.4 / n, gradient_bytes=size_bytes)
    everything = set(job.topology.accelerators)
    members, _ = settled(job, on("a", 0), everything - on("a", 0))
    assert next_step(job, members, everything - members) is None
