"""An application that would gain much: what the tests of advice start from."""

from __future__ import annotations

from tests.unit.events.event_lines import (
    application_end,
    application_start,
    line,
    log_start,
    metrics,
    stage_completed,
    stage_submitted,
    task_end,
)

MB = 1_000_000
FETCH = {"Fetch Wait Time": 1_000, "Remote Bytes Read": 12 * MB, "Local Bytes Read": 0}
NUM_TASKS = 16


def executor_added(name: str, host: str) -> bytes:
    info = {"Host": host, "Total Cores": 1, "Log Urls": {}}
    return line("ExecutorAdded", Timestamp=1_100, Executor_ID=name, Executor_Info=info)


def waiting_log() -> list[bytes]:
    """16 tasks on two executors of a core: each waits 1 s for 12 MB, and then computes for 1 s."""
    ends = []
    for index in range(NUM_TASKS):
        wave, executor = divmod(index, 2)
        ends.append(
            task_end(
                index,
                Launch_Time=2_000 + 2_000 * wave,
                Finish_Time=4_000 + 2_000 * wave,
                Executor_ID=str(executor + 1),
                Host=f"host-{executor}",
                task_metrics=metrics(
                    Executor_Run_Time=2_000,
                    Executor_CPU_Time=950_000_000,
                    JVM_GC_Time=0,
                    Shuffle_Read_Metrics=FETCH,
                ),
            )
        )
    return [
        log_start(),
        application_start(),
        executor_added("1", "host-0"),
        executor_added("2", "host-1"),
        stage_submitted(Submission_Time=2_000),
        *ends,
        stage_completed(num_tasks=NUM_TASKS, Submission_Time=2_000, Completion_Time=18_000),
        application_end(18_000),
    ]
