"""The live brain of task grouping.

``step(event, now_s)`` is the only way in; it returns what the JVM is to do. There is no clock, file
or socket here, so the same controller runs live, in a simulation and over a recorded run.

I/O costs are calculated again on exactly two events (US patent text of the family "group tasks for
execution", claim 3): a new resource allocation reached the driver, or a task group finished. Reports
of running reads only correct when the next delay ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dagopt.controller.executor import ExecutorState
from dagopt.controller.group import GroupState
from dagopt.controller.knowledge import Knowledge
from dagopt.controller.launcher import Launcher, cost_for
from dagopt.controller.outlook import submission
from dagopt.controller.state import StageKey, StageState
from dagopt.controller.tracker import TaskTracker
from dagopt.cost.bandwidth import Bandwidths
from dagopt.cost.share_clock import ShareClock
from dagopt.errors import InputError
from dagopt.model.decision import Decision
from dagopt.model.network import Networks
from dagopt.model.stage_profile import StageProfiles
from dagopt.model.wire import (
    Concurrency,
    ExecutorAdded,
    ExecutorRemoved,
    Fetch,
    FromJvm,
    FromPlanner,
    HoldFrom,
    Plan,
    Release,
    TaskEnded,
    TaskSetEnded,
    TaskSetSubmitted,
    TaskStarted,
)
from dagopt.policy.grouping.decide import GroupingDecision, GroupingSettings, decide

MAX_DECISIONS = 1000
"""Decisions kept for reports; older ones are in the decision log only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """Everything that the user configures."""

    bandwidths: Bandwidths
    grouping: GroupingSettings = field(default_factory=GroupingSettings)
    networks: Networks = field(default_factory=Networks)


