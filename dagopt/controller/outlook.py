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
from dagopt.model.stage_profile import has_python, stage_signature
from dagopt.model.task_set import TaskSet, task_inputs
from dagopt.model.wire import TaskSetSubmitted
from dagopt.policy.grouping.decide import StageOutlook
from dagopt.policy.grouping.host_sets import HostSets, main_source
from dagopt.policy.grouping.order import launch_order

_TASKS_TOLD = 8
"""Tasks whose input host sets a decision names."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Submission:
    """A task set with what follows from its inputs, the executors and what is known."""

    task_set: TaskSet
    python: bool
    """Whether Python workers run in it."""
    sources: SourceHosts
    main_source: NDArray[np.int64]
    """``(T,)`` host that a task mainly reads from, or -1."""
    host_sets: HostSets
    first_host: str
    """Host of the first executor, whose view stands for all in orders and reports."""
    io_s: NDArray[np.float64]
    """``(T,)`` seconds of reading on the first host."""
    cpu_s: NDArray[np.float64]
    """``(T,)`` seconds of computing; zeros where not known."""
    outlook: StageOutlook

    def launch_order(self) -> NDArray[np.int64]:
        """``(T,)`` tasks in the order in which they should start."""
        return launch_order(self.io_s, self.cpu_s, self.main_source)

    def input_host_sets(self) -> tuple[str, ...]:
        """Input host sets of some of the tasks, spread evenly, seen from the first host."""
        tasks = np.linspace(0, self.task_set.num_tasks - 1, _TASKS_TOLD).astype(int)
        return tuple(sorted({str(self.host_sets.of(int(t), self.first_host)) for t in tasks}))

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
        python=has_python(event.scopes),
        sources=source_hosts(inputs, networks),
        main_source=main,
        host_sets=HostSets(inputs, networks, replicas=set(event.shuffle_types) == {"source"}),
        first_host="",
        io_s=nothing,
        cpu_s=nothing,
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
    return replace(told, first_host=first.host, io_s=io_s, cpu_s=cpu_s, outlook=outlook)
