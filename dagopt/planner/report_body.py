"""What the planner tells of itself: for reports, for the tab of Spark's user interface, for metrics."""

from __future__ import annotations

from typing import Any

from dagopt.controller.application import ApplicationController
from dagopt.controller.group import GroupState
from dagopt.controller.grouping import GroupingController
from dagopt.controller.state import StageKey, StageState
from dagopt.model.wire import Counts, ReportRequest
from dagopt.reporting.live import live_lines, live_tables


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
    body = _decided(application, now_s)
    if not asked.view:
        return {**body, **_measured(application.grouping)}
    known = {**body, "mode": asked.mode, "gate": asked.gate}
    return {
        "lines": live_lines(known),
        "tables": [table.to_dict() for table in live_tables(known)],
    }


# Private functions


def _decided(application: ApplicationController, now_s: float) -> dict[str, Any]:
    controller, boundary = application.grouping, application.boundary
    return {
        "time_s": now_s,
        "decisions": [decision.to_dict() for decision in controller.decisions],
        "held": [
            _held(stage, now_s) for _, stage in sorted(controller.stages.items()) if stage.num_held
        ],
        "groups": [_group(key, group) for key, group in controller.groups],
        "gpu_stages": [decision.to_dict() for decision in boundary.decisions],
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


def _group(key: StageKey, group: GroupState) -> dict[str, Any]:
    """A group, with when its delay began and ended, or will."""
    return {
        "stage": key[0],
        "attempt": key[1],
        "group": group.group,
        "executor": group.executor,
        "host": group.host,
        "input_host_set": str(group.host_set),
        "tasks": list(group.tasks),
        "formed_s": round(group.formed_s, 3),
        "launch_s": round(group.launch_s, 3),
    }
