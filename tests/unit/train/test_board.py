from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagopt.errors import InfeasibleError, InputError
from dagopt.model.topology import Accelerator, ExecutorResources, Link, Topology, uniform_host
from dagopt.policy.training import Scheduler
from dagopt.train.board import Board, Launch
from dagopt.train.cluster import Links
from dagopt.train.job import TrainJob, share_of
from dagopt.train.targets import Policy
from dagopt.train.worker import PhaseOutcome
from tests.cluster_cases import paired_host

INTERVAL_S = 10.0
LINK = Link(bandwidth_bytes_per_s=1e9)


class Nothing:
    num_examples = 1000

    def init(self, seed: int) -> None:
        """Never called."""

    batch = gradients = update = init


def executors(*names: str, num: int = 2) -> list[ExecutorResources]:
    addresses = tuple(map(str, range(num)))
    return [ExecutorResources(executor=name, host=name, addresses=addresses) for name in names]


def board(*names: str, policy: Policy | None = None, topology: Topology | None = None) -> Board:
    links = Links(local=LINK, network=LINK, topology=topology)
    found = Board(policy or Scheduler(), INTERVAL_S, links)
    found.set_executors(executors(*names))
    return found


def job(name: str, num_iterations: int = 1000, **fields: Any) -> TrainJob:
    return TrainJob(
        name=name, training=Nothing(), num_iterations=num_iterations, global_batch=96, **fields
    )


def outcomes(
    launch: Launch, now_s: float, step_s: float = 0.1, slow: Mapping[str, float] | None = None
) -> list[PhaseOutcome]:
    """A phase whose step takes time by its largest share of micro-batches; ``slow`` by executor.

    As Spark does, an executor gives the first of its addresses, whatever the place.
    """
    assert isinstance(launch.job, TrainJob)
    size = len(launch.slots)
    part_s = step_s / launch.job.num_micro_batches
    computed_s = [
        part_s * len(share_of(launch.job, rank, size)) * (slow or {}).get(slot.executor, 1.0)
        for rank, slot in enumerate(launch.slots)
    ]
    whole_s = max(computed_s)
    count = max(1, int(launch.phase_s / whole_s))
    count = min(count, launch.job.num_iterations - launch.first)
    return [
        PhaseOutcome(
            rank=rank,
            address=str([one.executor for one in launch.slots[:rank]].count(slot.executor)),
            losses=[1.0] * count,
            step_s=[whole_s] * count,
            sync_s=[whole_s - computed_s[rank]] * count,
            gradient_bytes=800,
            start_s=now_s - count * whole_s,
            end_s=now_s,
            state=f"state-{launch.number}" if rank == 0 else "",
        )
        for rank, slot in enumerate(launch.slots)
    ]


def test_a_job_alone_grows_to_the_whole_cluster_and_a_second_one_gets_its_share() -> None:
    cluster, now_s, sizes = board("a", "b"), 0.0, []
    cluster.submit(job("one", 10_000), now_s)
    for _ in range(4):
        (launch,) = cluster.launches(now_s)
        sizes.append(len(launch.slots))
        now_s += launch.phase_s
        cluster.reached("one", outcomes(launch, now_s), now_s)
    assert sizes == [1, 2, 4, 4]
    cluster.submit(job("two", 500), now_s)
    names = {launch.job.name for launch in cluster.launches(now_s)}
    assert "two" in names
    assert [move.job for move in cluster.moves] == ["one", "one"]
    assert cluster.record("one").state == "state-3"


def test_a_lost_phase_begins_again_from_its_boundary_so_many_times() -> None:
    cluster = board("a")
    cluster.submit(job("one", max_restarts=1), 0.0)
    (launch,) = cluster.launches(0.0)
    cluster.reached("one", outcomes(launch, 5.0), 5.0)
    done = cluster.record("one").shown().iteration
    for at_s in (6.0, 7.0):
        (launch,) = cluster.launches(at_s)
        assert (launch.first, launch.state) == (done, "state-0")
        cluster.lost("one", "executor a was lost", at_s)
    status = cluster.record("one").shown()
    assert (status.status, status.num_restarts, status.iteration) == ("failed", 2, done)
    assert status.error == "executor a was lost, 2 times in a row"
    assert cluster.launches(8.0) == []


