"""Which individual accelerators the jobs of a plan get."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagopt.cost.accelerator_metrics import AcceleratorMetrics, IterationRecord
from dagopt.errors import InputError
from dagopt.model.topology import Accelerator, Link
from dagopt.policy.allocation.members import Planned, choose_members
from dagopt.policy.allocation.one_job import JobCost, Members
from tests.cluster_cases import paired_host

NEAR = Link(bandwidth_bytes_per_s=50e9, name="NV4")
FAR = Link(bandwidth_bytes_per_s=5e9, distance=4, name="SYS")
ISLANDS = paired_host(("0", "1", "2", "3"), [("0", "1"), ("2", "3")], near=NEAR, far=FAR)
NUM_MICRO_BATCHES = 12


def on(*addresses: int) -> Members:
    return frozenset(Accelerator("h", str(each)) for each in addresses)


def metrics(part_s: dict[int, float], sync_s: float) -> AcceleratorMetrics:
    """Of a job on accelerators that take so long for a micro-batch."""
    found, members = AcceleratorMetrics(), on(*part_s)
    parts = NUM_MICRO_BATCHES // len(part_s)
    for iteration in range(4):
        for address, each_s in part_s.items():
            record = IterationRecord(
                iteration=iteration,
                compute_s=each_s * parts,
                sync_s=sync_s,
                transfer_bytes=1,
                members=members,
                num_micro_batches=parts,
            )
            found = found.recorded(Accelerator("h", str(address)), record)
    return found


def planned(
    given: Members, before: Members, found: AcceleratorMetrics | None = None, **fields: float
) -> Planned:
    return Planned(
        cost=JobCost(
            topology=ISLANDS,
            compute_s=lambda n: 0.01 * -(-NUM_MICRO_BATCHES // n),
            gradient_bytes=fields.get("gradient_bytes", 1e6),
            remaining_iterations=fields.get("remaining", 1000.0),
            metrics=found or AcceleratorMetrics(),
        ),
        given=given,
        before=before,
        most=int(fields.get("most", len(given))),
    )


def test_a_straggler_is_exchanged_for_a_free_accelerator() -> None:
    slow = planned(on(0, 1), on(0, 1), metrics({0: 0.01, 1: 0.03}, 0.0))
    chosen = choose_members({"one": slow}, on(2, 3), restart_s=1.0)["one"]
    assert [(step.kind, step.old) for step in chosen.steps] == [("exchange", Accelerator("h", "1"))]
    assert Accelerator("h", "1") not in chosen.members
    assert len(chosen.members) == 2


def test_a_straggler_is_reclaimed_where_the_job_is_faster_without_it() -> None:
    slow = planned(on(0, 1), on(0, 1), metrics({0: 0.01, 1: 0.03}, 0.0))
    chosen = choose_members({"one": slow}, (), restart_s=1.0)["one"]
    assert chosen.members == on(0)


def test_a_job_takes_no_straggler_that_it_knows_and_others_may() -> None:
    found = metrics({0: 0.01, 1: 0.03}, 0.0)
    grows = planned(on(0), on(0), found, most=2)
    other = planned(on(2), on(2), most=2)
    chosen = choose_members({"one": grows, "two": other}, on(1), restart_s=0.0)
    assert chosen["one"].members == on(0)
    assert chosen["two"].members == on(1, 2)


def test_times_that_differ_as_noise_does_move_nothing() -> None:
    noisy = planned(on(0, 1), on(0, 1), metrics({0: 0.01, 1: 0.014}, 0.0))
    assert choose_members({"one": noisy}, on(2, 3), restart_s=0.0)["one"].members == on(0, 1)


@pytest.mark.parametrize(("remaining", "expected"), [(10_000.0, on(2, 3)), (10.0, on(1, 2))])
def test_it_changes_to_the_better_link_if_that_pays_the_restart(
    remaining: float, expected: Members
) -> None:
    # 100 MB over 5 GB/s and 50 GB/s: 18 ms of an iteration.
    spread = planned(on(1, 2), on(1, 2), gradient_bytes=1e8, remaining=remaining)
    chosen = choose_members({"one": spread}, on(3), restart_s=5.0)["one"]
    assert chosen.members == expected


def test_what_moves_in_any_case_gets_the_better_link_without_paying_for_it() -> None:
    spread = planned(on(1, 2), on(0), gradient_bytes=1e8, remaining=10.0, most=2)
    busy = planned(on(0), on(0), most=1)
    chosen = choose_members({"other": busy, "one": spread}, on(3), restart_s=5.0)
    assert chosen["one"].members == on(2, 3)


def test_an_accelerator_that_costs_more_than_it_computes_is_not_taken() -> None:
    # Two synchronise in 0.1 s, and two compute 0.06 s less than one.
    found = metrics({0: 0.01, 1: 0.01}, 0.1)
    chosen = choose_members({"one": planned(on(0, 1), on(0, 1), found)}, (), restart_s=1.0)["one"]
    assert [step.kind for step in chosen.steps] == ["reclaim"]
    assert len(chosen.members) == 1


def test_an_accelerator_is_not_given_twice() -> None:
    with pytest.raises(InputError, match="h:1 is given twice"):
        choose_members({"a": planned(on(0, 1), on()), "b": planned(on(1), on())}, (), restart_s=0.0)
    with pytest.raises(InputError, match="h:1 is given twice, or given and free"):
        choose_members({"a": planned(on(0, 1), on())}, on(1), restart_s=0.0)


@given(
    st.permutations(range(4)),
    st.integers(1, 3),
    st.lists(st.floats(0.001, 0.1), min_size=4, max_size=4),
    st.floats(0.0, 0.2),
    st.floats(0.0, 100.0),
)
def test_nothing_is_given_twice_or_lost_and_a_second_look_changes_nothing(
    order: list[int], cut: int, part_s: list[float], sync_s: float, restart_s: float
) -> None:
    first, second = on(*order[:cut]), on(*order[cut:3])
    found = metrics({at: part_s[at] for at in order[:cut]}, sync_s)
    jobs = {"one": planned(first, first, found, most=4)}
    if second:
        jobs["two"] = planned(second, second, most=4)
    free = on(*range(4)) - first - second
    chosen = choose_members(jobs, free, restart_s=restart_s)
    members = [each for one in chosen.values() for each in one.members]
    assert len(set(members)) == len(members)
    assert all(one.members for one in chosen.values())
    again = {
        name: Planned(
            cost=job.cost, given=chosen[name].members, before=chosen[name].members, most=4
        )
        for name, job in jobs.items()
    }
    left = on(*range(4)) - set(members)
    assert {
        name: one.members for name, one in choose_members(again, left, restart_s=restart_s).items()
    } == {name: one.members for name, one in chosen.items()}
