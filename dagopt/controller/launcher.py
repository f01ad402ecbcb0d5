"""Forms task groups and times their launches.

The launcher fills each executor with groups up to the stage's concurrency. It knows when each group
should have read its input; a group's delay ends then, corrected by what is observed. It calculates
no cost anew: it uses the records of the stage, which the controller drops on its two triggers.
"""

from __future__ import annotations

import itertools
import math

from dagopt.controller.executor import ExecutorState
from dagopt.controller.group import GroupState
from dagopt.controller.state import StageState
from dagopt.cost.bandwidth import Bandwidths
from dagopt.cost.io_cost import ReaderCost, reader_cost
from dagopt.model.network import InputHostSet
from dagopt.model.wire import FromPlanner, Launch
from dagopt.policy.grouping.decide import GroupingSettings
from dagopt.policy.grouping.group_size import saturating_group_size
from dagopt.policy.grouping.lanes import Lanes

_MAX_LEAD = 0.5
"""A group is launched ahead of its turn by at most this part of its reading."""

RETIME_S = 0.02
"""A launch is sent again only if it moved by more than this."""

_LONGEST_KEPT = 0.9
"""A delay that is as long as allowed is renewed when it has fallen below this part of that: not with
every report, as many groups may be delayed so."""


def cost_for(stage: StageState, executor: ExecutorState, bandwidths: Bandwidths) -> ReaderCost:
    """Cost of reading on the executor's host, calculated once between two triggers."""
    known = stage.costs.get(executor.host)
    if known is None:
        known = reader_cost(
            stage.task_set.inputs, stage.sources, executor.host, executor.network, bandwidths
        )
        stage.costs[executor.host] = known
    return known


