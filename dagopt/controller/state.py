"""What the grouping controller remembers of stages and their groups."""

from __future__ import annotations

import sys
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dagopt.controller.group import GroupState
from dagopt.controller.knowledge import Measured
from dagopt.controller.launch_queue import LaunchQueue
from dagopt.controller.outlook import Submission
from dagopt.controller.unlaunched import Unlaunched
from dagopt.cost.io_cost import ReaderCost
from dagopt.model.decision import Decision
from dagopt.model.network import NOWHERE, InputHostSet, NetworkId
from dagopt.policy.grouping.decide import GroupingDecision
from dagopt.policy.grouping.lanes import Lanes

StageKey: TypeAlias = tuple[int, int]
"""Stage id and attempt."""


class StageState:
    """One followed task set."""

    def __init__(
        self, told: Submission, decision: GroupingDecision, order: NDArray[np.int64] | None
    ) -> None:
        """A task set that was just submitted; ``order`` is None where nothing of it is held."""
        self.told = told
        self.task_set = told.task_set
        self.sources = told.sources
        self.python = told.python
        self.reads_blocks = told.task_set.shuffle_types == {"source"}
        self.decision = decision
        self.unlaunched = Unlaunched(told.task_set.inputs, told.main_source, order)
        self.has_main_sources = bool((told.main_source >= 0).any())
        inputs = told.task_set.inputs
        self.is_uniform = inputs.shared and bool(inputs.task_bytes.min() > 0)
        """Whether all tasks read from the same hosts."""
        self.is_held = order is not None
        self.cpu_known = decision.stock_s is not None
        """Whether the tasks' CPU time is known, from an earlier run or a finished group."""
        self.groups: dict[int, GroupState] = {}
        self.next_group = 0
        self.in_flight: dict[str, int] = {}
        """By executor: tasks that run on it, or wait for it in a group."""
        self.fetching: dict[str, int] = {}
        """By executor: running tasks that have not read their input."""
        self.reading_from: dict[int, dict[int, GroupState]] = {}
        """By main source host: groups that read from it, or will."""
        self.lanes: dict[InputHostSet, Lanes] = {}
        self.queues: dict[InputHostSet, LaunchQueue] = {}
        """By input host set: groups whose delay has not ended."""
        self.costs: dict[str, ReaderCost] = {}
        """By reading host; emptied whenever the costs are to be calculated again."""
        self.measured = Measured()
        self.network_io: dict[tuple[NetworkId, InputHostSet], tuple[float, float]] = {}
        """By network of the reader and input host set: seconds of reading over the network,
        predicted and measured, of tasks that ended since the costs were last calculated."""
        self._group_of: dict[int, int] = {}
        self._num_waiting = 0
        self._num_serving: dict[InputHostSet, int] = {}

    @property
    def key(self) -> StageKey:
        """Stage id and attempt."""
        return self.task_set.stage, self.task_set.attempt

    @property
    def num_held(self) -> int:
        """Tasks that have not started because of dagopt."""
        return len(self.unlaunched) + self._num_waiting

    def decided(self, now_s: float, action: str | None = None) -> Decision:
        """The decision in force, for reports; ``action`` where it is none of the first ones."""
        outlook, decision = self.told.outlook, self.decision
        predicted = decision.grouped_s if decision.action == "group" else decision.stock_s
        return Decision(
            time_s=now_s,
            stage=self.key[0],
            attempt=self.key[1],
            name=self.task_set.name,
            signature=self.task_set.signature,
            action=action or decision.action,
            tasks_per_core=decision.concurrency.tasks_per_core,
            num_tasks=outlook.num_tasks,
            io_s=outlook.io_s,
            cpu_s=outlook.cpu_s,
            stock_s=decision.stock_s,
            predicted_s=predicted,
            input_host_sets=self.told.input_host_sets(),
            reason=decision.reason,
        )

    def host_set(self, task: int, host: str) -> InputHostSet:
        """The input host set of ``task`` for the reading host ``host``."""
        return self.told.host_sets.of(task, host)

    def source_name(self, task: int) -> str | None:
        """The host that ``task`` mainly reads from, if there is one."""
        source = int(self.told.main_source[task])
        return None if source < 0 else self.task_set.inputs.host_names[source]

    def num_serving_hosts(self, host_set: InputHostSet) -> int:
        """Hosts that a set's input comes from, the reading host among them if it is local.

        What lies on no host in particular serves any number of readers at once.
        """
        known = self._num_serving.get(host_set)
        if known is not None:
            return known
        networks = self.sources.networks
        codes = [code for code, name in enumerate(networks) if name in host_set.networks]
        remote = int(np.isin(self.sources.code, codes).sum())
        nowhere = self.sources.index.get(NOWHERE)
        if nowhere is not None and self.sources.code[nowhere] in codes:
            remote = sys.maxsize
        found = remote if host_set.networks else len(self.sources.index)
        self._num_serving[host_set] = found
        return found

    def add_group(self, group: GroupState) -> None:
        """A group was formed: its tasks count as in flight on its executor."""
        self.groups[group.group] = group
        self.queues.setdefault(group.host_set, LaunchQueue()).add(group)
        for task in group.tasks:
            self._group_of[task] = group.group
        for source in (
            self.told.main_source[list(group.tasks)].tolist() if self.has_main_sources else ()
        ):
            if source >= 0:
                self.reading_from.setdefault(source, {})[group.group] = group
        self._num_waiting += len(group.tasks)
        self.in_flight[group.executor] = self.in_flight.get(group.executor, 0) + len(group.tasks)

    def group_with(self, task: int) -> GroupState | None:
        """The group that waits for ``task`` to start."""
        group = self.groups.get(self._group_of.get(task, -1))
        return group if group is not None and task in group.waiting else None

    def started(self, task: int, executor: str, group: GroupState | None) -> None:
        """A task was launched, as part of the group that waited for it if there is one."""
        if group is not None:
            self._stop_waiting(group, task)
        self.in_flight[executor] = self.in_flight.get(executor, 0) + 1
        self.fetching[executor] = self.fetching.get(executor, 0) + 1

    def read(self, executor: str) -> None:
        """A task on the executor has read its input, or ended without."""
        self.fetching[executor] = max(0, self.fetching.get(executor, 0) - 1)

    def ended(self, executor: str) -> None:
        """A task on the executor ended."""
        self.in_flight[executor] = max(0, self.in_flight.get(executor, 0) - 1)

    def source_read(self, group: GroupState, task: int) -> bool:
        """A task of the group has read its input; whether it was the group's last one."""
        if task not in group.reading:
            return False
        group.reading.discard(task)
        if group.reading:
            return False
        for other in group.tasks:
            self.reading_from.get(int(self.told.main_source[other]), {}).pop(group.group, None)
        return True

    def drop_group(self, group: GroupState) -> None:
        """The group is over."""
        for task in tuple(group.waiting):
            self._stop_waiting(group, task)
        for task in tuple(group.reading):
            self.source_read(group, task)
        for task in group.tasks:
            self._group_of.pop(task, None)
        self.lanes[group.host_set].free(group.group, group.host)
        self.queues[group.host_set].drop(group)
        self.groups.pop(group.group, None)

    def release(self) -> None:
        """Nothing is held any more."""
        self.is_held = False
        self.unlaunched.clear()
        for group in tuple(self.groups.values()):
            self.drop_group(group)

    def _stop_waiting(self, group: GroupState, task: int) -> None:
        group.waiting.discard(task)
        self._num_waiting -= 1
        self.in_flight[group.executor] = max(0, self.in_flight.get(group.executor, 0) - 1)
