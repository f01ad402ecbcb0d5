from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from dagopt.app.advise import Advice, Gain, advise, stage_row
from dagopt.app.recorded import Recorded
from dagopt.app.what_if import Cluster, WhatIf, what_if
from dagopt.errors import InputError
from tests.unit.app.waiting_log import FETCH, MB, NUM_TASKS, waiting_log
from tests.unit.events.event_lines import (
    application_end,
    application_start,
    line,
    log_start,
    metrics,
    small_log,
    stage_completed,
    stage_submitted,
    task_end,
)


def gain_on(folder: Path, lines: list[bytes], cluster: Cluster | None = None) -> Gain:
    gain = advice_on(folder, lines, cluster).gain
    assert gain is not None
    return gain


def advice_on(folder: Path, lines: list[bytes], cluster: Cluster | None = None) -> Advice:
    log = folder / "log"
    log.write_bytes(b"\n".join(lines) + b"\n")
    return advise(log, cluster)


def test_a_stage_that_waits_would_have_gained(tmp_path: Path) -> None:
    advice = advice_on(tmp_path, waiting_log())
    (stage,) = advice.stages
    assert stage.bound == "io"
    assert stage.action == "group"
    assert stage.recorded_s == stage.baseline_s == pytest.approx(16.0)
    assert advice.gain is not None
    assert advice.gain.outcome.elapsed_error_fraction == pytest.approx(0.0, abs=1e-6)
    assert stage.predicted_s is not None
    # 8 fetches of a second an executor, and the last computation that nothing hides.
    assert 9.0 - 1e-6 <= stage.predicted_s < 12.0
    assert advice.verdict.startswith(f"{advice.gain.saved_s:.2f} s ± ")
    assert advice.gain.found.link_bytes_per_s == pytest.approx(12 * MB)
    assert dict(advice.properties)["spark.dagopt.network.bandwidth"] == f"{12 * MB}b"


def test_the_bound_grows_with_the_predicted_change(tmp_path: Path) -> None:
    (stage,) = advice_on(tmp_path, waiting_log()).stages
    assert stage.saved_s is not None
    assert stage.bound_s == pytest.approx(0.3 * stage.saved_s)


def test_a_faster_link_leaves_less_to_gain(tmp_path: Path) -> None:
    as_was = gain_on(tmp_path, waiting_log())
    faster = gain_on(tmp_path, waiting_log(), Cluster(link_mbit=96 * 4))
    assert faster.outcome.baseline.elapsed_s == pytest.approx(1.0 + 8 * 1.25)
    assert faster.saved_s < as_was.saved_s


def test_more_executors_take_less_time(tmp_path: Path) -> None:
    gain = gain_on(tmp_path, waiting_log(), Cluster(num_executors=4))
    assert gain.outcome.baseline.elapsed_s == pytest.approx(1.0 + 8.0)
    assert gain.outcome.replay.elapsed_s == pytest.approx(17.0)


def test_tasks_that_waited_together_shared_their_link(tmp_path: Path) -> None:
    log = [text.replace(b'"Host":"host-1"', b'"Host":"host-0"') for text in waiting_log()]
    gain = gain_on(tmp_path, log)
    assert [task.io_s for task in gain.found.stages[0].tasks] == pytest.approx([0.5] * 16)
    assert gain.found.link_bytes_per_s == pytest.approx(24 * MB)


def test_what_is_not_known_is_null_and_said(tmp_path: Path) -> None:
    lines = [*waiting_log(), stage_submitted(3, Submission_Time=18_000)]
    advice = advice_on(tmp_path, lines)
    row = stage_row(advice.stages[1])
    assert row["bound"] == "unknown"
    assert row["recorded_s"] is row["saved_s"] is row["task_cpu_s"] is None
    assert any(note.startswith("1 of 2 stages have too little data") for note in advice.notes)
    json.dumps(advice.to_dict(), allow_nan=False)


@pytest.mark.parametrize("index", [-(2**63), -7, 2**31, 2**63 - 1])
def test_an_index_that_spark_has_not_is_not_known(tmp_path: Path, index: int) -> None:
    lines = waiting_log()
    lines[5] = lines[5].replace(b'"Index":0', f'"Index":{index}'.encode())
    gain = gain_on(tmp_path, lines)
    assert gain.found.traces[0].tasks.index[0] == -1


def test_broken_lines_are_counted_and_shown(tmp_path: Path) -> None:
    lines = waiting_log()
    lines.insert(7, b'{"Event":"SparkListenerTaskEnd","Stage')
    advice = advice_on(tmp_path, lines)
    assert any(note.startswith("1 of 24 lines are no events") for note in advice.notes)