def test_a_phase_is_overdue_past_its_deadline() -> None:
    cluster = board("a")
    cluster.submit(job("one", deadline_s=5.0), 0.0)
    (launch,) = cluster.launches(0.0)
    assert cluster.overdue(5.0) == []
    assert cluster.overdue(5.1 + launch.phase_s) == ["one"]


def test_a_job_on_executors_that_went_goes_on_with_what_is_left() -> None:
    cluster, now_s = board("a", "b"), 0.0
    cluster.submit(job("one"), now_s)
    for _ in range(3):
        (launch,) = cluster.launches(now_s)
        now_s += launch.phase_s
        cluster.reached("one", outcomes(launch, now_s), now_s)
    cluster.launches(now_s)
    cluster.set_executors(executors("b"))
    cluster.lost("one", "executor a was lost", now_s)
    (launch,) = cluster.launches(now_s)
    assert {slot.executor for slot in launch.slots} == {"b"}
    assert cluster.record("one").shown().status == "running"


def test_a_job_that_asked_for_more_than_is_left_runs_on_that_and_waits_for_the_first() -> None:
    cluster, now_s = board("a", "b"), 0.0
    cluster.submit(job("one", 100_000, max_accelerators=4), now_s)
    cluster.set_executors(executors("a"))
    for size in (1, 2, 2):
        (launch,) = cluster.launches(now_s)
        assert len(launch.slots) == size
        now_s += launch.phase_s
        cluster.reached("one", outcomes(launch, now_s), now_s)
    cluster.set_executors([])
    assert cluster.launches(now_s) == []
    assert cluster.record("one").shown().status == "waiting"
    cluster.set_executors(executors("c"))
    (launch,) = cluster.launches(now_s)
    assert {slot.executor for slot in launch.slots} == {"c"}


def test_storage_that_fails_costs_a_phase_and_not_the_job() -> None:
    cluster = board("a")
    cluster.submit(job("one", max_restarts=1), 0.0)
    (launch,) = cluster.launches(0.0)
    found = outcomes(launch, 5.0)
    found[0].lost = "its state cannot be read: timeout"
    cluster.reached("one", found, 5.0)
    status = cluster.record("one").shown()
    assert (status.status, status.num_restarts, status.iteration) == ("waiting", 1, 0)
    assert "back to iteration 0: its state cannot be read: timeout" in cluster.record("one").log[-1]
    cluster.launches(6.0)
    cluster.reached("one", found, 7.0)
    assert cluster.record("one").error == "its state cannot be read: timeout, 2 times in a row"


def test_accelerators_that_were_taken_count_less_but_not_for_ever() -> None:
    cluster = board("a")
    cluster.submit(job("one", max_restarts=0), 0.0)
    for at in range(21):
        assert not cluster.record("one").is_over
        assert len(cluster.launches(float(at))) == 1
        cluster.lost("one", "its accelerators were taken", float(at), is_taken=True)
    assert cluster.record("one").error == "its accelerators were taken, 21 times in a row"


def test_a_plan_that_fails_keeps_the_targets(caplog: pytest.LogCaptureFixture) -> None:
    class Failing:
        fails = False

        def plan(self, *given: Any) -> Any:
            return {"nobody": ((0, 99),)} if self.fails else Scheduler().plan(*given)

    policy = Failing()
    cluster = board("a", "b", policy=policy)
    cluster.submit(job("one"), 0.0)
    (launch,) = cluster.launches(0.0)
    policy.fails = True
    cluster.reached("one", outcomes(launch, 5.0), 5.0)
    (again,) = cluster.launches(5.0)
    assert again.slots == launch.slots
    assert "no new plan" in caplog.text
    # A target on an executor that is gone is no place to go on.
    cluster.set_executors(executors(*{"a", "b"} - {launch.slots[0].executor}))
    cluster.lost("one", "gone", 6.0)
    assert cluster.launches(6.0) == []
    policy.fails = False
    assert len(cluster.launches(6.0 + INTERVAL_S)) == 1


