"""What the runs of an application took, read from its event log.

Runs are told apart by their job group. Times come from the log's own stamps: a stage's
submission and completion, a task's launch and finish. Executor run time is not used, as some
Spark versions multiply it by the task's cpus.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """One successful task."""

    host: str
    index: int
    """Its number in the task set."""

    launch_s: float
    finish_s: float
    remote_bytes: int
    """Shuffle bytes fetched from other hosts."""

    local_bytes: int
    """Shuffle bytes read from its own host."""

    spilled_bytes: int
    jvm_cpu_s: float
    """CPU time of the task's thread in the JVM; Python and garbage collection are not in it."""

    gc_s: float
    """Garbage collection of the executor while the task ran: every task running counts it."""

    fetch_wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRun:
    """One completed stage attempt with its successful tasks."""

    stage_id: int
    submitted_s: float
    completed_s: float
    tasks: tuple[TaskRun, ...]

    @property
    def elapsed_s(self) -> float:
        """Seconds from submission to completion."""
        return self.completed_s - self.submitted_s


def read_runs(log: Path) -> dict[str, list[StageRun]]:
    """The completed stages of each job group, in order of submission."""
    group_of: dict[int, str] = {}
    infos: dict[int, dict[str, Any]] = {}
    tasks: dict[int, list[TaskRun]] = {}
    for event in _events(log):
        kind = event["Event"]
        if kind == "SparkListenerStageSubmitted":
            group_of[event["Stage Info"]["Stage ID"]] = _group(event)
        elif kind == "SparkListenerStageCompleted":
            infos[event["Stage Info"]["Stage ID"]] = event["Stage Info"]
        elif kind == "SparkListenerTaskEnd" and event["Task End Reason"]["Reason"] == "Success":
            tasks.setdefault(event["Stage ID"], []).append(_task(event))
    runs: dict[str, list[StageRun]] = {}
    for stage_id, info in sorted(infos.items(), key=lambda item: item[1]["Submission Time"]):
        if "Failure Reason" in info:
            raise ValueError(f"{log.name}: stage {stage_id} failed: {info['Failure Reason'][:300]}")
        run = StageRun(
            stage_id=stage_id,
            submitted_s=info["Submission Time"] / 1e3,
            completed_s=info["Completion Time"] / 1e3,
            tasks=tuple(tasks.get(stage_id, [])),
        )
        runs.setdefault(group_of[stage_id], []).append(run)
    return runs


def split_log(log: Path, targets: dict[str, Path]) -> None:
    """Write for each job group the application's log with the jobs of this group only.

    Lines that belong to no job (executors, environment, the application itself) are in all, and so are
    those of stages of other jobs whose map outputs the group's stages read.
    """
    lines = log.read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    maps_of = _maps_of(events, targets)
    group_of_stage: dict[int, str] = {}
    group_of_job: dict[int, str] = {}
    group_of_sql: dict[int, str] = {}
    for event in events:
        if event["Event"] == "SparkListenerJobStart":
            group_of_job[event["Job ID"]] = _group(event)
            sql = event.get("Properties", {}).get("spark.sql.execution.id")
            if sql is not None:
                group_of_sql[int(sql)] = _group(event)
        elif event["Event"] == "SparkListenerStageSubmitted":
            group_of_stage[event["Stage Info"]["Stage ID"]] = _group(event)
    kept: dict[str, list[str]] = {group: [] for group in targets}
    for line, event in zip(lines, events, strict=True):
        stage = event.get("Stage ID", event.get("Stage Info", {}).get("Stage ID"))
        if "Job ID" in event:
            groups: Iterable[str] = [group_of_job.get(event["Job ID"], "")]
        elif stage is not None:
            groups = [group_of_stage.get(stage, ""), *maps_of.get(stage, ())]
        elif "executionId" in event:
            groups = [group_of_sql.get(event["executionId"], "")]
        else:
            groups = targets
        for group in groups:
            if group in kept:
                kept[group].append(line)
    for group, target in targets.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("".join(f"{line}\n" for line in kept[group]), encoding="utf-8")


def _maps_of(events: Iterable[dict[str, Any]], groups: Iterable[str]) -> dict[int, set[str]]:
    """Of each stage that wrote map output in a job of none of the groups, those that compute its RDDs."""
    rdds_of: dict[str, set[int]] = {group: set() for group in groups}
    stages: dict[int, tuple[str, set[int]]] = {}
    wrote: set[int] = set()
    for event in events:
        if event["Event"] == "SparkListenerJobStart" and _group(event) in rdds_of:
            for info in event.get("Stage Infos", ()):
                rdds_of[_group(event)] |= _rdds(info)
        elif event["Event"] == "SparkListenerStageSubmitted":
            info = event["Stage Info"]
            stages[info["Stage ID"]] = (_group(event), _rdds(info))
        elif event["Event"] == "SparkListenerTaskEnd":
            written = (event.get("Task Metrics") or {}).get("Shuffle Write Metrics", {})
            if written.get("Shuffle Bytes Written", 0) > 0:
                wrote.add(event["Stage ID"])
    return {
        stage: {group for group, computed in rdds_of.items() if rdds and rdds <= computed}
        for stage, (own, rdds) in stages.items()
        if stage in wrote and own not in rdds_of
    }


def _rdds(stage_info: dict[str, Any]) -> set[int]:
    return {rdd["RDD ID"] for rdd in stage_info.get("RDD Info", ())}


def _events(log: Path) -> Iterable[dict[str, Any]]:
    with log.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _group(event: dict[str, Any]) -> str:
    return str(event.get("Properties", {}).get("spark.jobGroup.id", ""))


def _task(event: dict[str, Any]) -> TaskRun:
    info, metrics = event["Task Info"], event["Task Metrics"]
    read = metrics["Shuffle Read Metrics"]
    return TaskRun(
        host=info["Host"],
        index=info["Index"],
        launch_s=info["Launch Time"] / 1e3,
        finish_s=info["Finish Time"] / 1e3,
        remote_bytes=read["Remote Bytes Read"],
        local_bytes=read["Local Bytes Read"],
        spilled_bytes=metrics["Disk Bytes Spilled"],
        jvm_cpu_s=metrics["Executor CPU Time"] / 1e9,
        gc_s=metrics["JVM GC Time"] / 1e3,
        fetch_wait_s=read["Fetch Wait Time"] / 1e3,
    )