@pytest.mark.parametrize(
    ("manager", "is_told"), [("sort", False), ("org.apache.uniffle.RssShuffleManager", True)]
)
def test_another_shuffle_decides_what_fetch_wait_is(
    tmp_path: Path, manager: str, *, is_told: bool
) -> None:
    properties = {"spark.shuffle.manager": manager, "spark.app.name": "etl"}
    lines = waiting_log()
    lines.insert(1, line("EnvironmentUpdate", JVM_Information={}, Spark_Properties=properties))
    notes = advice_on(tmp_path, lines).notes
    assert any(manager in note for note in notes) == is_told


def test_time_of_killed_attempts_is_told_apart(tmp_path: Path) -> None:
    lines = waiting_log()
    killed = task_end(
        3,
        reason="TaskKilled",
        Task_ID=99,
        Launch_Time=2_000,
        Finish_Time=4_500,
        Executor_ID="1",
        Host="host-0",
    )
    lines.insert(8, killed)
    advice = advice_on(tmp_path, lines)
    assert "attempts that failed or were killed took 2.50 s of slot time" in " ".join(advice.notes)
    assert stage_row(advice.stages[0])["task_lost_s"] == pytest.approx(2.5)


def overcommitted_log() -> list[bytes]:
    """As :func:`waiting_log`, with four slots on the core of each executor, so one wave of four each.

    The four fetch together, for 4 s, and then share the core for 4 s.
    """
    lines = [text.replace(b'"Total Cores":1', b'"Total Cores":4') for text in waiting_log()]
    wait = FETCH | {"Fetch Wait Time": 4_000}
    ends = [
        task_end(
            index,
            Launch_Time=2_000,
            Finish_Time=10_000,
            Executor_ID=str(index % 2 + 1),
            Host=f"host-{index % 2}",
            task_metrics=metrics(Executor_Run_Time=8_000, Shuffle_Read_Metrics=wait),
        )
        for index in range(8)
    ]
    end = stage_completed(num_tasks=8, Submission_Time=2_000, Completion_Time=10_000)
    return [*lines[:5], *ends, end, application_end(10_000)]


def test_slots_that_shared_a_core_are_replayed_on_that_core(tmp_path: Path) -> None:
    shared = gain_on(tmp_path, overcommitted_log(), Cluster(recorded_slots_per_core=4))
    assert [task.cpu_s for task in shared.found.stages[0].tasks] == pytest.approx([1.0] * 8)
    assert [executor.cores for executor in shared.found.executors] == [1.0, 1.0]
    assert shared.outcome.recorded_s == pytest.approx((8.0,))
    assert shared.outcome.stage_error_fraction == pytest.approx(0.0, abs=0.01)
    # Four fetches of a second on each link, and a computation of a second that nothing hides.
    assert 5.0 - 0.1 <= shared.outcome.grouped.stage_s[0] < 6.5
    apart = gain_on(tmp_path, overcommitted_log())
    assert [task.cpu_s for task in apart.found.stages[0].tasks] == pytest.approx([4.0] * 8)
    assert apart.saved_s < shared.saved_s


def test_time_before_and_behind_a_task_needs_no_core(tmp_path: Path) -> None:
    lines = [
        text.replace(b'"Executor Run Time":2000', b'"Executor Run Time":1690')
        for text in waiting_log()
    ]
    task = gain_on(tmp_path, lines).found.stages[0].tasks[0]
    assert (task.launch_s, task.io_s, task.cpu_s) == pytest.approx((0.3, 1.0, 0.7))


def test_a_small_stage_has_nothing_to_gain(tmp_path: Path) -> None:
    advice = advice_on(tmp_path, small_log())
    assert advice.verdict.startswith("0 s: nothing to gain that is sure.")
    assert advice.stages[0].action == ""


def test_a_task_with_a_stamp_out_of_its_stage_is_left_out(tmp_path: Path) -> None:
    lines = waiting_log()
    lines[5] = task_end(0, Launch_Time=5, Finish_Time=4_000, Executor_ID="1", Host="host-0")
    assert len(gain_on(tmp_path, lines).found.stages[0].tasks) == NUM_TASKS - 1


def test_an_unknown_link_cannot_be_varied(tmp_path: Path) -> None:
    lines = [
        text.replace(b'"Fetch Wait Time":1000', b'"Fetch Wait Time":0') for text in small_log()
    ]
    with pytest.raises(InputError, match="link-mbit: no task of this run waited"):
        advice_on(tmp_path, lines, Cluster(link_mbit=100))