class GroupingController:
    """Decides when the tasks of followed task sets start.

    All state is changed by :meth:`step` alone; reading it from outside is for reports and tests.
    """

    def __init__(self, settings: ControllerSettings, profiles: StageProfiles | None = None) -> None:
        """A controller that has seen nothing but, perhaps, the profile of earlier applications."""
        self.settings = settings
        self.bandwidths = settings.bandwidths
        self.knowledge = Knowledge(profiles)
        self.tasks = TaskTracker()
        self.stages: dict[StageKey, StageState] = {}
        self.decisions: deque[Decision] = deque(maxlen=MAX_DECISIONS)
        self.groups: deque[tuple[StageKey, GroupState]] = deque(maxlen=MAX_DECISIONS)
        """The last groups that were formed, of any stage, for reports."""
        self.num_decisions = 0
        """All of them, those no longer kept included."""
        self.num_task_sets = 0
        self.num_recalculations = 0
        """How often I/O costs were calculated anew; see the module's text."""
        self.idle_hold_s = 0.0
        """Core seconds in which a core idled while tasks were held."""
        self._epoch = 0
        self._last_s = 0.0
        self._launcher = Launcher(settings.grouping)

    def step(self, event: FromJvm, now_s: float) -> list[FromPlanner]:
        """Take in one event and say what is to be done about it.

        Args:
            event: what happened.
            now_s: epoch seconds, not earlier than at the last step.

        Raises:
            InputError: the event contradicts itself; nothing has changed then.
        """
        self._count_idle(now_s)
        match event:
            case ExecutorAdded():
                return self._executor_added(event, now_s)
            case ExecutorRemoved():
                return self._executor_removed(event, now_s)
            case TaskSetSubmitted():
                return self._task_set(event, now_s)
            case TaskStarted():
                return self._task_started(event, now_s)
            case Fetch():
                return self._fetch(event, now_s)
            case TaskEnded():
                return self._task_ended(event, now_s)
            case TaskSetEnded():
                return self._task_set_ended(event, now_s)
            case _:
                return []

    # Executors

    def _executor_added(self, event: ExecutorAdded, now_s: float) -> list[FromPlanner]:
        if event.executor in self.tasks.executors or event.cores <= 0:
            return []
        self._epoch += 1
        executor = ExecutorState(
            executor=event.executor,
            host=event.host,
            network=self.settings.networks.of(event.host),
            cores=event.cores,
            epoch=self._epoch,
            compute=ShareClock(capacity=event.cores, now_s=now_s),
        )
        self.tasks.add_executor(executor, now_s)
        self._recalculate()
        out: list[FromPlanner] = [self._hold_from()]
        for stage in self.stages.values():
            out += self._fill(stage, executor, now_s)
        return out

    def _executor_removed(self, event: ExecutorRemoved, now_s: float) -> list[FromPlanner]:
        if self.tasks.remove_executor(event.executor, now_s) is None:
            return []
        out: list[FromPlanner] = [self._hold_from()]
        for stage in self.stages.values():
            stage.fetching.pop(event.executor, None)
            if stage.in_flight.pop(event.executor, 0) > 0 and stage.is_held:
                out += self._release(stage, now_s, f"executor {event.executor} was lost")
        return out

    def _hold_from(self) -> HoldFrom:
        return HoldFrom(num_tasks=self.settings.grouping.hold_from(self.tasks.total_cores))

    # Task sets

    def _task_set(self, event: TaskSetSubmitted, now_s: float) -> list[FromPlanner]:
        told = submission(
            event, self._executors(), self.settings.networks, self.bandwidths, self.knowledge
        )
        self.num_task_sets += 1
        decision = decide(told.outlook, self.settings.grouping)
        held = event.hold and decision.action == "group"
        order = told.launch_order() if decision.action != "pass" else None
        stage = StageState(told, decision, order if held else None)
        self.stages[stage.key] = stage
        self._record(stage, now_s)
        out: list[FromPlanner] = [
            Plan(
                stage=event.stage,
                attempt=event.attempt,
                action=decision.action,
                tasks_per_core=decision.concurrency.tasks_per_core,
                order=order.tolist() if order is not None and decision.action == "order" else None,
                reason=decision.reason,
            )
        ]
        if held:
            out += self._fill_in_turn(stage, now_s)
        return out

    def _task_set_ended(self, event: TaskSetEnded, now_s: float) -> list[FromPlanner]:
        stage = self.stages.pop((event.stage, event.attempt), None)
        if stage is not None:
            self.tasks.forget(lambda key: key[:2] == stage.key, now_s)
            self._observe(stage)
            self._learn(stage)
        return []

    def _release(
        self, stage: StageState, now_s: float, reason: str, decision: GroupingDecision | None = None
    ) -> list[FromPlanner]:
        """Give everything that is left back to Spark."""
        stage.decision = replace(decision or stage.decision, action="pass", reason=reason)
        for group in stage.groups.values():
            group.launch_s = min(group.launch_s, now_s)
        stage.release()
        self._record(stage, now_s, action="release")
        return [Release(stage=stage.key[0], attempt=stage.key[1], reason=reason)]

    # Tasks

    def _task_started(self, event: TaskStarted, now_s: float) -> list[FromPlanner]:
        stage = self.stages.get((event.stage, event.attempt))
        if stage is None:
            return []
        if not 0 <= event.task < stage.task_set.num_tasks:
            wrong = f"task is {event.task}, must be 0 to {stage.task_set.num_tasks - 1}"
            raise InputError(f"stage {event.stage}.{event.attempt}: {wrong}")
        group = None if event.speculative else stage.group_with(event.task)
        key = (event.stage, event.attempt, event.task, event.executor)
        number = group.group if group is not None else None
        if not self.tasks.start(key, number, stage.source_name(event.task), now_s):
            return []
        executor = self.tasks.executors[event.executor]
        out: list[FromPlanner] = []
        is_first = group is not None and len(group.waiting) == len(group.tasks)
        stage.started(event.task, event.executor, group)
        if group is not None and is_first:
            # From now on the group's reading is timed from its true start.
            stage.lanes[group.host_set].occupy(group.group, group.host, now_s + group.reading_s)
            group.launch_s = min(group.launch_s, now_s)
            out += self._launcher.retime(stage, group.host_set, now_s)
        return [*out, *self._fill(stage, executor, now_s)]

    def _fetch(self, event: Fetch, now_s: float) -> list[FromPlanner]:
        executor = self.tasks.executors.get(event.executor)
        if executor is None:
            return []
        self.tasks.sample(event, now_s)
        out: list[FromPlanner] = []
        for stage_id, attempt, task, read_bytes, done, still_ms in event.tasks:
            key = (stage_id, attempt, task, event.executor)
            run = self.tasks.running.get(key)
            stage = self.stages.get((stage_id, attempt))
            if run is None or stage is None or not run.fetching:
                continue
            group = stage.groups.get(run.group) if run.group is not None else None
            if done:
                self.tasks.read(key, now_s, still_ms / 1000)
                stage.read(event.executor)
                if group is not None:
                    out += self._group_read(stage, group, task, now_s)
                out += self._fill(stage, executor, now_s)
            elif group is not None:
                expected = float(stage.task_set.inputs.task_bytes[task])
                predicted_s = group.io_s / len(group.tasks) if group.is_predicted else None
                left_s = run.left_s(expected, read_bytes, now_s, predicted_s)
                if left_s is not None:
                    stage.lanes[group.host_set].occupy(group.group, group.host, now_s + left_s)
                    out += self._launcher.retime(stage, group.host_set, now_s)
        return out

    def _task_ended(self, event: TaskEnded, now_s: float) -> list[FromPlanner]:
        stage = self.stages.get((event.stage, event.attempt))
        key = (event.stage, event.attempt, event.task, event.executor)
        run = self.tasks.running.get(key)
        if stage is None or run is None:
            self.tasks.forget(lambda other: other == key, now_s)
            return []
        if run.fetching:
            stage.read(event.executor)
        measure = self.tasks.end(
            key, event, now_s, blocks_only=stage.reads_blocks, python=stage.python
        )
        stage.ended(event.executor)
        if measure is not None and not event.speculative:
            stage.measured.add(event, measure)
            if not stage.reads_blocks:
                self._compare(stage, event, measure.io_s)
        out: list[FromPlanner] = []
        group = stage.groups.get(run.group) if run.group is not None else None
        if group is not None:
            out += self._group_read(stage, group, event.task, now_s)
            group.waiting.discard(event.task)
            group.open.discard(event.task)
            if not group.open:
                out += self._group_finished(stage, group, now_s)
        return [*out, *self._fill(stage, self.tasks.executors[event.executor], now_s)]

    # Groups

    def _group_read(
        self, stage: StageState, group: GroupState, task: int, now_s: float
    ) -> list[FromPlanner]:
        """One task of a group has read its input, or ended."""
        if not stage.source_read(group, task):
            return []
        stage.lanes[group.host_set].free(group.group, group.host)
        return self._launcher.retime(stage, group.host_set, now_s)

    def _group_finished(
        self, stage: StageState, group: GroupState, now_s: float
    ) -> list[FromPlanner]:
        """The second trigger: costs are calculated again, the group's resources go to the next."""
        stage.drop_group(group)
        self._observe(stage)
        self._recalculate()
        if stage.cpu_known or stage.measured.num_tasks == 0:
            return []
        stage.cpu_known = True
        return self._decide_again(stage, now_s)

    def _compare(self, stage: StageState, event: TaskEnded, io_s: float) -> None:
        """Keep what was predicted and what was measured for one task's reading."""
        executor = self.tasks.executors[event.executor]
        host_set = stage.host_set(event.task, executor.host)
        if not host_set.networks or io_s <= 0:
            return
        cost = cost_for(stage, executor, self.bandwidths)
        network_s, local_s = cost.tasks_s(stage.task_set.inputs, [event.task], host_set)
        key = (executor.network, host_set)
        predicted_s, measured_s = stage.network_io.get(key, (0.0, 0.0))
        measured_s += io_s - min(local_s, io_s / 2)
        stage.network_io[key] = (predicted_s + network_s, measured_s)

    def _observe(self, stage: StageState) -> None:
        """Correct the bandwidths by what tasks have shown since the last time."""
        for (network, host_set), (predicted_s, measured_s) in stage.network_io.items():
            self.bandwidths = self.bandwidths.observed(
                network, host_set.networks, predicted_s, measured_s
            )
        stage.network_io.clear()

    def _decide_again(self, stage: StageState, now_s: float) -> list[FromPlanner]:
        """The first group of a stage not seen before has finished: now its cost is known."""
        self._learn(stage)
        told = stage.told.again(self._executors(), self.bandwidths, self.knowledge)
        decision = decide(told.outlook, self.settings.grouping)
        stage.told = told
        if decision.action != "group":
            return self._release(stage, now_s, decision.reason, decision) if stage.is_held else []
        before = stage.decision.concurrency.tasks_per_core
        stage.decision = decision
        self._record(stage, now_s, action="concurrency")
        after = decision.concurrency.tasks_per_core
        if after == before:
            return []
        return [Concurrency(stage=stage.key[0], attempt=stage.key[1], tasks_per_core=after)]

    # Private

    def _executors(self) -> list[ExecutorState]:
        return [self.tasks.executors[name] for name in sorted(self.tasks.executors)]

    def _fill_in_turn(self, stage: StageState, now_s: float) -> list[FromPlanner]:
        """Fill all executors, a group each in turn: the first must not get all the long tasks."""
        out: list[FromPlanner] = []
        with_room = self._executors()
        while with_room:  # a pass forms at least one group or is the last one
            filled = [(each, self._fill(stage, each, now_s, max_groups=1)) for each in with_room]
            out += [launch for _, launches in filled for launch in launches]
            with_room = [executor for executor, launches in filled if launches]
        return out

    def _fill(
        self,
        stage: StageState,
        executor: ExecutorState,
        now_s: float,
        max_groups: int | None = None,
    ) -> Sequence[FromPlanner]:
        if not stage.is_held or not len(stage.unlaunched):
            return []
        launches = self._launcher.fill(
            stage,
            executor,
            self.bandwidths,
            now_s,
            num_reader_hosts=len(self.tasks.hosts),
            share_fraction=executor.cores / self.tasks.total_cores,
            max_groups=max_groups,
        )
        self.groups.extend((stage.key, stage.groups[launch.group]) for launch in launches)
        return launches

    def _recalculate(self) -> None:
        self.num_recalculations += 1
        for stage in self.stages.values():
            stage.costs.clear()

    def _learn(self, stage: StageState) -> None:
        """Take what the stage's tasks took so far into the knowledge."""
        self.knowledge.learn(
            stage.task_set.signature,
            stage.measured,
            tasks_per_core=stage.decision.concurrency.tasks_per_core,
            reads_blocks=stage.reads_blocks,
        )

    def _record(self, stage: StageState, now_s: float, action: str | None = None) -> None:
        self.num_decisions += 1
        self.decisions.append(stage.decided(now_s, action))

    def _count_idle(self, now_s: float) -> None:
        span_s = max(0.0, now_s - self._last_s) if self._last_s else 0.0
        self._last_s = max(self._last_s, now_s)
        if span_s <= 0:
            return
        held = sum(stage.num_held for stage in self.stages.values())
        if held:
            self.idle_hold_s += span_s * min(self.tasks.idle_cores, held)
