"""A driver that obeys the planner and otherwise does what chance wants.

It keeps Spark's promises: a pinned task runs on its executor, a failed task runs again, what ran on a
lost executor runs again elsewhere. When tasks start, read, end or fail, and in which order, is open.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from dagopt.controller.grouping import GroupingController
from dagopt.model.wire import (
    Concurrency,
    FromJvm,
    FromPlanner,
    HoldFrom,
    Launch,
    Plan,
    Release,
    TaskSetSubmitted,
)
from tests.unit.controller import events as ev


@dataclass
class Driver:
    """Runs one task set to its end and checks every instruction on the way."""

    controller: GroupingController
    message: TaskSetSubmitted
    chance: random.Random
    executors: list[str]
    now_s: float = 0.0
    held: set[int] = field(default_factory=set)
    timers: dict[int, Launch] = field(default_factory=dict)
    fired: set[int] = field(default_factory=set)
    group_of: dict[int, int] = field(default_factory=dict)
    pinned: dict[int, str] = field(default_factory=dict)
    pending: set[int] = field(default_factory=set)
    running: dict[tuple[int, str], bool] = field(default_factory=dict)
    """By task and executor: whether it reads still."""
    speculative: set[tuple[int, str]] = field(default_factory=set)
    done: set[int] = field(default_factory=set)
    next_executor: int = 100

    def run(self) -> None:
        """To the end of the task set."""
        self.held = set(range(self.message.num_tasks))
        self.tell(self.message)
        for _ in range(60 * self.message.num_tasks + 200):
            if len(self.done) == self.message.num_tasks and not self.running:
                break
            self.now_s += self.chance.choice((0.0, 0.05, 0.3))
            self.chance.choice(self.moves())()
        else:
            raise AssertionError(f"no end: {self}")
        self.tell(ev.set_ended(self.message.stage, self.message.attempt))

    def moves(self) -> list[Callable[[], None]]:
        """What can happen next; a driver that holds tasks must be able to do something."""
        slots = 8 * len(self.executors)
        can: list[Callable[[], None]] = [partial(self.fire, group) for group in self.timers]
        if len(self.running) < slots:
            can += [partial(self.start, task) for task in sorted(self.pending)[:3]]
        can += [partial(self.move_on, run) for run in self.running]
        if not can:
            raise AssertionError(f"stands still with {sorted(self.held)} held")
        if self.chance.random() < 0.05:
            can += [self.add_executor, self.lose_executor, self.copy_task]
        return can

    def fire(self, group: int) -> None:
        launch = self.timers.pop(group)
        self.fired.add(group)
        if self.chance.random() < 0.9:  # else another of the driver's threads is ahead
            self.now_s += launch.delay_ms / 1000
        for task in launch.tasks:
            self.held.discard(task)
            self.pending.add(task)
            if launch.executor in self.executors:
                self.pinned[task] = str(launch.executor)

    def start(self, task: int) -> None:
        executor = self.pinned.pop(task, "")
        if executor not in self.executors:
            executor = self.chance.choice(self.executors)
        if (task, executor) in self.running:
            return
        self.pending.discard(task)
        self.running[task, executor] = True
        self.tell(ev.started(task, executor, stage=self.message.stage))

    def move_on(self, run: tuple[int, str]) -> None:
        task, executor = run
        is_reading, draw = self.running[run], self.chance.random()
        if is_reading and draw < 0.3:
            read_bytes = self.chance.randrange(10**6)
            stage = self.message.stage
            self.tell(ev.fetched(task, executor, read_bytes, done=False, stage=stage))
        elif is_reading and draw < 0.7:
            self.running[run] = False
            self.tell(ev.fetched(task, executor, stage=self.message.stage))
        else:
            self.end(run, ok=draw < 0.95)

    def end(self, run: tuple[int, str], *, ok: bool) -> None:
        task, executor = run
        if run not in self.running:
            return
        del self.running[run]
        others = [other for other in self.running if other[0] == task]
        if ok:
            self.done.add(task)
        elif not others and task not in self.done:
            self.pending.add(task)
        is_copy = run in self.speculative
        self.speculative.discard(run)
        self.tell(
            ev.ended(
                task,
                executor,
                to_s=self.chance.random() * 3,
                wait_s=self.chance.random(),
                ok=ok,
                stage=self.message.stage,
                speculative=is_copy,
            )
        )
        for other in others if ok else ():  # Spark kills the other copy
            self.end(other, ok=False)

    def add_executor(self) -> None:
        self.next_executor += 1
        self.executors.append(str(self.next_executor))
        self.tell(ev.added(self.executors[-1], cores=self.chance.choice((1, 2, 4))))

    def lose_executor(self) -> None:
        if len(self.executors) < 2:
            return
        executor = self.executors.pop(self.chance.randrange(len(self.executors)))
        for run in [run for run in self.running if run[1] == executor]:
            del self.running[run]
            self.speculative.discard(run)
            if run[0] not in self.done and all(other[0] != run[0] for other in self.running):
                self.pending.add(run[0])
        self.tell(ev.removed(executor))

    def copy_task(self) -> None:
        for task, executor in self.running:
            others = [other for other in self.executors if (task, other) not in self.running]
            if others and executor:
                run = task, self.chance.choice(others)
                self.running[run] = True
                self.speculative.add(run)
                stage = self.message.stage
                self.tell(ev.started(*run, stage=stage, speculative=True))
                return

    def tell(self, event: FromJvm) -> None:
        for instruction in self.controller.step(event, self.now_s):
            self.obey(instruction)
        check(self.controller)

    def obey(self, instruction: FromPlanner) -> None:
        match instruction:
            case Plan(action="group"):
                pass
            case Plan(order=order):
                assert order is None or sorted(order) == sorted(self.held)
                self.release()
            case Launch(group=group, tasks=tasks, executor=executor, delay_ms=delay_ms):
                assert tasks
                assert executor in self.executors
                assert 0 <= delay_ms <= 10_000
                if group in self.fired:  # it crossed the timer on the way: the driver drops it
                    return
                for task in tasks:
                    assert task in self.held, f"{task} of group {group} is not held"
                    assert self.group_of.setdefault(task, group) == group, f"{task} in two groups"
                before = self.timers.get(group)
                assert before is None or set(before.tasks) == set(tasks)
                self.timers[group] = instruction
            case Release():
                self.release()
            case HoldFrom(num_tasks=num_tasks):
                assert num_tasks >= 1
            case Concurrency(tasks_per_core=tasks_per_core):
                assert tasks_per_core >= 1
            case _:
                raise AssertionError(f"an answer to nothing: {instruction}")

    def release(self) -> None:
        self.pending |= self.held
        self.held.clear()
        self.timers.clear()
        self.pinned.clear()


def check(controller: GroupingController) -> None:
    """What holds after every step."""
    tracker = controller.tasks
    for stage in controller.stages.values():
        assert all(number >= 0 for number in stage.in_flight.values())
        assert all(number >= 0 for number in stage.fetching.values())
        assert stage.num_held >= 0
        in_groups = [task for group in stage.groups.values() for task in group.tasks]
        assert len(in_groups) == len(set(in_groups)), "a task is in two groups"
    for name, executor in tracker.executors.items():
        runs = [run for key, run in tracker.running.items() if key[3] == name]
        assert executor.running == len(runs)
        assert executor.reading == sum(run.fetching for run in runs)
    assert controller.idle_hold_s >= 0
