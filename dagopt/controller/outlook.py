"""What the planner makes of a submitted task set before it decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dagopt.controller.executor import ExecutorState
from dagopt.controller.knowledge import Knowledge
from dagopt.cost.bandwidth import Bandwidths
from dagopt.cost.io_cost import SourceHosts, all_tasks_s, reader_cost, source_hosts
from dagopt.model.network import Networks
from dagopt.model.stage_profile import stage_signature, works_outside_jvm
from dagopt.model.task_set import TaskSet, task_inputs
from dagopt.model.wire import TaskSetSubmitted
from dagopt.policy.grouping.decide import StageOutlook
from dagopt.policy.grouping.host_record import HostRecord, host_records
from dagopt.policy.grouping.host_sets import HostSets, main_source
from dagopt.policy.grouping.order import launch_order

_MAX_CELLS = 20_000
"""Tasks times hosts that host records are made for before a decision; what is above that is decided
by the cost on the first host, without classes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Submission:
    """A task set with what follows from its inputs, the executors and what is known."""

    task_set: TaskSet
    python: bool
    """Whether it works outside of the JVM, in Python workers or on a GPU."""
    sources: SourceHosts
    main_source: NDArray[np.int64]
    """``(T,)`` host that a task mainly reads from, or -1."""
    networks: Networks
    host_sets: HostSets
    records: tuple[HostRecord, ...]
    """One for each host and input host set, of the hosts that were looked at."""
    io_s: NDArray[np.float64]
    """``(T,)`` seconds of reading on the first executor's host, whose view orders the tasks."""
    cpu_s: NDArray[np.float64]
    """``(T,)`` seconds of computing; zeros where not known."""
    lead_s: float
    """Seconds between a task's launch and its last byte in which it does not wait for the network."""
    outlook: StageOutlook

    def launch_order(self) -> NDArray[np.int64]:
        """``(T,)`` tasks in the order in which they should start."""
        return launch_order(self.io_s, self.cpu_s, self.main_source)

    def input_host_sets(self) -> tuple[str, ...]:
        """The input host sets of the tasks, seen from the hosts that were looked at."""
        return tuple(sorted({str(record.input_host_set) for record in self.records}))

    def again(
        self, executors: Sequence[ExecutorState], bandwidths: Bandwidths, knowledge: Knowledge
    ) -> Submission:
        """The same task set with what is known now."""
        return _known(self, executors, bandwidths, knowledge)


def submission(
    event: TaskSetSubmitted,
    executors: Sequence[ExecutorState],
    networks: Networks,
    bandwidths: Bandwidths,
    knowledge: Knowledge,
) -> Submission:
    """What is known of a task set that was just submitted.

    Raises:
        InputError: the event's inputs contradict themselves.
    """
    inputs = task_inputs(event)
    nothing = np.zeros(inputs.num_tasks)
    main = main_source(inputs)
    told = Submission(
        task_set=TaskSet(
            stage=event.stage,
            attempt=event.attempt,
            name=event.name,
            signature=stage_signature(event.name, event.scopes, event.plan),
            pool=event.pool,
            shuffle_types=frozenset(event.shuffle_types),
            inputs=inputs,
            preferred=event.preferred,
            partial=event.partial,
        ),
        python=works_outside_jvm(event.scopes),
        sources=source_hosts(inputs, networks),
        main_source=main,
        networks=networks,
        host_sets=HostSets(inputs, networks, replicas=set(event.shuffle_types) == {"source"}),
        records=(),
        io_s=nothing,
        cpu_s=nothing,
        lead_s=0.0,
        outlook=StageOutlook(
            num_tasks=inputs.num_tasks,
            num_executors=0,
            cores=1.0,
            io_s=0.0,
            cpu_s=None,
            reads_blocks=event.partial or set(event.shuffle_types) == {"source"},
            num_sources=int(np.unique(main[main >= 0]).size),
            memory_bound_from=None,
            can_raise=event.can_raise,
            can_pin=True,
        ),
    )
    return _known(told, executors, bandwidths, knowledge)


def _known(
    told: Submission,
    executors: Sequence[ExecutorState],
    bandwidths: Bandwidths,
    knowledge: Knowledge,
) -> Submission:
    if not executors:
        return told
    inputs = told.task_set.inputs
    records: list[HostRecord] = []
    num_hosts = _MAX_CELLS // inputs.num_tasks
    if num_hosts:
        readers = {executor.host: executor.epoch for executor in reversed(executors)}
        looked_at = list(reversed(readers.items()))[:num_hosts]
        records = host_records(inputs, looked_at, told.networks, bandwidths)
        io_s = np.zeros(inputs.num_tasks)
        for record in records:
            if record.host == executors[0].host:
                io_s[record.tasks] = record.io_s
        mean_io_s = float(np.mean(np.concatenate([record.io_s for record in records])))
    else:
        first = executors[0]
        cost = reader_cost(inputs, told.sources, first.host, first.network, bandwidths)
        io_s = all_tasks_s(inputs, cost)
        mean_io_s = float(io_s.mean()) + cost.latency_s
    known = knowledge.find(told.task_set.signature)
    cpu_s = np.zeros(inputs.num_tasks)
    if known is not None:
        mean_bytes = float(inputs.task_bytes.mean())
        weight = inputs.task_bytes / mean_bytes if mean_bytes > 0 else np.ones_like(cpu_s)
        cpu_s = weight * known.cpu_of(mean_bytes)
        if known.io_s is not None and told.outlook.reads_blocks:
            mean_io_s = known.io_s
    one_per_host = len({executor.host for executor in executors}) == len(executors)
    outlook = replace(
        told.outlook,
        num_executors=len(executors),
        cores=float(np.mean([executor.cores for executor in executors])),
        io_s=mean_io_s,
        cpu_s=float(cpu_s.mean()) if known is not None else None,
        memory_bound_from=known.memory_bound_from if known is not None else None,
        can_pin=one_per_host
        or not told.task_set.preferred
        or told.task_set.shuffle_types == {"wide"},
    )
    return replace(
        told,
        records=tuple(records),
        io_s=io_s,
        cpu_s=cpu_s,
        lead_s=known.lead_s if known is not None else 0.0,
        outlook=outlook,
    )
