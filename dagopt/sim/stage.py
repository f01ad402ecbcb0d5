"""One stage on simulated hosts, links and cores, as Spark alone runs it or under the controller.

The controller is the live one and is told what the JVM would tell it; nothing below knows that this
is a simulation. Modelled: slots, cores shared by computing tasks, links shared by reading ones.
Not modelled: scheduling delay, locality waits, failures, memory.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from dagopt.controller.grouping import GroupingController
from dagopt.model.wire import (
    Concurrency,
    ExecutorAdded,
    Fetch,
    FromJvm,
    FromPlanner,
    HoldFrom,
    Launch,
    Plan,
    Release,
    SparseInputs,
    TaskEnded,
    TaskSetEnded,
    TaskSetSubmitted,
    TaskStarted,
)
from dagopt.sim.links import max_min_rates

_STAGE, _ATTEMPT = 1, 0
_EPS = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class SimTask:
    """A task to simulate."""

    read_bytes: dict[str, float]
    """Bytes by source host."""
    cpu_s: float
    """Seconds on a core of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimExecutor:
    """An executor to simulate; every host has one link in and one out."""

    executor: str
    host: str
    cores: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SimCluster:
    """Executors, and the bandwidth of the links of all hosts."""

    executors: tuple[SimExecutor, ...]
    link_bytes_per_s: float
    disk_bytes_per_s: float = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class SimRun:
    """When one task started, had read its input, and ended, in seconds."""

    task: int
    executor: str
    start_s: float
    read_s: float
    end_s: float


@dataclass(slots=True, kw_only=True)
class _Running:
    task: int
    executor: SimExecutor
    start_s: float
    left_bytes: dict[str, float]
    left_cpu_s: float
    read_s: float = field(default=-1.0)


