"""Events of one application, in any order, into one :class:`ApplicationTrace`.

Everything is keyed by (stage, attempt), never by what is running at the moment: ends of tasks
arrive after the end of their stage, or without their start, or not at all.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from dagopt.events import spark_events as ev
from dagopt.events.impossible import is_far, middle_s, possible_span
from dagopt.events.lineage import StageKey, parent_stage_ids
from dagopt.events.python_operators import python_operators
from dagopt.events.stage_rows import StageRows, stamp_s
from dagopt.events.trace import ApplicationTrace, ExecutorTrace, JobTrace, StageTrace, spark_line
from dagopt.model.stage_profile import is_gpu_part, plan_number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dagopt.events.trace import TaskColumns

_RUN_TIME_HAS_CPUS_FROM: Final = (4, 0)


class _Scope(msgspec.Struct, frozen=True, gc=False):
    name: str


_SCOPE: Final = msgspec.json.Decoder(_Scope)


def fold(events: Iterable[ev.Event]) -> ApplicationTrace:
    """The trace of the application that these events are of."""
    state = TraceFold()
    for event in events:
        state.add(event)
    return state.result()


class TraceFold:
    """Takes events one by one; :meth:`result` may be asked at any time.

    Memory grows with stages, task ends and SQL queries, by a short number each, not with the log.
    """

    def __init__(self) -> None:
        self._version = ""
        self._app = ev.ApplicationStart()
        self._shuffle_manager = ""
        self._is_complete = False
        self._first_ms: int | None = None
        self._last_ms: int | None = None
        self._executor_index: dict[str, int] = {}
        self._host_index: dict[str, int] = {}
        self._executors: dict[str, ExecutorTrace] = {}
        self._jobs: dict[int, JobTrace] = {}
        self._task_cpus: dict[int, float] = {}
        self._task_gpus: dict[int, float] = {}
        self._stages: dict[StageKey, StageRows] = {}
        #: What jobs said of stages before any ran, for logs that miss the rest.
        self._planned: dict[int, ev.StageInfo] = {}
        #: Plan numbers of SQL queries by execution id, which is text as a stage's properties have it.
        self._plans: dict[str, str] = {}
        #: Where each task that started and did not end runs, by task id, unique in a log.
        self._running: dict[int, StageKey] = {}

    def add(self, event: ev.Event) -> None:
        """Take one event into account."""
        if isinstance(event, ev.TaskEnd):
            self._task_end(event)
        elif isinstance(event, ev.TaskStart):
            self._task_start(event)
        elif isinstance(event, (ev.StageSubmitted, ev.StageCompleted)):
            self._stage(event)
        elif isinstance(event, (ev.JobStart, ev.JobEnd)):
            self._job(event)
        elif isinstance(event, ev.SqlExecutionStart):
            if event.execution_id is not None and event.plan is not None:
                self._plans[str(event.execution_id)] = plan_number(event.plan)
        elif isinstance(event, (ev.ExecutorAdded, ev.ExecutorRemoved)):
            self._executor(event)
        elif isinstance(event, ev.ResourceProfileAdded):
            self._profile(event)
        elif isinstance(event, ev.LogStart):
            self._version = event.spark_version or self._version
        elif isinstance(event, ev.EnvironmentUpdate):
            properties = event.properties or ev.SparkProperties()
            self._shuffle_manager = properties.shuffle_manager or self._shuffle_manager
        elif isinstance(event, ev.ApplicationStart):
            self._saw(event.time_ms)
            self._app = event
        else:
            self._saw(event.time_ms)
            self._is_complete = True

    def result(self) -> ApplicationTrace:
        """What the events so far say."""
        infos = {key: self._info(key) for key in sorted(self._stages)}
        writers = {key for key, rows in self._stages.items() if rows.wrote_map_output}
        parents = parent_stage_ids(infos, writers)
        told = {key: (stamp_s(i.submitted_ms), stamp_s(i.completed_ms)) for key, i in infos.items()}
        around_s = middle_s(stamp for span in told.values() for stamp in span)
        spans = {key: possible_span(*span, around_s) for key, span in told.items()}
        start_s, end_s = stamp_s(self._app.time_ms or self._first_ms), stamp_s(self._last_ms)
        num_unfinished = dict.fromkeys(infos, 0)
        for key in self._running.values():
            num_unfinished[key] += 1
        columns = {key: self._columns(key, info, around_s) for key, info in infos.items()}
        known_s = np.concatenate(
            [
                np.ravel(list(spans.values())),
                *(
                    stamps
                    for tasks, _ in columns.values()
                    for stamps in (tasks.launch_s, tasks.finish_s)
                ),
            ]
        )
        num_impossible = sum(number for _, number in columns.values()) + sum(
            sum(map(math.isnan, spans[key])) > sum(map(math.isnan, told[key])) for key in infos
        )
        return ApplicationTrace(
            app_id=self._app.app_id or "",
            name=self._app.name or "",
            spark_version=self._version,
            shuffle_manager=self._shuffle_manager,
            start_s=float(np.nanmin(known_s)) if is_far(start_s, around_s) else start_s,
            end_s=float(np.nanmax(known_s)) if is_far(end_s, around_s) else end_s,
            is_complete=self._is_complete,
            executor_names=tuple(self._executor_index),
            host_names=tuple(self._host_index),
            executors=tuple(self._executors.values()),
            jobs=tuple(self._jobs[job_id] for job_id in sorted(self._jobs)),
            stages=tuple(
                self._stage_trace(
                    key, info, parents[key], num_unfinished[key], spans[key], columns[key][0]
                )
                for key, info in infos.items()
            ),
            num_impossible=num_impossible,
        )

    # Private methods: a kind of event each

    def _task_start(self, event: ev.TaskStart) -> None:
        info = event.info
        if info is None or event.stage_id is None:
            return
        self._saw(info.launch_ms)
        key = (event.stage_id, event.attempt or 0)
        rows = self._rows(key)
        if info.task_id is not None and info.task_id not in rows.ended_early:
            self._running[info.task_id] = key

    def _task_end(self, event: ev.TaskEnd) -> None:
        info = event.info
        if info is None or event.stage_id is None:
            return
        self._saw(info.launch_ms)
        self._saw(info.finish_ms)
        rows = self._rows((event.stage_id, event.attempt or 0))
        if info.task_id is not None and self._running.pop(info.task_id, None) is None:
            rows.ended_early.add(info.task_id)
        executor = self._executor_index.setdefault(info.executor or "", len(self._executor_index))
        host = self._host_index.setdefault(info.host or "", len(self._host_index))
        rows.add(event, info, executor, host)

    def _stage(self, event: ev.StageSubmitted | ev.StageCompleted) -> None:
        info = event.info
        if info is None or info.stage_id is None:
            return
        self._saw(info.submitted_ms)
        self._saw(info.completed_ms)
        rows = self._rows((info.stage_id, info.attempt or 0))
        if isinstance(event, ev.StageSubmitted) and event.properties is not None:
            rows.execution_id = event.properties.execution_id
        is_end = isinstance(event, ev.StageCompleted)
        # The completed one knows more, and may come first.
        if is_end or not rows.is_completed:
            rows.info, rows.is_completed = info, is_end

    def _job(self, event: ev.JobStart | ev.JobEnd) -> None:
        self._saw(event.time_ms)
        if event.job_id is None:
            return
        job = self._jobs.get(event.job_id) or JobTrace(
            job_id=event.job_id, stage_ids=(), submitted_s=math.nan, completed_s=math.nan
        )
        if isinstance(event, ev.JobEnd):
            job = dataclasses.replace(job, completed_s=stamp_s(event.time_ms))
        else:
            stages = {s.stage_id: s for s in event.stages or () if s.stage_id is not None}
            self._planned = stages | self._planned
            stage_ids = tuple(sorted(event.stage_ids or stages))
            submitted_s = stamp_s(event.time_ms)
            job = dataclasses.replace(job, stage_ids=stage_ids, submitted_s=submitted_s)
        self._jobs[event.job_id] = job

    def _profile(self, event: ev.ResourceProfileAdded) -> None:
        if event.profile_id is None:
            return
        for name, amounts in (("cpus", self._task_cpus), ("gpu", self._task_gpus)):
            request = (event.task_requests or {}).get(name)
            if request is not None and (request.amount or 0) > 0:
                amounts[event.profile_id] = request.amount or 0.0

    def _executor(self, event: ev.ExecutorAdded | ev.ExecutorRemoved) -> None:
        self._saw(event.time_ms)
        if event.executor is None:
            return
        executor = self._executors.get(event.executor) or ExecutorTrace(
            executor=event.executor, host="", cores=0, gpus=0, added_s=math.nan, removed_s=math.nan
        )
        if isinstance(event, ev.ExecutorRemoved):
            # A decommissioned one is removed twice, the second time by its worker.
            if math.isnan(executor.removed_s):
                executor = dataclasses.replace(executor, removed_s=stamp_s(event.time_ms))
        else:
            info = event.info or ev.ExecutorInfo()
            gpus = (info.resources or {}).get("gpu")
            executor = dataclasses.replace(
                executor,
                host=info.host or "",
                cores=max(0, info.cores or 0),
                gpus=len(gpus.addresses or ()) if gpus is not None else 0,
                added_s=stamp_s(event.time_ms),
            )
        self._executors[event.executor] = executor

    # Private methods: state and result

    def _saw(self, time_ms: int | None) -> None:
        if time_ms is None or time_ms <= 0:
            return
        if self._last_ms is None or time_ms > self._last_ms:
            self._last_ms = time_ms
        if self._first_ms is None or time_ms < self._first_ms:
            self._first_ms = time_ms

    def _rows(self, key: StageKey) -> StageRows:
        rows = self._stages.get(key)
        if rows is None:
            rows = self._stages[key] = StageRows()
        return rows

    def _info(self, key: StageKey) -> ev.StageInfo:
        """What is known of a stage attempt: from its own events, else from its job's."""
        info = self._stages[key].info
        if info is not None:
            return info
        planned = self._planned.get(key[0])
        if planned is None:
            return ev.StageInfo()
        # A later attempt has fewer tasks than the plan.
        num_tasks = planned.num_tasks if key[1] == 0 else None
        return msgspec.structs.replace(planned, num_tasks=num_tasks)

    def _columns(
        self, key: StageKey, info: ev.StageInfo, around_s: float
    ) -> tuple[TaskColumns, int]:
        has_cpus = spark_line(self._version) >= _RUN_TIME_HAS_CPUS_FROM
        cpus = self._task_cpus.get(info.profile_id or 0, 1.0) if has_cpus else 1.0
        return self._stages[key].columns(cpus, around_s)

    def _stage_trace(
        self,
        key: StageKey,
        info: ev.StageInfo,
        parents: tuple[int, ...],
        num_unfinished: int,
        span_s: tuple[float, float],
        tasks: TaskColumns,
    ) -> StageTrace:
        rdds = sorted(
            (rdd for rdd in info.rdds or () if rdd.rdd_id is not None), key=lambda r: r.rdd_id or 0
        )
        profile_id = info.profile_id or 0
        rows = self._stages[key]
        return StageTrace(
            stage_id=key[0],
            attempt=key[1],
            name=info.name or "",
            scopes=tuple(_scope_name(rdd) for rdd in rdds),
            gpu_parts=tuple(sorted({r.name for r in rdds if r.name and is_gpu_part(r.name)})),
            plan=self._plans.get(rows.execution_id or "", ""),
            rdd_ids=tuple(rdd.rdd_id or 0 for rdd in rdds),
            parent_stage_ids=parents,
            num_tasks=max(0, info.num_tasks or 0),
            submitted_s=span_s[0],
            completed_s=span_s[1],
            failure=info.failure,
            resource_profile_id=profile_id,
            task_cpus=self._task_cpus.get(profile_id, 1.0),
            task_gpus=self._task_gpus.get(profile_id, 0.0),
            python_operators=python_operators(info.accumulables or ()),
            is_barrier=any(rdd.barrier for rdd in rdds),
            num_unfinished=num_unfinished,
            tasks=tasks,
        )


def _scope_name(rdd: ev.RddInfo) -> str:
    """The name of the RDD's operation scope, or of the RDD where it has none."""
    if rdd.scope:
        try:
            return _SCOPE.decode(rdd.scope).name
        except msgspec.DecodeError:
            pass
    return rdd.name or ""