def test_several_logs_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"\n".join(small_log()))
    with pytest.raises(InputError, match="holds 2 event logs; name one"):
        advise(tmp_path)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_executors": 0}, "executors is 0"),
        ({"num_executors": 5001}, "executors is 5001"),
        ({"link_mbit": 0.0}, "link-mbit is 0"),
        ({"slots_per_core": 17}, "slots-per-core is 17"),
        ({"recorded_slots_per_core": 0}, "recorded-slots-per-core is 0"),
    ],
)
def test_wrong_clusters(wrong: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Cluster(**wrong)


@pytest.mark.parametrize(
    ("lines", "missing"),
    [
        ([log_start(), application_start()], "the log holds no stage"),
        (waiting_log()[:-2], "the log holds one stage: 1 without an end"),
        (
            [*waiting_log()[:5], waiting_log()[-2], stage_submitted(1, Submission_Time=1)],
            "the log holds 2 stages: 1 without an end, 2 without ends of tasks",
        ),
    ],
)
def test_without_a_replay_it_says_what_is_missing(
    tmp_path: Path, lines: list[bytes], missing: str
) -> None:
    advice = advice_on(tmp_path, lines)
    assert advice.verdict == f"Unknown: nothing can be replayed, {missing}."
    found = json.loads(json.dumps(advice.to_dict(), allow_nan=False))
    assert found["saved_s"] is found["recorded_s"] is None
    assert found["ways"] == []


def test_without_a_replay_the_time_of_the_tasks_is_still_split(tmp_path: Path) -> None:
    (stage,) = advice_on(tmp_path, waiting_log()[:-2]).stages
    assert stage.split is not None
    assert stage.split.fetch_wait_s == pytest.approx(NUM_TASKS * 1.0)
    assert stage.saved_s is stage.recorded_s is None


def test_a_stage_that_waits_for_another_ones_cores_takes_as_long_as_it_did(tmp_path: Path) -> None:
    lines = waiting_log()
    second = [
        task_end(
            100 + index,
            stage_id=1,
            Launch_Time=18_000,
            Finish_Time=19_000,
            Executor_ID=str(index + 1),
            Host=f"host-{index}",
        )
        for index in range(2)
    ]
    lines[-1:] = [
        stage_submitted(1, Submission_Time=2_000),
        *second,
        stage_completed(1, num_tasks=2, Submission_Time=2_000, Completion_Time=19_000),
        application_end(19_000),
    ]
    gain = gain_on(tmp_path, lines)
    assert gain.outcome.recorded_s == pytest.approx((16.0, 17.0))
    assert gain.outcome.stage_error_fraction == pytest.approx(0.0, abs=1e-6)
    assert gain.outcome.replay.run.elapsed_s == pytest.approx(18.0)


def test_a_stage_that_waits_for_executors_takes_as_long_as_it_did(tmp_path: Path) -> None:
    lines = [text.replace(b'"Timestamp":1100', b'"Timestamp":2000') for text in waiting_log()]
    lines = [text.replace(b'"Submission Time":2000', b'"Submission Time":1200') for text in lines]
    gain = gain_on(tmp_path, lines)
    assert gain.outcome.recorded_s == pytest.approx((16.8,))
    assert gain.outcome.stage_error_fraction == pytest.approx(0.0, abs=1e-6)


def test_what_would_surely_take_longer_is_left_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def all_groups(found: Recorded, cluster: Cluster) -> WhatIf:
        out = what_if(found, cluster)
        slow = dataclasses.replace(out.grouped, elapsed_s=20.0, elapsed_bound_s=1.0)
        return dataclasses.replace(out, grouped=slow)

    monkeypatch.setattr("dagopt.app.advise.what_if", all_groups)
    advice = advice_on(tmp_path, waiting_log())
    assert advice.verdict == (
        "0 s: leave it as it is. dagopt would take 3.00 s ± 1.00 s longer, 20.0 s instead of 17.0 s."
    )
    assert advice.properties == (("spark.dagopt.mode", "off"),)


def test_notes_of_fetching_are_for_runs_that_fetched(tmp_path: Path) -> None:
    old = [log_start("3.5.1"), *waiting_log()[1:]]
    assert any("which host" in note for note in advice_on(tmp_path, old).notes)
    local = [
        text.replace(b'"Remote Bytes Read":12000000', b'"Remote Bytes Read":0') for text in old
    ]
    notes = advice_on(tmp_path, local).notes
    assert not any("which host" in note or "connecting" in note for note in notes)
