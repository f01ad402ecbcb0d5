"""Follows running tasks through their two phases, reading and computing, and measures both.

How long a task reads is seen by the probe on its executor where there is one, else only at the
task's end from Spark's fetch wait. Times are corrected for sharing: what a task would have taken
alone on the link, and on a core of its own.

What Spark's metrics do not say is not guessed: where file blocks are read there is no wait to see,
so reading is the time that is neither CPU nor garbage collection, and nothing if a Python worker
(whose CPU time Spark does not see) ran in the stage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dagopt.controller.executor import ExecutorState, HostState, RunKey, RunningTask
from dagopt.cost.share_clock import ShareClock
from dagopt.model.wire import Fetch, TaskEnded

_BLOCKING = 0.5
"""A task whose measured wait is at least this share of its reading was waiting, not computing."""

_RATE_WEIGHT = 0.3
_MIN_SAMPLE_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMeasure:
    """What one task took, each resource to itself, in seconds."""

    io_s: float
    cpu_s: float
    lead_s: float = 0.0
    """Of the time between launch and the last byte, what was no wait for the network: start-up and
    unpacking, in which the link can serve others. Part of ``cpu_s`` too."""


class TaskTracker:
    """Executors, links of hosts, and the tasks that run."""

    def __init__(self) -> None:
        """Nothing runs."""
        self.executors: dict[str, ExecutorState] = {}
        self.hosts: dict[str, HostState] = {}
        self.sources: dict[str, ShareClock] = {}
        """Links of hosts that are the main source of some task that reads now."""
        self.running: dict[RunKey, RunningTask] = {}
        self.total_cores = 0.0
        """Cores of all executors."""
        self.idle_cores = 0.0
        """Cores on which no followed task runs."""

    def add_executor(self, executor: ExecutorState, now_s: float) -> None:
        """A new executor, and its host if that is new."""
        self.executors[executor.executor] = executor
        self._count_cores()
        if executor.host not in self.hosts:
            self.hosts[executor.host] = HostState(link=ShareClock(capacity=1.0, now_s=now_s))

    def remove_executor(self, name: str, now_s: float) -> ExecutorState | None:
        """The executor is gone, with the tasks that ran on it; its host, if it was the last one."""
        self.forget(lambda key: key[3] == name, now_s)
        gone = self.executors.pop(name, None)
        self._count_cores()
        if gone is not None and all(e.host != gone.host for e in self.executors.values()):
            self.hosts.pop(gone.host, None)
        return gone

    def start(self, key: RunKey, group: int | None, source: str | None, now_s: float) -> bool:
        """A task was launched that mainly reads from ``source``, if from any single host.

        False if its executor is not known or it runs already.
        """
        executor = self.executors.get(key[3])
        if executor is None or key in self.running:
            return False
        link = self.hosts[executor.host].link
        if source == executor.host:
            source = None
        self.running[key] = RunningTask(
            group=group,
            started_s=now_s,
            link_mark=link.enter(now_s),
            source=source,
            source_mark=self._source(source, now_s).enter(now_s) if source is not None else 0.0,
        )
        self._count_running(executor, 1)
        executor.reading += 1
        return True

    def read(self, key: RunKey, now_s: float, still_s: float = 0.0) -> None:
        """A task has read its input, as is known now, and computes since ``still_s`` ago.

        The probe needs a moment to be sure of it, which is a large part of a short fetch.
        """
        run = self.running[key]
        executor = self.executors[key[3]]
        run.fetching = False
        executor.reading -= 1
        seen_s = max(now_s - run.started_s, 1e-3)
        still_s = min(still_s, seen_s - 1e-3)
        run.fetched_s = now_s - still_s
        run.alone_io_s = self._leave_links(run, executor.host, now_s) * (1 - still_s / seen_s)
        run.compute_mark = executor.compute.enter(now_s)
        run.compute_mark -= still_s * executor.compute.rate

    def end(
        self, key: RunKey, event: TaskEnded, now_s: float, *, blocks_only: bool, python: bool
    ) -> TaskMeasure | None:
        """A task ended; what it took, None if it did not run here or not end well."""
        run = self.running.pop(key, None)
        if run is None:
            return None
        executor = self.executors[key[3]]
        self._count_running(executor, -1)
        elapsed_s = max((event.finish_ms - event.launch_ms) / 1000, 1e-3)
        wait_s = min(event.fetch_wait_ms / 1000, elapsed_s)
        # Share of the cores now: for tasks whose compute phase was not seen to begin.
        computing = executor.compute.sharers + (1 if run.fetching else 0)
        share = min(1.0, executor.cores / max(computing, 1))
        if run.fetching:
            executor.reading -= 1
            alone_s = self._leave_links(run, executor.host, now_s)
            reading_s = max(now_s - run.started_s, 1e-3)
            compute_s = None
        else:
            compute_s = executor.compute.leave(now_s) - run.compute_mark
            alone_s = run.alone_io_s
            reading_s = max(run.fetched_s - run.started_s, 1e-3)
        if not event.ok:
            return None
        if blocks_only:
            busy_s = event.cpu_ms / 1000 + event.gc_ms / 1000
            io_s = 0.0 if python else max(0.0, elapsed_s - busy_s)
            return TaskMeasure(io_s=io_s, cpu_s=elapsed_s - io_s)
        alone_fraction = min(1.0, alone_s / reading_s)
        if compute_s is not None and wait_s >= _BLOCKING * reading_s:
            waiting = min(1.0, wait_s / reading_s)
            lead_s = (1 - waiting) * reading_s
            return TaskMeasure(
                io_s=alone_s * waiting, cpu_s=compute_s + lead_s * share, lead_s=lead_s
            )
        return TaskMeasure(io_s=wait_s * alone_fraction, cpu_s=(elapsed_s - wait_s) * share)

    def forget(self, which: Callable[[RunKey], bool], now_s: float) -> None:
        """Some tasks are no longer followed."""
        for key in [key for key in self.running if which(key)]:
            run = self.running.pop(key)
            executor = self.executors[key[3]]
            self._count_running(executor, -1)
            if run.fetching:
                executor.reading -= 1
                self._leave_links(run, executor.host, now_s)
            else:
                executor.compute.leave(now_s)

    def _count_cores(self) -> None:
        self.total_cores = sum(each.cores for each in self.executors.values())
        self.idle_cores = sum(_idle_cores(each) for each in self.executors.values())

    def _count_running(self, executor: ExecutorState, change: int) -> None:
        self.idle_cores -= _idle_cores(executor)
        executor.running += change
        self.idle_cores += _idle_cores(executor)

    def _source(self, name: str, now_s: float) -> ShareClock:
        return self.sources.setdefault(name, ShareClock(capacity=1.0, now_s=now_s))

    def _leave_links(self, run: RunningTask, host: str, now_s: float) -> float:
        """The task stops reading; seconds that its reading would have taken alone on the links."""
        alone_s = self.hosts[host].link.leave(now_s) - run.link_mark
        if run.source is None:
            return alone_s
        clock = self.sources[run.source]
        served_s = clock.leave(now_s) - run.source_mark
        if clock.sharers == 0:
            del self.sources[run.source]
        return min(alone_s, served_s)

    def sample(self, event: Fetch, now_s: float) -> None:
        """Learn an executor's total rate of reading from two reports of all its reading tasks."""
        executor = self.executors[event.executor]
        last, executor.sample = executor.sample, None
        read: dict[RunKey, int] = {}
        for stage, attempt, task, read_bytes, *_ in event.tasks:
            key = (stage, attempt, task, event.executor)
            run = self.running.get(key)
            if run is not None and run.fetching:
                read[key] = read_bytes
        if not read or len(read) < executor.reading:
            return
        executor.sample = (now_s, read)
        if last is None or last[1].keys() != read.keys():
            return
        span_s = now_s - last[0]
        if span_s < _MIN_SAMPLE_S:
            executor.sample = last
            return
        rate = max(0, sum(read.values()) - sum(last[1].values())) / span_s
        old = executor.rate_bytes_per_s.get(len(read), rate)
        executor.rate_bytes_per_s[len(read)] = old + _RATE_WEIGHT * (rate - old)


def _idle_cores(executor: ExecutorState) -> float:
    return max(0.0, executor.cores - executor.running)
