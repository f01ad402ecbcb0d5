"""What the planner tells of itself: for reports, for the tab of Spark's user interface, for metrics."""

from __future__ import annotations

from collections.abc import Reversible
from itertools import islice
from typing import Any, TypeVar

from dagopt.controller.application import ApplicationController
from dagopt.controller.group import GroupState
from dagopt.controller.grouping import GroupingController
from dagopt.controller.state import StageKey, StageState
from dagopt.model.wire import Counts, ReportRequest
from dagopt.reporting.live import MAX_ROWS, live_lines, live_tables

T = TypeVar("T")


def counts(application: ApplicationController) -> Counts:
    """What there was so far."""
    grouping, boundary = application.grouping, application.boundary
    return Counts(
        decisions=grouping.num_decisions,
        gpu_decisions=boundary.num_decisions,
        gpu_shifts=boundary.num_shifts,
        idle_hold_s=round(grouping.idle_hold_s, 3),
        gpu_allocated_s=round(boundary.used.allocated_s, 3),
        gpu_busy_s=round(boundary.used.busy_s, 3),
        gpu_idle_s=round(boundary.used.idle_s, 3),
    )


def report_body(
    application: ApplicationController, asked: ReportRequest, now_s: float
) -> dict[str, Any]:
    """What a report shows of what was decided and measured; or the lines and tables of a view.

    Args:
        application: whose decisions they are.
        asked: what is wanted.
        now_s: epoch seconds.
    """
    if not asked.view:
        groups = [
            _group(key, group, tasks=list(group.tasks))
            for key, group in application.grouping.groups
        ]
        body = _decided(application, now_s, None)
        return {**body, "groups": groups, **_measured(application.grouping)}
    # Plans wait for a view, so what it has no rows for is left out before anything is made of it.
    newest = _newest(application.grouping.groups, MAX_ROWS)
    known = {
        **_decided(application, now_s, MAX_ROWS),
        "groups": [_group(key, group) for key, group in newest],
        "mode": asked.mode,
        "gate": asked.gate,
    }
    return {
        "lines": live_lines(known),
        "tables": [table.to_dict() for table in live_tables(known)],
    }


def no_report(error: Exception) -> dict[str, Any]:
    """The body of a report, or of a view, that could not be made."""
    why = f"{type(error).__name__}: {error}"
    return {"error": why, "lines": [f"The planner could not make this view: {why}"], "tables": []}


# Private functions


def _decided(application: ApplicationController, now_s: float, most: int | None) -> dict[str, Any]:
    """What was decided, the newest ``most`` of what may be large."""
    controller, boundary = application.grouping, application.boundary
    held = [stage for _, stage in sorted(controller.stages.items()) if stage.num_held]
    return {
        "time_s": now_s,
        "totals": {
            "decisions": controller.num_decisions,
            "held": len(held),
            "groups": len(controller.groups),
            "gpu_stages": boundary.num_decisions,
        },
        "decisions": [decision.to_dict() for decision in _newest(controller.decisions, most)],
        "held": [_held(stage, now_s) for stage in _newest(held, most)],
        "gpu_stages": [decision.to_dict() for decision in _newest(boundary.decisions, most)],
        "gpu_shifts": [shift.to_dict() for shift in boundary.shifts],
        "gpu_use": [use.to_dict() for use in boundary.uses],
        "task_sets": controller.num_task_sets,
        "idle_hold_s": round(controller.idle_hold_s, 3),
    }


def _measured(controller: GroupingController) -> dict[str, Any]:
    return {
        "recalculations": controller.num_recalculations,
        "executors": [
            {"executor": e.executor, "host": e.host, "network": e.network, "cores": e.cores}
            for _, e in sorted(controller.tasks.executors.items())
        ],
        "host_records": [
            {
                "stage": stage.key[0],
                "attempt": stage.key[1],
                "host": record.host,
                "input_host_set": str(record.input_host_set),
                "num_tasks": int(record.tasks.size),
                "allocation_epoch": record.allocation_epoch,
                "min_io_s": round(float(record.io_s.min()), 4),
                "total_io_s": round(record.total_io_s, 4),
            }
            for _, stage in sorted(controller.stages.items())
            for record in stage.told.records
        ],
        "bandwidths": [
            {"reader": reader, "source": source, "bytes_per_s": round(rate)}
            for (reader, source), rate in sorted(controller.bandwidths.learned.items())
        ],
    }


def _held(stage: StageState, now_s: float) -> dict[str, Any]:
    """A stage of which tasks have not started because of dagopt."""
    delayed = [group.launch_s for group in stage.groups.values() if group.launch_s > now_s]
    return {
        "stage": stage.key[0],
        "attempt": stage.key[1],
        "name": stage.task_set.name,
        "num_tasks": stage.task_set.num_tasks,
        "num_held": stage.num_held,
        "num_delayed_groups": len(delayed),
        "next_launch_s": min(delayed, default=None),
    }


def _newest(found: Reversible[T], most: int | None) -> list[T]:
    """The last of them, in their order."""
    return list(islice(reversed(found), most))[::-1]


def _group(key: StageKey, group: GroupState, **more: Any) -> dict[str, Any]:
    """A group, with when its delay began and ended, or will."""
    return {
        **more,
        "stage": key[0],
        "attempt": key[1],
        "group": group.group,
        "executor": group.executor,
        "host": group.host,
        "input_host_set": str(group.host_set),
        "num_tasks": len(group.tasks),
        "formed_s": round(group.formed_s, 3),
        "launch_s": round(group.launch_s, 3),
    }
