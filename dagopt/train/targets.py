"""Which accelerators each job is to have: the policy's plan, in executors and places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from dagopt.cost.step_time import StepTime, prior
from dagopt.model.assignment import assign
from dagopt.model.topology import Link
from dagopt.model.training import ClusterView, JobView, Plan, check_plan, placement_of
from dagopt.train.records import Record, Slot

Targets = dict[str, tuple[Slot, ...]]
"""By job; one that is missing gets none."""


class Policy(Protocol):
    """What decides; :class:`dagopt.policy.training.Scheduler` by default."""

    def plan(self, jobs: Sequence[JobView], cluster: ClusterView, now_s: float) -> Plan:
        """Where each job runs from now on."""


def targets(
    policy: Policy,
    records: Sequence[Record],
    hosts: Mapping[str, tuple[Slot, ...]],
    before: Targets,
    links: tuple[Link, Link],
    *,
    restart_s: float,
    interval_s: float,
    now_s: float,
) -> Targets:
    """A new plan.

    Args:
        policy: what decides.
        records: the jobs that are to have accelerators.
        hosts: the accelerators of each host.
        before: of the plan before.
        links: within a host, and between hosts, until sums were measured.
        restart_s: seconds that a change costs.
        interval_s: seconds between plans.
        now_s: seconds.

    Raises:
        InputError: the policy's plan cannot be carried out.
    """
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
    return {
        name: tuple(slots_of[host][place] for host, place in found)
        for name, found in assign(plan, held, cluster.capacity).items()
        if found
    }


def _prior(record: Record, links: tuple[Link, Link]) -> StepTime:
    """What sums cost where they were not measured: a ring over the links."""
    local, network = links
    return prior(
        compute_s=0.0,
        example_s=0.0,
        gradient_bytes=float(record.gradient_bytes),
        local_bandwidth_bytes_per_s=local.bandwidth_bytes_per_s,
        remote_bandwidth_bytes_per_s=network.bandwidth_bytes_per_s,
        local_latency_s=local.latency_s,
        remote_latency_s=network.latency_s,
    )
