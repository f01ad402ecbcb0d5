"""Stages whose tasks may have waited for the links of the hosts that they read from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dagopt.app.advise import StageAdvice, advise
from dagopt.app.recorded import Recorded
from tests.unit.app.waiting_log import MB, executor_added
from tests.unit.events.event_lines import (
    application_end,
    application_start,
    line,
    log_start,
    metrics,
    rdd,
    stage_completed,
    stage_submitted,
    task_end,
)

NUM_MAPS = 8
NUM_TASKS = 24
NUM_PAIRED = 20
SOURCES = ("host-8", "host-9")
READERS = ("host-0", "host-1")


def executor_removed(name: str) -> bytes:
    return line("ExecutorRemoved", Timestamp=3_500, Executor_ID=name, Removed_Reason="released")


def maps() -> list[bytes]:
    """Four map outputs of 3 MB a task on each of two hosts."""
    written = {"Shuffle Bytes Written": 3 * MB * NUM_TASKS // NUM_MAPS, "Shuffle Write Time": 1}
    ends = [
        task_end(
            index,
            Task_ID=100 + index,
            Launch_Time=2_000,
            Finish_Time=3_000,
            Executor_ID=str(8 + index % 2),
            Host=SOURCES[index % 2],
            task_metrics=metrics(
                Executor_Run_Time=1_000,
                Shuffle_Write_Metrics=written,
                Shuffle_Read_Metrics={"Fetch Wait Time": 0},
            ),
        )
        for index in range(NUM_MAPS)
    ]
    rdds = [rdd(1, "Range")]
    return [
        stage_submitted(Submission_Time=2_000, RDD_Info=rdds),
        *ends,
        stage_completed(
            num_tasks=NUM_MAPS, Submission_Time=2_000, Completion_Time=3_000, RDD_Info=rdds
        ),
    ]


def reads(blocks: int, waits_ms: list[int], starts_ms: list[int]) -> list[bytes]:
    """Tasks that wait for 3 MB, and then compute for 0.3 s."""
    ends = []
    for index, (wait_ms, start_ms) in enumerate(zip(waits_ms, starts_ms, strict=True)):
        host = index % 2 if index < NUM_PAIRED else 0
        read = {
            "Fetch Wait Time": wait_ms,
            "Remote Bytes Read": 3 * MB,
            "Local Bytes Read": 0,
            "Remote Blocks Fetched": blocks,
            "Local Blocks Fetched": 0,
        }
        used = metrics(
            Executor_Deserialize_Time=0,
            Executor_Run_Time=wait_ms + 300,
            Executor_CPU_Time=290_000_000,
            JVM_GC_Time=0,
            Shuffle_Read_Metrics=read,
            Shuffle_Write_Metrics={"Shuffle Bytes Written": 0, "Shuffle Write Time": 0},
        )
        ends.append(
            task_end(
                index,
                1,
                Task_ID=200 + index,
                Launch_Time=start_ms,
                Finish_Time=start_ms + wait_ms + 300,
                Executor_ID=str(1 + host),
                Host=READERS[host],
                task_metrics=used,
            )
        )
    rdds = [rdd(3, "MapInArrow"), rdd(2, "Exchange", [1])]
    end_ms = max(waits_ms[at] + starts_ms[at] + 300 for at in range(NUM_TASKS))
    return [
        stage_submitted(1, Submission_Time=4_000, RDD_Info=rdds),
        *ends,
        stage_completed(1, NUM_TASKS, Submission_Time=4_000, Completion_Time=end_ms, RDD_Info=rdds),
    ]


def waiting_for(blocks: int, *, alone_ms: int, with_maps: bool = True) -> list[bytes]:
    """A log of 20 tasks that wait 0.6 s, two at a time, and of 4 of one host while the other has none.

    Args:
        blocks: that each reading task fetched.
        alone_ms: how long the latter wait.
        with_maps: whether the log holds the maps.
    """
    waits_ms = [600] * NUM_PAIRED + [alone_ms] * (NUM_TASKS - NUM_PAIRED)
    starts_ms = [4_000 + 900 * (index // 2) for index in range(NUM_PAIRED)]
    starts_ms += [13_000 + (alone_ms + 300) * number for number in range(NUM_TASKS - NUM_PAIRED)]
    executors = [executor_added(str(1 + at), host) for at, host in enumerate(READERS)]
    executors += [executor_added(str(8 + at), host) for at, host in enumerate(SOURCES)]
    executors += [executor_removed(str(8 + at)) for at in range(len(SOURCES))]
    return [
        log_start(),
        application_start(),
        *executors,
        *(maps() if with_maps else []),
        *reads(blocks, waits_ms, starts_ms),
        application_end(20_000),
    ]


def advice_on(folder: Path, lines: list[bytes]) -> tuple[Recorded, StageAdvice]:
    path = folder / "log"
    path.write_bytes(b"\n".join(lines) + b"\n")
    advice = advise(path)
    assert advice.gain is not None
    return advice.gain.found, advice.stages[-1]


def test_tasks_that_read_faster_alone_waited_for_the_link_of_their_source(tmp_path: Path) -> None:
    found, stage = advice_on(tmp_path, waiting_for(4, alone_ms=300))
    assert [reading.is_likely for reading in found.source_readings.values()] == [True]
    assert found.link_bytes_per_s == pytest.approx(10 * MB)
    assert stage.recorded_s == stage.baseline_s == pytest.approx(11.4)
    assert stage.predicted_s is not None
    # On each of two links 12 times 0.3 s, and the last computation that nothing hides.
    assert 3.6 <= stage.predicted_s <= 1.2 * (3.6 + 0.3)


def test_where_waits_say_nothing_the_number_of_blocks_decides(tmp_path: Path) -> None:
    log = [text for text in waiting_for(4, alone_ms=600) if not is_unpaired(text)]
    found, _ = advice_on(tmp_path, log)
    assert [reading.is_likely for reading in found.source_readings.values()] == [True]
    found, _ = advice_on(tmp_path, [text.replace(b'Fetched":4', b'Fetched":5') for text in log])
    assert [reading.is_likely for reading in found.source_readings.values()] == [False]


def is_unpaired(text: bytes) -> bool:
    """Whether it is the end of a task that read while the other host had none."""
    event = json.loads(text)
    index = event.get("Task Info", {}).get("Index", 0)
    return bool(event.get("Stage ID") == 1 and index >= NUM_PAIRED)


def test_tasks_that_wait_as_long_alone_waited_for_their_own_link(tmp_path: Path) -> None:
    found, stage = advice_on(tmp_path, waiting_for(4, alone_ms=600))
    assert [reading.is_likely for reading in found.source_readings.values()] == [False]
    assert found.link_bytes_per_s == pytest.approx(5 * MB)
    assert stage.predicted_s is not None
    assert stage.saved_s is not None
    assert stage.bound_s is not None
    # Not sure: the other way lies within the bound.
    assert stage.predicted_s >= NUM_TASKS / 2 * 0.6
    assert stage.bound_s > 0.3 * stage.saved_s + 1.0


def test_tasks_that_fetched_of_every_map_output_read_from_all_hosts(tmp_path: Path) -> None:
    found, _ = advice_on(tmp_path, waiting_for(NUM_MAPS, alone_ms=300))
    assert found.source_readings == {}


def test_where_the_maps_are_not_in_the_log_the_bound_holds_both_ways(tmp_path: Path) -> None:
    known, certain = advice_on(tmp_path, waiting_for(NUM_MAPS, alone_ms=300))
    found, stage = advice_on(tmp_path, waiting_for(4, alone_ms=300, with_maps=False))
    assert [reading.is_likely for reading in found.source_readings.values()] == [False]
    assert known.source_readings == {}
    assert stage.predicted_s == pytest.approx(certain.predicted_s, rel=0.01)
    assert stage.bound_s is not None
    assert stage.saved_s is not None
    # More than for the change, and for the replay, which is a tenth off.
    assert stage.bound_s > 0.3 * stage.saved_s + 2.0
