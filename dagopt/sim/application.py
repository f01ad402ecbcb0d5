"""A whole application on simulated executors, as Spark alone runs it or under the controller.

Stages start when the stages that they follow have ended, each after its own time in the driver. Tasks
are launched, read and compute, one after the other: reading tasks share the link of their host, computing ones the cores of
their executor, each in equal parts. The controller is the live one and is told what the JVM would tell
it; nothing below knows that this is a simulation.

Not modelled: locality waits, failures of executors, memory, links of the hosts that are read from (a
recorded run does not say which task read from which host).
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dagopt.controller.grouping import GroupingController
from dagopt.cost.share_clock import ShareClock
from dagopt.model.wire import Concurrency, FromJvm, FromPlanner, Launch, Plan, Release
from dagopt.sim import app_messages as jvm
from dagopt.sim.app_values import AppExecutor, AppRun, AppStage, AppTaskRun

_EPS = 1e-9


def simulate(
    stages: Sequence[AppStage],
    executors: Sequence[AppExecutor],
    *,
    controller: GroupingController | None = None,
    slots_per_core: float = 1.0,
) -> AppRun:
    """Run an application to its end.

    Args:
        stages: in the order in which they may be submitted; ``after`` names earlier ones.
        executors: at least one that has a core.
        controller: None to run as Spark does.
        slots_per_core: tasks that Spark alone runs on a core at once, > 0.
    """
    return _Simulation(stages, executors, controller, slots_per_core).run()


# Private


@dataclass(slots=True)
class _Server:
    """Tasks that share a link or the cores of an executor."""

    clock: ShareClock
    queue: list[tuple[float, int, _Running]] = field(default_factory=list)
    version: int = 0


@dataclass(slots=True)
class _Executor:
    place: int
    told: AppExecutor
    free: float
    free_gpus: float
    cores: _Server
    link: _Server
    is_open: bool = False
    pinned: dict[int, deque[int]] = field(default_factory=dict)


@dataclass(slots=True)
class _Stage:
    told: AppStage
    place: int
    waits_for: int
    share: float
    """Cores that one of its tasks takes."""
    pending: deque[int] = field(default_factory=deque)
    held: set[int] = field(default_factory=set)
    due: dict[int, Launch] = field(default_factory=dict)
    fired: set[int] = field(default_factory=set)
    left: int = 0
    start_s: float = 0.0
    end_s: float = 0.0
    is_followed: bool = False


@dataclass(slots=True)
class _Running:
    stage: _Stage
    task: int
    executor: _Executor
    share: float
    start_s: float
    begin_s: float = 0.0
    read_s: float = 0.0


class _Simulation:
    def __init__(
        self,
        stages: Sequence[AppStage],
        executors: Sequence[AppExecutor],
        controller: GroupingController | None,
        slots_per_core: float,
    ) -> None:
        self._controller = controller
        self._slots_per_core = slots_per_core
        self._now_s = 0.0
        self._events: list[tuple[float, int, str, Any]] = []
        self._number = 0
        self._runs: list[AppTaskRun] = []
        self._active: list[_Stage] = []
        links: dict[str, _Server] = {}
        self._executors = [
            _Executor(
                place=place,
                told=told,
                free=told.cores,
                free_gpus=told.gpus,
                cores=_Server(ShareClock(capacity=max(told.cores, _EPS), now_s=0.0)),
                link=links.setdefault(told.host, _Server(ShareClock(capacity=1.0, now_s=0.0))),
            )
            for place, told in enumerate(executors)
        ]
        self._by_name = {executor.told.executor: executor for executor in self._executors}
        self._stages = [
            _Stage(
                told=told,
                place=place,
                waits_for=len(set(told.after)),
                share=told.task_cpus / slots_per_core,
                left=len(told.tasks),
            )
            for place, told in enumerate(stages)
        ]
        self._behind: dict[int, list[_Stage]] = {}
        self._by_key = {(stage.told.stage, stage.told.attempt): stage for stage in self._stages}
        for stage in self._stages:
            for earlier in set(stage.told.after):
                self._behind.setdefault(earlier, []).append(stage)
        self._num_left = len(self._stages)

    def run(self) -> AppRun:
        for executor in self._executors:
            self._at(executor.told.added_s, "open", executor)
            if executor.told.removed_s < math.inf:
                self._at(executor.told.removed_s, "close", executor)
        for stage in self._stages:
            if not stage.waits_for:
                self._at(stage.told.delay_s, "submit", stage)
        while self._num_left:
            if not self._events:
                self._unblock()
            self._now_s, _, kind, what = heapq.heappop(self._events)
            self._handle(kind, what)
        return AppRun(
            tasks=tuple(self._runs),
            start_s=tuple(stage.start_s for stage in self._stages),
            end_s=tuple(stage.end_s for stage in self._stages),
        )

    def _at(self, time_s: float, kind: str, what: Any) -> None:
        self._number += 1
        heapq.heappush(self._events, (max(time_s, self._now_s), self._number, kind, what))

    def _handle(self, kind: str, what: Any) -> None:
        match kind:
            case "server":
                self._serve(*what)
            case "submit":
                self._submit(what)
            case "begin":
                self._begin(what)
            case "launch":
                self._launch(*what)
            case "open":
                self._open(what)
            case "close":
                self._close(what)
            case _:
                self._complete(what)

    def _unblock(self) -> None:
        """Nothing will happen: give back what is held, else all executors, as a cluster would."""
        held = [stage for stage in self._active if stage.held or stage.due]
        closed = [executor for executor in self._executors if not executor.is_open]
        if held:
            for stage in held:
                self._put_back(stage, sorted(stage.held))
        elif closed:
            for executor in closed:
                self._open(executor)
        if not self._events:
            self._start_tasks(self._executors)
        if not self._events:
            raise AssertionError(f"stands still at {self._now_s} with {self._num_left} stages left")

    # Executors

    def _open(self, executor: _Executor) -> None:
        executor.is_open = True
        self._tell(jvm.executor_added(executor.told, self._now_s))
        self._start_tasks([executor])

    def _close(self, executor: _Executor) -> None:
        executor.is_open = False
        for place, tasks in executor.pinned.items():
            self._stages[place].pending.extend(tasks)
        executor.pinned.clear()
        self._tell(jvm.executor_removed(executor.told, self._now_s))
        self._start_tasks(self._executors)

    # Stages

    def _submit(self, stage: _Stage) -> None:
        stage.start_s = self._now_s
        told = stage.told
        if not told.tasks:
            self._at(self._now_s + told.tail_s, "complete", stage)
            return
        self._active.append(stage)
        tasks = range(len(told.tasks))
        if self._controller is None or not told.is_told:
            stage.pending.extend(tasks)
        else:
            stage.is_followed = True
            stage.held = set(tasks)
            self._tell(jvm.task_set_submitted(told, self._now_s))
        self._start_tasks(self._executors)

    def _complete(self, stage: _Stage) -> None:
        stage.end_s = self._now_s
        self._num_left -= 1
        for behind in self._behind.get(stage.place, ()):
            behind.waits_for -= 1
            if not behind.waits_for:
                self._at(self._now_s + behind.told.delay_s, "submit", behind)

    # Instructions

    def _tell(self, event: FromJvm) -> None:
        if self._controller is not None:
            for instruction in self._controller.step(event, self._now_s):
                self._obey(instruction)

    def _obey(self, instruction: FromPlanner) -> None:
        if not isinstance(instruction, (Plan, Concurrency, Launch, Release)):
            return
        stage = self._by_key[instruction.stage, instruction.attempt]
        match instruction:
            case Plan(action=action, order=order, tasks_per_core=per_core):
                stage.share = stage.told.task_cpus / per_core
                if action != "group":
                    self._put_back(stage, sorted(stage.held) if order is None else order)
            case Concurrency(tasks_per_core=per_core):
                stage.share = stage.told.task_cpus / per_core
            case Launch(group=group, delay_ms=delay_ms) if group not in stage.fired:
                stage.due[group] = instruction
                self._at(self._now_s + delay_ms / 1000, "launch", (stage, instruction))
            case Release():
                for executor in self._executors:
                    stage.pending.extend(executor.pinned.pop(stage.place, ()))
                self._put_back(stage, sorted(stage.held))

    def _put_back(self, stage: _Stage, tasks: Iterable[int]) -> None:
        stage.due.clear()
        stage.pending.extend(tasks)
        stage.held.clear()
        self._start_tasks(self._executors)

    def _launch(self, stage: _Stage, launch: Launch) -> None:
        if stage.due.get(launch.group) is not launch:
            return  # replaced, or released
        del stage.due[launch.group]
        stage.fired.add(launch.group)
        stage.held.difference_update(launch.tasks)
        executor = self._by_name.get(launch.executor or "")
        if executor is not None and executor.is_open:
            executor.pinned.setdefault(stage.place, deque()).extend(launch.tasks)
            self._start_tasks([executor])
            return
        stage.pending.extend(launch.tasks)
        self._start_tasks(self._executors)

    # Tasks

    def _start_tasks(self, executors: Sequence[_Executor]) -> None:
        """A task an executor in turn, of the stage that was submitted first, while there is room."""
        with_room = [executor for executor in executors if executor.is_open]
        while with_room:
            with_room = [executor for executor in with_room if self._start_one(executor)]

    def _start_one(self, executor: _Executor) -> bool:
        for stage in self._active:
            queue = executor.pinned.get(stage.place) or stage.pending
            if (
                queue
                and stage.share <= executor.free + _EPS
                and stage.told.task_gpus <= executor.free_gpus + _EPS
            ):
                self._start(stage, queue.popleft(), executor)
                return True
        return False

    def _start(self, stage: _Stage, task: int, executor: _Executor) -> None:
        executor.free -= stage.share
        executor.free_gpus -= stage.told.task_gpus
        run = _Running(stage, task, executor, stage.share, self._now_s)
        launch_s = stage.told.tasks[task].launch_s
        if launch_s > 0:
            self._at(self._now_s + launch_s, "begin", run)
        else:
            self._begin(run)
        if stage.is_followed:
            self._tell(jvm.task_started(stage.told, task, executor.told, self._now_s))

    def _begin(self, run: _Running) -> None:
        run.begin_s = self._now_s
        self._enter(run.executor.link, run, run.stage.told.tasks[run.task].io_s)

    def _enter(self, server: _Server, run: _Running, work_s: float) -> None:
        self._number += 1
        mark = server.clock.enter(self._now_s) + work_s
        heapq.heappush(server.queue, (mark, self._number, run))
        self._wake(server)

    def _wake(self, server: _Server) -> None:
        """Look at the server again when the first of its tasks is done."""
        server.version += 1
        if server.queue:
            left_s = (server.queue[0][0] - server.clock.served_s) / server.clock.rate
            self._at(self._now_s + max(0.0, left_s), "server", (server, server.version))

    def _serve(self, server: _Server, version: int) -> None:
        if version != server.version:
            return
        _, _, run = heapq.heappop(server.queue)
        server.clock.leave(self._now_s)
        self._wake(server)
        if server is run.executor.link:
            self._has_read(run)
        else:
            self._has_ended(run)

    def _has_read(self, run: _Running) -> None:
        run.read_s = self._now_s
        told = run.stage.told
        self._enter(run.executor.cores, run, told.tasks[run.task].cpu_s)
        if run.stage.is_followed:
            self._tell(jvm.task_read(told, run.task, run.executor.told, self._now_s))

    def _has_ended(self, run: _Running) -> None:
        stage, told, executor = run.stage, run.stage.told, run.executor
        executor.free += run.share
        executor.free_gpus += told.task_gpus
        stage.left -= 1
        self._runs.append(
            AppTaskRun(
                stage=stage.place,
                task=run.task,
                executor=executor.place,
                start_s=run.start_s,
                read_s=run.read_s,
                end_s=self._now_s,
            )
        )
        if not stage.left:
            self._active.remove(stage)
            self._at(self._now_s + told.tail_s, "complete", stage)
        if stage.is_followed:
            self._tell(
                jvm.task_ended(
                    told,
                    run.task,
                    executor.told,
                    start_s=run.start_s,
                    wait_s=run.read_s - run.begin_s,
                    now_s=self._now_s,
                )
            )
            if not stage.left:
                self._tell(jvm.task_set_ended(told, self._now_s))
        self._start_tasks([executor])