def test_without_executors_jobs_say_that_they_wait(caplog: pytest.LogCaptureFixture) -> None:
    cluster = board("a")
    cluster.submit(job("one"), 0.0)
    for _ in range(3):
        cluster.set_executors([])
    assert caplog.text.count("no executor with an accelerator is there") == 1
    assert cluster.record("one").log == ["dagopt: waits for executors"]
    assert cluster.cluster.topology is None
    cluster.submit(job("two"), 1.0)
    assert cluster.record("two").log == ["dagopt: waits for executors"]
    assert cluster.launches(2.0) == []


def test_bad_requests_are_one_error() -> None:
    cluster = board("a")
    with pytest.raises(InfeasibleError, match="asks for 3 accelerators, the cluster has 2"):
        cluster.submit(job("one", max_accelerators=3), 0.0)
    cluster.submit(job("one"), 0.0)
    with pytest.raises(InputError, match="job one is there already"):
        cluster.submit(job("one"), 0.0)
    # Together with others nothing is taken that would be refused alone.
    for refused in (job("one"), job("two"), job("three", max_accelerators=3)):
        with pytest.raises((InputError, InfeasibleError)):
            cluster.check([job("two"), refused])
    cluster.check([job("two"), job("three", max_accelerators=2)])
    with pytest.raises(InputError, match="there is no job two; there are one"):
        cluster.cancel("two")


def phases(cluster: Board, num: int, slow: Mapping[str, float]) -> list[Launch]:
    """What a job alone is launched on."""
    now_s, found = 0.0, []
    for _ in range(num):
        for launch in cluster.launches(now_s):
            found.append(launch)
            now_s += launch.phase_s
            cluster.reached(launch.job.name, outcomes(launch, now_s, slow=slow), now_s)
    return found


def test_each_accelerator_of_a_running_job_is_measured() -> None:
    cluster = board("a", "b")
    cluster.submit(job("one", 100_000, max_accelerators=3), 0.0)
    launch = phases(cluster, 3, {"b": 4.0})[-1]
    metrics = cluster.record("one").metrics
    assert len(launch.slots) == 3
    assert {str(each) for each in metrics.records} == {"a:0", "a:1", "b:0"}
    assert {str(each): round(by, 3) for each, by in metrics.slowness().items()} == {"b:0": 4.0}
    newest = metrics.records[Accelerator("b", "0")][-1]
    assert newest.iteration == cluster.record("one").load.done - 1
    assert newest.num_micro_batches == 4
    assert newest.sync_s == 0.0
    assert newest.members == frozenset(metrics.records)
    assert newest.transfer_bytes == 2 * 2 * 800 // 3


def test_a_straggler_is_left_for_a_free_accelerator_elsewhere() -> None:
    cluster = board("a", "b", "c")
    cluster.submit(job("one", 100_000, max_accelerators=3), 0.0)
    launches = phases(cluster, 8, {"b": 4.0})
    assert [len(launch.slots) for launch in launches[:3]] == [1, 2, 3]
    assert {slot.executor for slot in launches[2].slots} == {"a", "b"}
    assert len(launches[-1].slots) == 3
    assert {slot.executor for slot in launches[-1].slots} == {"a", "c"}
    # And it stays there.
    assert launches[-1].slots == launches[-3].slots
    (told,) = (line for line in cluster.record("one").log if "against" in line)
    assert re.fullmatch(
        r"dagopt: allocate c:0: [\d.]+ ms of an iteration for it, -?[\d.]+ ms against", told
    )


def test_a_policy_may_leave_stragglers_where_they_are() -> None:
    cluster = board("a", "b", "c", policy=Scheduler(chooses_members=False))
    cluster.submit(job("one", 100_000, max_accelerators=3), 0.0)
    assert "c" not in {
        slot.executor for launch in phases(cluster, 6, {"b": 4.0}) for slot in launch.slots
    }