class Launcher:
    """Launches of all held stages on all executors."""

    def __init__(self, settings: GroupingSettings) -> None:
        """No executors and no stages yet."""
        self._settings = settings

    def fill(
        self,
        stage: StageState,
        executor: ExecutorState,
        bandwidths: Bandwidths,
        now_s: float,
        *,
        num_reader_hosts: int,
        share_fraction: float,
        max_groups: int | None = None,
    ) -> list[Launch]:
        """Launches of as many groups as the executor has room for, each formed for this.

        Args:
            stage: the held stage.
            executor: where the groups run.
            bandwidths: as known now.
            now_s: epoch seconds.
            num_reader_hosts: hosts that have executors.
            share_fraction: the executor's part of all cores.
            max_groups: form no more than so many; None for as many as there is room for.
        """
        out: list[Launch] = []
        room = self._room(stage, executor, share_fraction)
        while room > 0 and len(stage.unlaunched) and len(out) != max_groups:
            size = saturating_group_size(
                executor.rate_bytes_per_s, cores=executor.cores, limit=room
            )
            group = self._form(stage, executor, size, bandwidths, now_s)
            lanes = self._lanes(stage, group.host_set, num_reader_hosts)
            turn_s = lanes.start_s(group.host, now_s) - group.lead_s
            group.launch_s, _ = self._delayed(group, turn_s, now_s)
            lanes.occupy(group.group, executor.host, group.launch_s + group.reading_s)
            out.append(_launch(stage, group, now_s))
            room -= len(group.tasks)
        return out

    def retime(self, stage: StageState, host_set: InputHostSet, now_s: float) -> list[FromPlanner]:
        """Launches of the set that were planned for another time than they should be now."""
        lanes, queue = stage.lanes[host_set], stage.queues[host_set]
        # With a lane for each, no host waits for another.
        are_apart = len(lanes.until_s) <= lanes.num_lanes
        hosts = queue.hosts_to_look_at(lanes.touched, now_s) if are_apart else queue.hosts()
        later = queue.delayed(hosts, now_s)
        for group in later:
            lanes.free(group.group, group.host)
        out: list[FromPlanner] = []
        look_s = {group.host: math.inf if are_apart else -math.inf for group in later}
        for group in later:
            turn_s = lanes.start_s(group.host, now_s) - group.lead_s
            start_s, moves_s = self._delayed(group, turn_s, now_s)
            lanes.occupy(group.group, group.host, start_s + group.reading_s)
            if abs(start_s - group.launch_s) > RETIME_S:
                group.launch_s = start_s
                out.append(_launch(stage, group, now_s))
            look_s[group.host] = min(look_s[group.host], moves_s)
        for host, time_s in look_s.items():
            queue.look_after(host, time_s)
        lanes.touched.clear()
        return out

    def _delayed(self, group: GroupState, turn_s: float, now_s: float) -> tuple[float, float]:
        """When a group should start whose turn it is at ``turn_s``.

        Returns:
            The time, and after when it will be another one although the turn is the same.
        """
        longest_s = self._settings.max_delay_s
        if turn_s <= now_s + longest_s:
            return (turn_s, turn_s) if turn_s >= now_s else (now_s, -math.inf)
        renew_s = group.launch_s - _LONGEST_KEPT * longest_s
        if now_s <= renew_s:
            return group.launch_s, renew_s
        start_s = now_s + longest_s
        return start_s, start_s - _LONGEST_KEPT * longest_s

    def _room(self, stage: StageState, executor: ExecutorState, share_fraction: float) -> int:
        """Tasks of the stage that may still be launched on the executor.

        Never more than its share of those that have not ended: a stage of few tasks would fill the
        first executors and leave the last ones idle.
        """
        in_flight = stage.in_flight.get(executor.executor, 0)
        left = stage.task_set.num_tasks - stage.measured.num_tasks
        share = math.ceil(max(left, len(stage.unlaunched)) * share_fraction)
        room = min(stage.decision.concurrency.per_executor, share) - in_flight
        if stage.cpu_known:
            return room
        # Not seen before: never more computing tasks than cores, and one group ahead.
        cores = max(1, math.floor(executor.cores))
        return min(room, cores + stage.fetching.get(executor.executor, 0) - in_flight)

    def _form(
        self,
        stage: StageState,
        executor: ExecutorState,
        size: int,
        bandwidths: Bandwidths,
        now_s: float,
    ) -> GroupState:
        """Up to ``size`` tasks of one input host set, taken out of the unlaunched ones."""
        cost = cost_for(stage, executor, bandwidths)
        if stage.has_main_sources:
            tasks, host_set = self._pick_by_load(stage, executor.host, size, cost, now_s)
        else:
            tasks, host_set = _pick_in_order(stage, executor.host, size)
        io_s = sum(cost.tasks_s(stage.task_set.inputs, tasks, host_set))
        is_predicted = all(bandwidths.is_learned(executor.network, n) for n in host_set.networks)
        if not is_predicted:
            # The prior may be far off: the next group waits for what is seen of this one.
            io_s = max(io_s, self._settings.max_delay_s)
        stage.next_group += 1
        group = GroupState(
            group=stage.next_group,
            executor=executor.executor,
            host=executor.host,
            host_set=host_set,
            epoch=executor.epoch,
            tasks=tuple(tasks),
            formed_s=now_s,
            launch_s=0.0,
            io_s=io_s,
            lead_s=min(stage.told.lead_s, _MAX_LEAD * io_s),
            is_predicted=is_predicted,
        )
        stage.add_group(group)
        return group

    def _pick_by_load(
        self, stage: StageState, host: str, size: int, cost: ReaderCost, now_s: float
    ) -> tuple[list[int], InputHostSet]:
        """Take tasks of one set whose main sources serve the fewest others while they read."""
        tasks: list[int] = []
        host_set: InputHostSet | None = None
        while len(tasks) < size:
            found = self._next(stage, host, host_set, cost, now_s)
            if found is None:
                break
            task, host_set = found
            stage.unlaunched.take(task)
            tasks.append(task)
        if host_set is None:
            raise AssertionError("formed a group of a stage with nothing left")
        return tasks, host_set

    def _next(
        self,
        stage: StageState,
        host: str,
        host_set: InputHostSet | None,
        cost: ReaderCost,
        now_s: float,
    ) -> tuple[int, InputHostSet] | None:
        """The task whose main source serves the fewest others while it reads, with its set.

        Of equals the first in order.

        Args:
            stage: the held stage.
            host: where it would run.
            host_set: the input host set that it must have, if the group has one already.
            cost: of reading on the host.
            now_s: epoch seconds.
        """
        best: tuple[int, InputHostSet] | None = None
        best_load = 0
        for task in stage.unlaunched.candidates(host):
            own = stage.host_set(task, host)
            if host_set is not None and own is not host_set and own != host_set:
                continue
            load = self._load(stage, task, own, host, cost, now_s)
            if best is None or load < best_load:
                best, best_load = (task, own), load
            if load == 0:
                break
        return best

    def _load(
        self,
        stage: StageState,
        task: int,
        host_set: InputHostSet,
        host: str,
        cost: ReaderCost,
        now_s: float,
    ) -> int:
        """Groups that read from the task's main source while it would read."""
        groups = stage.reading_from.get(int(stage.told.main_source[task]))
        if not groups:
            return 0
        lanes = stage.lanes.get(host_set)
        begin_s = lanes.start_s(host, now_s) if lanes is not None else now_s
        end_s = begin_s + sum(cost.tasks_s(stage.task_set.inputs, [task], host_set))
        return sum(
            group.launch_s < end_s and group.launch_s + group.reading_s > begin_s
            for group in groups.values()
        )

    def _lanes(self, stage: StageState, host_set: InputHostSet, num_reader_hosts: int) -> Lanes:
        # Counted anew each time: reading hosts come and go while the stage is held.
        num_lanes = max(1, min(stage.num_serving_hosts(host_set), num_reader_hosts))
        lanes = stage.lanes.setdefault(host_set, Lanes(num_lanes=num_lanes))
        lanes.num_lanes = num_lanes
        return lanes


def _pick_in_order(stage: StageState, host: str, size: int) -> tuple[list[int], InputHostSet]:
    """Take the next tasks in order, as long as their input host set is the same."""
    tasks = stage.unlaunched.first(host, size)
    host_set = stage.host_set(tasks[0], host)
    if not stage.is_uniform:
        same = itertools.takewhile(lambda task: stage.host_set(task, host) == host_set, tasks)
        tasks = list(same)
    for task in tasks:
        stage.unlaunched.take(task)
    return tasks, host_set


def _launch(stage: StageState, group: GroupState, now_s: float) -> Launch:
    return Launch(
        stage=stage.task_set.stage,
        attempt=stage.task_set.attempt,
        group=group.group,
        tasks=list(group.tasks),
        executor=group.executor,
        delay_ms=max(0, round((group.launch_s - now_s) * 1000)),
    )
