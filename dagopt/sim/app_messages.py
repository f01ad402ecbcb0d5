"""What the JVM would tell the controller of a simulated application."""

from __future__ import annotations

from dagopt.model.network import NOWHERE
from dagopt.model.wire import (
    ExecutorAdded,
    ExecutorRemoved,
    Fetch,
    OuterInputs,
    TaskEnded,
    TaskSetEnded,
    TaskSetSubmitted,
    TaskStarted,
)
from dagopt.sim.app_values import AppExecutor, AppStage


def executor_added(executor: AppExecutor, now_s: float) -> ExecutorAdded:
    """It takes tasks from now on."""
    return ExecutorAdded(
        time_ms=_ms(now_s), executor=executor.executor, host=executor.host, cores=executor.cores
    )


def executor_removed(executor: AppExecutor, now_s: float) -> ExecutorRemoved:
    """It takes no more tasks."""
    return ExecutorRemoved(time_ms=_ms(now_s), executor=executor.executor)


def task_set_submitted(stage: AppStage, now_s: float) -> TaskSetSubmitted:
    """All tasks of the stage are held. Where its bytes lie is known per host, not per task."""
    return TaskSetSubmitted(
        time_ms=_ms(now_s),
        stage=stage.stage,
        attempt=stage.attempt,
        num_tasks=len(stage.tasks),
        name=stage.name,
        scopes=list(stage.scopes),
        plan=stage.plan,
        hosts=[host for host, _ in stage.source_bytes] or [NOWHERE],
        inputs=OuterInputs(
            task_bytes=[task.read_bytes for task in stage.tasks],
            host_bytes=[size for _, size in stage.source_bytes] or [1],
        ),
        shuffle_types=["wide" if stage.source_bytes else "source"],
        can_raise=stage.can_raise,
    )


def task_started(stage: AppStage, task: int, executor: AppExecutor, now_s: float) -> TaskStarted:
    """A task was launched."""
    return TaskStarted(
        time_ms=_ms(now_s),
        stage=stage.stage,
        attempt=stage.attempt,
        task=task,
        executor=executor.executor,
    )


def task_read(stage: AppStage, task: int, executor: AppExecutor, now_s: float) -> Fetch:
    """A task has read all of its input, as the probe reports it."""
    row = (stage.stage, stage.attempt, task, stage.tasks[task].read_bytes, True, 0)
    return Fetch(time_ms=_ms(now_s), executor=executor.executor, tasks=[row])


def task_ended(
    stage: AppStage,
    task: int,
    executor: AppExecutor,
    *,
    start_s: float,
    wait_s: float,
    now_s: float,
) -> TaskEnded:
    """A task ended well, with Spark's metrics of it."""
    told = stage.tasks[task]
    return TaskEnded(
        time_ms=_ms(now_s),
        stage=stage.stage,
        attempt=stage.attempt,
        task=task,
        executor=executor.executor,
        ok=True,
        launch_ms=_ms(start_s),
        finish_ms=_ms(now_s),
        fetch_wait_ms=_ms(wait_s),
        cpu_ms=_ms(told.cpu_s),
        read_bytes=told.read_bytes,
    )


def task_set_ended(stage: AppStage, now_s: float) -> TaskSetEnded:
    """The stage's last task ended."""
    return TaskSetEnded(time_ms=_ms(now_s), stage=stage.stage, attempt=stage.attempt, ok=True)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