def test_a_straggler_is_reclaimed_where_nothing_else_is_free_and_others_may_have_it() -> None:
    cluster = board("a", "b")
    cluster.submit(job("one", 100_000, max_accelerators=3), 0.0)
    launches = phases(cluster, 6, {"b": 4.0})
    assert {slot.executor for slot in launches[-1].slots} == {"a"}
    cluster.submit(job("two", 100_000, max_accelerators=1), 100.0)
    (other,) = (one for one in cluster.launches(100.0) if one.job.name == "two")
    assert other.slots[0].executor == "b"


def test_the_topology_says_which_executors_of_a_host_belong_together() -> None:
    """Four executors of a host with an accelerator each, linked well in pairs."""
    near, far = Link(bandwidth_bytes_per_s=5e10), Link(bandwidth_bytes_per_s=1e6)
    names = ("0", "1", "2", "3")
    topology = paired_host(names, [("0", "2"), ("1", "3")], near=near, far=far)
    cluster = board(topology=topology)
    cluster.set_executors(
        [ExecutorResources(executor=f"e{each}", host="h", addresses=(each,)) for each in names]
    )
    cluster.submit(job("one", 100_000, max_accelerators=2), 0.0)
    launches = phases(cluster, 5, {})
    assert cluster.cluster.topology is topology
    pair = tuple(slot.executor for slot in launches[-1].slots)
    assert pair in {("e0", "e2"), ("e1", "e3")}


def test_a_topology_without_some_of_the_accelerators_is_told_and_unused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    known = Topology(hosts=(uniform_host("a", ("0", "1"), local=LINK, network=LINK),))
    cluster = board("a", "b", topology=known)
    # The scheduler says twice a second which executors there are.
    cluster.set_executors(executors("a", "b"))
    assert cluster.cluster.topology is not None
    assert len(cluster.cluster.topology.accelerators) == 4
    assert caplog.text.count("accelerator b:0 is not in the topology, it is not used") == 1


@settings(max_examples=15)  # each fits step times many times
@given(st.integers(0, 2**32 - 1))
def test_no_accelerator_is_given_twice_or_leaked(seed: int) -> None:
    """Jobs come, raise, hang, are cancelled and lose executors; in the end all have ended."""
    random = np.random.default_rng(seed)
    cluster, now_s, running = board("a", "b", "c"), 0.0, {}
    alive = ["a", "b", "c"]
    for number in range(300):
        now_s += float(random.exponential(2.0))
        event = random.random()
        if event < 0.15 and len(cluster.records) < 8 and alive:
            cluster.submit(job(f"job{number}", int(random.integers(1, 2000))), now_s)
        elif event < 0.2 and cluster.records:
            cluster.cancel(str(random.choice(sorted(cluster.records))))
        elif event < 0.25:
            name = str(random.choice(["a", "b", "c"]))
            alive = sorted(set(alive) ^ {name})
            cluster.set_executors(executors(*alive))
        for launch in cluster.launches(now_s):
            assert {slot.executor for slot in launch.slots} <= set(alive)
            running[launch.job.name] = launch
        given_out = [slot for launch in running.values() for slot in launch.slots]
        assert len(set(given_out)) == len(given_out)
        if running and random.random() < 0.7:
            name = str(random.choice(sorted(running)))
            launch = running.pop(name)
            slow = {each: float(random.choice([1.0, 4.0])) for each in "abc"}
            found, end = outcomes(launch, now_s, slow=slow), random.random()
            if end < 0.1:
                cluster.lost(name, "no boundary within its deadline", now_s)
                continue
            if end < 0.2:
                found[0].error = "ValueError"
            cluster.reached(name, found, now_s)
    cluster.set_executors(executors("a", "b", "c"))
    for _ in range(2000):
        for launch in cluster.launches(now_s):
            running[launch.job.name] = launch
        if not running:
            break
        name = min(running)
        now_s += INTERVAL_S
        launch = running.pop(name)
        cluster.reached(name, outcomes(launch, now_s), now_s)
    assert all(record.is_over and not record.slots for record in cluster.records.values())
    assert all(stay.until_s is not None for stay in cluster.stays)
    assert all(
        status.iteration == status.num_iterations
        for status in cluster.jobs()
        if status.status == "done"
    )
