"""Which accelerators each job is to have: the policy's plan, in executors and places."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from dagopt.cost.accelerator_metrics import AcceleratorMetrics
from dagopt.cost.step_time import StepTime, prior
from dagopt.model.assignment import assign
from dagopt.model.topology import Accelerator, Topology
from dagopt.model.training import ClusterView, JobView, Plan, check_plan, placement_of
from dagopt.policy.allocation.members import Planned, choose_members
from dagopt.policy.allocation.one_job import JobCost
from dagopt.policy.allocation.speeds import most_replicas
from dagopt.policy.allocation.stay import expected_stay_s
from dagopt.policy.training import Scheduler as TrainingPolicy
from dagopt.train.cluster import Cluster, Links
from dagopt.train.job import TrainJob
from dagopt.train.records import Record, Slot

logger = logging.getLogger(__name__)

Targets = dict[str, tuple[Slot, ...]]
"""By job; one that is missing gets none."""


class Policy(Protocol):
    """What decides; :class:`dagopt.policy.training.Scheduler` by default."""

    def plan(self, jobs: Sequence[JobView], cluster: ClusterView, now_s: float) -> Plan:
        """Where each job runs from now on."""


def targets(
    policy: Policy,
    records: Sequence[Record],
    there: Cluster,
    before: Targets,
    links: Links,
    *,
    restart_s: float,
    interval_s: float,
    now_s: float,
) -> Targets:
    """A new plan.

    Args:
        policy: what decides.
        records: the jobs that are to have accelerators.
        there: the accelerators.
        before: of the plan before.
        links: among them, until sums were measured.
        restart_s: seconds that a change costs.
        interval_s: seconds between plans.
        now_s: seconds.

    Raises:
        InputError: the policy's plan cannot be carried out.
    """
    hosts = there.hosts
    places = {
        slot: (host, place)
        for host, slots in enumerate(hosts.values())
        for place, slot in enumerate(slots)
    }
    # A sweep can use fewer when trials have ended.
    most = {record.job.name: record.load.most_accelerators for record in records}
    held = {
        name: tuple(sorted(places[slot] for slot in slots)[: most.get(name)])
        for name, slots in before.items()
        if all(slot in places for slot in slots)
    }
    cluster = ClusterView(
        capacity=tuple(map(len, hosts.values())), restart_s=restart_s, interval_s=interval_s
    )
    views = [
        record.view(
            placement_of(Counter(host for host, _ in held.get(record.job.name, ()))),
            _prior(record, links),
            now_s,
        )
        for record in records
    ]
    plan = policy.plan(views, cluster, now_s)
    check_plan(plan, views, cluster)
    slots_of = list(hosts.values())
    found = {
        name: tuple(slots_of[host][place] for host, place in mine)
        for name, mine in assign(plan, held, cluster.capacity).items()
        if mine
    }
    chosen: Targets = {}
    # Other policies mean what they say.
    if isinstance(policy, TrainingPolicy) and policy.chooses_members:
        by_name = {view.job.job_id: view for view in views}
        try:
            chosen = _chosen(records, by_name, found, before, there, cluster)
        except Exception:
            logger.exception("dagopt: jobs get the accelerators of the plan, as it is")
    return {
        name: tuple(sorted(slots, key=lambda slot: places[slot]))
        for name, slots in (found | chosen).items()
    }


def _chosen(
    records: Sequence[Record],
    views: Mapping[str, JobView],
    found: Targets,
    before: Targets,
    there: Cluster,
    cluster: ClusterView,
) -> Targets:
    """Other slots for jobs whose accelerators measured something that the plan does not know."""
    topology = there.topology
    if topology is None:
        return {}
    measured = {
        one.job.name: (one, metrics)
        for one in records
        if one.job.name in found and (metrics := _metrics(one, there)).records
    }
    if not measured:
        return {}
    used = {slot for slots in found.values() for slot in slots}
    free = [one for slot, one in there.accelerators.items() if slot not in used]
    waits = any(record.job.name not in found for record in records)
    jobs = {}
    for name, (record, metrics) in measured.items():
        given, view = found[name], views[name]
        held = [there.accelerators[s] for s in before.get(name, ()) if s in there.accelerators]
        jobs[name] = Planned(
            cost=_cost(record, view, metrics, topology, cluster),
            given=frozenset(there.accelerators[slot] for slot in given),
            before=frozenset(held),
            most=len(given) if waits else max(len(given), most_replicas(view)),
        )
    others: Targets = {}

    def named(accelerator: Accelerator | None) -> str:
        slot = None if accelerator is None else there.slot_of[accelerator]
        return "" if slot is None else f"{slot.executor}:{slot.place}"

    for name, chosen in choose_members(jobs, free, restart_s=cluster.restart_s).items():
        slots = tuple(there.slot_of[one] for one in chosen.members)
        # Spark chooses among the accelerators of an executor, so one of them for another changes nothing.
        if Counter(slot.executor for slot in slots) != Counter(s.executor for s in found[name]):
            others[name] = slots
            if set(slots) != set(before.get(name, ())):
                told = (step.told(named(step.new), named(step.old)) for step in chosen.steps)
                measured[name][0].log += [f"dagopt: {one}" for one in told]
    given_slots = [slot for slots in (found | others).values() for slot in slots]
    return others if len(set(given_slots)) == len(given_slots) else {}


def _metrics(record: Record, there: Cluster) -> AcceleratorMetrics:
    """What a job measured of accelerators that are there.

    Spark chooses among those of an executor, so one that was not measured counts as the slowest that was.
    """
    found = record.metrics.among(there.slot_of)
    each_s = found.micro_batch_s()
    slowest: dict[str, Accelerator] = {}
    for accelerator in sorted(each_s, key=lambda one: (each_s[one], one)):
        slowest[there.slot_of[accelerator].executor] = accelerator
    like = {
        accelerator: found.records[slowest[slot.executor]]
        for accelerator, slot in there.slot_of.items()
        if slot.executor in slowest
    }
    return AcceleratorMetrics(records={**like, **found.records})


def _cost(
    record: Record,
    view: JobView,
    metrics: AcceleratorMetrics,
    topology: Topology,
    cluster: ClusterView,
) -> JobCost:
    """What iterations of a training cost on any accelerators, by what it measured."""
    assert isinstance(record.job, TrainJob)  # sweeps measure nothing of each  # noqa: S101
    num_micro_batches, usual_s = record.job.num_micro_batches, metrics.usual_s()
    stay_s = expected_stay_s(view.age_s, float(view.num_restarts), cluster.interval_s)
    iteration_s = max(1e-6, view.step_s or num_micro_batches * usual_s)
    return JobCost(
        topology=topology,
        compute_s=lambda size: -(-num_micro_batches // size) * usual_s,
        gradient_bytes=float(record.gradient_bytes),
        remaining_iterations=min(view.remaining, stay_s / iteration_s),
        metrics=metrics,
    )


def _prior(record: Record, links: Links) -> StepTime:
    """What sums cost where they were not measured: a ring over the links."""
    local, network = links.local, links.network
    return prior(
        compute_s=0.0,
        example_s=0.0,
        gradient_bytes=float(record.gradient_bytes),
        local_bandwidth_bytes_per_s=local.bandwidth_bytes_per_s,
        remote_bandwidth_bytes_per_s=network.bandwidth_bytes_per_s,
        local_latency_s=local.latency_s,
        remote_latency_s=network.latency_s,
    )
