"""Lines of an event log, made in Spark's form with only what a test names."""

from __future__ import annotations

import json
from typing import Any


def line(event: str, **fields: Any) -> bytes:
    """One event; underscores in a field's name stand for blanks."""
    named = {name.replace("_", " "): value for name, value in fields.items()}
    return json.dumps({"Event": f"SparkListener{event}", **named}, separators=(",", ":")).encode()


def log_start(version: str = "4.3.0") -> bytes:
    return line("LogStart", Spark_Version=version)


def application_start(time_ms: int = 1_000) -> bytes:
    return line("ApplicationStart", App_Name="etl", App_ID="app-1", Timestamp=time_ms)


def application_end(time_ms: int = 9_000) -> bytes:
    return line("ApplicationEnd", Timestamp=time_ms)


def rdd(rdd_id: int, scope: str | None = None, parents: list[int] | None = None) -> dict[str, Any]:
    info: dict[str, Any] = {"RDD ID": rdd_id, "Name": "MapPartitionsRDD"}
    if scope is not None:
        info["Scope"] = json.dumps({"id": str(rdd_id), "name": scope})
    if parents is not None:
        info["Parent IDs"] = parents
    return info


def stage_info(stage_id: int = 0, num_tasks: int = 2, **more: Any) -> dict[str, Any]:
    return {
        "Stage ID": stage_id,
        "Stage Attempt ID": 0,
        "Stage Name": "count at /home/me/job.py:12",
        "Number of Tasks": num_tasks,
        "RDD Info": [rdd(7, "WholeStageCodegen (3)"), rdd(6, "Exchange", [1])],
        **{name.replace("_", " "): value for name, value in more.items()},
    }


def stage_completed(stage_id: int = 0, num_tasks: int = 2, **more: Any) -> bytes:
    return line("StageCompleted", Stage_Info=stage_info(stage_id, num_tasks, **more))


def stage_submitted(stage_id: int = 0, *, execution_id: str | None = None, **more: Any) -> bytes:
    own = {} if execution_id is None else {"spark.sql.execution.id": execution_id}
    properties = {"spark.scheduler.pool": "p", **own}
    info = stage_info(stage_id, **more)
    return line("StageSubmitted", Stage_Info=info, Properties=properties)


def sql_execution_start(execution_id: int, plan: str | None) -> bytes:
    event = {
        "Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart",
        "executionId": execution_id,
        "details": "at X.java:3",
        "physicalPlanDescription": plan,
        "sparkPlanInfo": {"nodeName": "AdaptiveSparkPlan", "children": []},
        "time": 1,
    }
    return json.dumps(event, separators=(",", ":")).encode()


def task_info(index: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "Task ID": index,
        "Index": index,
        "Attempt": 0,
        "Launch Time": 2_000,
        "Executor ID": "1",
        "Host": "host-a",
        "Speculative": False,
        "Getting Result Time": 0,
        "Finish Time": 5_000,
        **{name.replace("_", " "): value for name, value in more.items()},
    }


def metrics(**more: Any) -> dict[str, Any]:
    return {
        "Executor Deserialize Time": 10,
        "Executor Run Time": 2_900,
        "Executor CPU Time": 1_500_000_000,
        "JVM GC Time": 100,
        "Disk Bytes Spilled": 0,
        "Peak Execution Memory": 4096,
        "Shuffle Read Metrics": {
            "Fetch Wait Time": 1_000,
            "Remote Bytes Read": 3_000,
            "Local Bytes Read": 1_000,
            "Remote Blocks Fetched": 5,
            "Local Blocks Fetched": 2,
        },
        "Shuffle Write Metrics": {"Shuffle Bytes Written": 50, "Shuffle Write Time": 2_000_000},
        "Input Metrics": {"Bytes Read": 0},
        "Output Metrics": {"Bytes Written": 0},
        **{name.replace("_", " "): value for name, value in more.items()},
    }


def task_start(index: int = 0, stage_id: int = 0, **more: Any) -> bytes:
    info = task_info(index, **{"Finish_Time": 0, **more})
    return line("TaskStart", Stage_ID=stage_id, Stage_Attempt_ID=0, Task_Info=info)


def task_end(
    index: int = 0,
    stage_id: int = 0,
    *,
    attempt: int = 0,
    reason: str = "Success",
    task_metrics: dict[str, Any] | None = None,
    **more: Any,
) -> bytes:
    return line(
        "TaskEnd",
        Stage_ID=stage_id,
        Stage_Attempt_ID=attempt,
        Task_Type="ResultTask",
        Task_End_Reason={"Reason": reason},
        Task_Info=task_info(index, **more),
        Task_Metrics=metrics() if task_metrics is None else task_metrics,
    )


def small_log() -> list[bytes]:
    """An application of one stage with two tasks, whole."""
    return [
        log_start(),
        application_start(),
        line("JobStart", Job_ID=0, Submission_Time=1_500, Stage_IDs=[0], Stage_Infos=[]),
        task_start(0),
        task_start(1),
        task_end(0),
        task_end(1),
        stage_completed(Submission_Time=1_900, Completion_Time=5_100),
        application_end(),
    ]