@dataclass(slots=True)
class StageSimulation:
    """Runs one stage; make a new one for the next."""

    cluster: SimCluster
    tasks: Sequence[SimTask]
    controller: GroupingController | None = None
    """None: as Spark runs it."""
    slots_per_core: int = 1
    """Tasks that Spark alone runs on a core at once."""
    name: str = "simulated at stage.py:1"
    begin_s: float = 0.0
    probe_interval_s: float = 0.2
    """Seconds between two reports of the bytes that running tasks have read."""

    now_s: float = 0.0
    launches: list[Launch] = field(default_factory=list)
    planned_s: dict[int, float] = field(default_factory=dict)
    """By task: when the delay of its group was to end, as last told before it did."""
    _pending: list[int] = field(default_factory=list)
    _pinned: dict[str, list[int]] = field(default_factory=dict)
    _timers: list[tuple[float, int, int]] = field(default_factory=list)
    _due: dict[int, Launch] = field(default_factory=dict)
    _fired: set[int] = field(default_factory=set)
    _held: set[int] = field(default_factory=set)
    _running: list[_Running] = field(default_factory=list)
    _runs: list[SimRun] = field(default_factory=list)
    _tasks_per_core: int = 1
    _probe_s: float = 0.0

    def run(self) -> list[SimRun]:
        """Simulate to the end; the runs in order of their ends."""
        self.now_s = self.begin_s
        self._probe_s = self.begin_s + self.probe_interval_s
        self._tasks_per_core = self.slots_per_core
        self._submit()
        while len(self._runs) < len(self.tasks):
            self._start_tasks()
            self._advance()
        self._tell(TaskSetEnded(time_ms=self._now_ms(), stage=_STAGE, attempt=_ATTEMPT, ok=True))
        return self._runs

    def _submit(self) -> None:
        if self.controller is None:
            self._pending = list(range(len(self.tasks)))
            return
        for executor in self.cluster.executors:
            self._tell(
                ExecutorAdded(
                    time_ms=self._now_ms(),
                    executor=executor.executor,
                    host=executor.host,
                    cores=executor.cores,
                )
            )
        self._held = set(range(len(self.tasks)))
        hosts = sorted({host for task in self.tasks for host in task.read_bytes})
        offsets, index, sizes = [0], [], []
        for task in self.tasks:
            for host, size in sorted(task.read_bytes.items()):
                index.append(hosts.index(host))
                sizes.append(round(size))
            offsets.append(len(index))
        self._tell(
            TaskSetSubmitted(
                time_ms=self._now_ms(),
                stage=_STAGE,
                attempt=_ATTEMPT,
                num_tasks=len(self.tasks),
                name=self.name,
                scopes=["Exchange"],
                hosts=hosts,
                inputs=SparseInputs(offsets=offsets, hosts=index, bytes=sizes),
                shuffle_types=["wide"],
                can_raise=True,
            )
        )

    def _tell(self, event: FromJvm) -> None:
        if self.controller is None:
            return
        for instruction in self.controller.step(event, self.now_s):
            self._obey(instruction)

    def _obey(self, instruction: FromPlanner) -> None:
        match instruction:
            case Plan(action=action, order=order, tasks_per_core=per_core):
                self._tasks_per_core = per_core
                if action != "group":
                    self._put_back(order if order is not None else sorted(self._held))
            case Concurrency(tasks_per_core=per_core):
                self._tasks_per_core = per_core
            case Launch(group=group) if group in self._fired:
                pass  # it came too late, as it may over the wire
            case Launch(group=group, delay_ms=delay_ms):
                self.planned_s |= dict.fromkeys(instruction.tasks, self.now_s + delay_ms / 1000)
                self.launches.append(instruction)
                self._due[group] = instruction
                heapq.heappush(
                    self._timers, (self.now_s + delay_ms / 1000, len(self.launches), group)
                )
            case Release():
                self._due.clear()
                for tasks in self._pinned.values():
                    self._pending += tasks
                self._pinned.clear()
                self._put_back(sorted(self._held))
            case HoldFrom():
                pass  # a stage is simulated as if it were held, which makes no difference
            case _:
                raise AssertionError(f"not simulated: {instruction}")

    def _put_back(self, tasks: Sequence[int]) -> None:
        self._pending += tasks
        self._held.difference_update(tasks)

    def _start_tasks(self) -> None:
        while self._timers and self._timers[0][0] <= self.now_s + _EPS:
            _, number, group = heapq.heappop(self._timers)
            launch = self._due.get(group)
            # A later launch of the same group has replaced this timer.
            if launch is None or launch is not self.launches[number - 1]:
                continue
            del self._due[group]
            self._fired.add(group)
            self._held.difference_update(launch.tasks)
            if launch.executor is None:
                self._pending += launch.tasks
            else:
                self._pinned.setdefault(launch.executor, []).extend(launch.tasks)
        started = True
        while started:
            started = False
            for executor in self.cluster.executors:
                busy = sum(run.executor is executor for run in self._running)
                if busy >= executor.cores * self._tasks_per_core:
                    continue
                queue = self._pinned.get(executor.executor) or self._pending
                if queue:
                    self._start(queue.pop(0), executor)
                    started = True

    def _start(self, task: int, executor: SimExecutor) -> None:
        left = {host: size for host, size in self.tasks[task].read_bytes.items() if size > 0}
        self._running.append(
            _Running(
                task=task,
                executor=executor,
                start_s=self.now_s,
                left_bytes=left,
                left_cpu_s=self.tasks[task].cpu_s,
            )
        )
        self._tell(
            TaskStarted(
                time_ms=self._now_ms(),
                stage=_STAGE,
                attempt=_ATTEMPT,
                task=task,
                executor=executor.executor,
            )
        )

    def _advance(self) -> None:
        """Move to the next event: a timer, a transfer that ends, a computation that ends."""
        flows = [(run, host) for run in self._running for host in run.left_bytes]
        crosses = [
            (("disk", host),)
            if host == run.executor.host
            else (("out", host), ("in", run.executor.host))
            for run, host in flows
        ]
        capacity = {
            link: self.cluster.disk_bytes_per_s
            if link[0] == "disk"
            else self.cluster.link_bytes_per_s
            for links in crosses
            for link in links
        }
        rates = max_min_rates(crosses, capacity)
        computing = [run for run in self._running if not run.left_bytes]
        share = {
            run.executor.executor: min(
                1.0, run.executor.cores / sum(other.executor is run.executor for other in computing)
            )
            for run in computing
        }
        spans = [
            run.left_bytes[host] / rate for (run, host), rate in zip(flows, rates, strict=True)
        ]
        spans += [run.left_cpu_s / share[run.executor.executor] for run in computing]
        if self._timers:
            spans.append(max(0.0, self._timers[0][0] - self.now_s))
        if not spans:
            raise AssertionError(f"stands still with {len(self._held)} tasks held at {self.now_s}")
        spans.append(self._probe_s - self.now_s)
        span_s = max(0.0, min(spans))
        self.now_s += span_s
        for (run, host), rate in zip(flows, rates, strict=True):
            run.left_bytes[host] -= rate * span_s
            if run.left_bytes[host] <= rate * _EPS:
                del run.left_bytes[host]
        for run in computing:
            run.left_cpu_s -= share[run.executor.executor] * span_s
        if self.now_s >= self._probe_s - _EPS:
            self._probe_s += self.probe_interval_s
            self._report_reading()
        for run in list(self._running):
            if run.read_s < 0 and not run.left_bytes:
                self._has_read(run)
            elif run in computing and run.left_cpu_s <= _EPS:
                self._has_ended(run)

    def _report_reading(self) -> None:
        for executor in self.cluster.executors:
            rows = []
            for run in self._running:
                if run.executor is executor and run.left_bytes:
                    total = sum(self.tasks[run.task].read_bytes.values())
                    read = round(total - sum(run.left_bytes.values()))
                    rows.append((_STAGE, _ATTEMPT, run.task, read, False, 0))
            if rows:
                self._tell(Fetch(time_ms=self._now_ms(), executor=executor.executor, tasks=rows))

    def _has_read(self, run: _Running) -> None:
        run.read_s = self.now_s
        total = round(sum(self.tasks[run.task].read_bytes.values()))
        self._tell(
            Fetch(
                time_ms=self._now_ms(),
                executor=run.executor.executor,
                tasks=[(_STAGE, _ATTEMPT, run.task, total, True, 0)],
            )
        )

    def _has_ended(self, run: _Running) -> None:
        self._running.remove(run)
        self._runs.append(
            SimRun(
                task=run.task,
                executor=run.executor.executor,
                start_s=run.start_s,
                read_s=run.read_s,
                end_s=self.now_s,
            )
        )
        self._tell(
            TaskEnded(
                time_ms=self._now_ms(),
                stage=_STAGE,
                attempt=_ATTEMPT,
                task=run.task,
                executor=run.executor.executor,
                ok=True,
                launch_ms=round(run.start_s * 1000),
                finish_ms=self._now_ms(),
                fetch_wait_ms=round((run.read_s - run.start_s) * 1000),
                read_bytes=round(sum(self.tasks[run.task].read_bytes.values())),
            )
        )

    def _now_ms(self) -> int:
        return round(self.now_s * 1000)


def elapsed_s(runs: Sequence[SimRun]) -> float:
    """Seconds from the first start to the last end."""
    return max(run.end_s for run in runs) - min(run.start_s for run in runs)
