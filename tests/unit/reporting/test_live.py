"""Lines and tables of a running application, from whatever a report holds."""

from __future__ import annotations

from typing import Any

import pytest

from dagopt.reporting.live import MAX_ROWS, live_lines, live_tables
from dagopt.reporting.table import PageTable

BODY: dict[str, Any] = {
    "time_s": 100.0,
    "held": [
        {"stage": 4, "attempt": 0, "name": "count", "num_tasks": 64, "num_held": 40,
         "num_delayed_groups": 2, "next_launch_s": 101.5},
        {"stage": 5, "attempt": 1, "num_held": 3, "next_launch_s": None},
    ],
    "groups": [
        {"stage": 4, "group": 1, "executor": "2", "host": "h2", "num_tasks": 2,
         "input_host_set": "rack1", "formed_s": 99.0, "launch_s": 99.25},
    ],
    "gpu_stages": [
        {"id": 7, "name": "MapInPandas", "num_partitions": 16, "form": "sliced", "reason": "why"},
        {"id": 8, "name": "MapInArrow", "num_partitions": 2, "form": "fused", "reason": "short"},
    ],
    "gpu_use": [
        {"id": 7, "gpu_allocated_s": 3.0, "gpu_busy_s": 2.5},
        {"id": 7, "gpu_allocated_s": 1.0, "gpu_busy_s": 1.0},
        {"id": 8, "gpu_allocated_s": 2.0, "gpu_busy_s": None},
    ],
    "gpu_shifts": [{"id": 7, "action": "shift"}],
}  # fmt: skip


def table(body: dict[str, Any], heading: str) -> PageTable:
    (found,) = (one for one in live_tables(body) if one.heading == heading)
    return found


def test_what_is_held_says_when_the_next_group_starts() -> None:
    assert table(BODY, "Held now").rows == (
        ("4", "count", "64", "40", "2", "1.50 s"),
        ("5.1", "-", "-", "3", "-", "-"),
    )


def test_a_group_says_how_long_it_was_delayed_and_where_it_reads_from() -> None:
    assert table(BODY, "Task groups").rows == (("4", "1", "2", "h2", "2", "rack1", "0.25 s"),)


def test_a_gpu_operator_says_what_its_gpus_did_as_far_as_it_is_known() -> None:
    assert table(BODY, "GPU operators").rows == (
        ("8", "MapInArrow", "2", "fused", "2.00 s", "-", "-", "short"),
        ("7", "MapInPandas", "16", "sliced", "4.00 s", "3.50 s", "0.50 s",
         "why; 1 slices shifted to their CPU-only form, 0 taken back"),
    )  # fmt: skip
    assert live_lines(BODY)[-1].startswith("GPUs: allocated 6.00 s; busy 3.50 s, idle 0.50 s of 4")


def test_of_many_the_newest_are_shown_and_the_others_counted() -> None:
    many = [{"stage": stage, "reason": str(stage)} for stage in range(MAX_ROWS + 5)]
    shown = table({"decisions": many}, "Decisions")
    assert [row[0] for row in shown.rows] == [str(stage) for stage in range(104, 4, -1)]
    assert shown.note == "The last 100 of 105 decisions."


def test_what_is_held_by_very_many_stages_is_cut_too() -> None:
    held = table({"held": [{"stage": stage} for stage in range(MAX_ROWS + 5)]}, "Held now")
    assert len(held.rows) == MAX_ROWS
    assert held.note == "The last 100 of 105 stages."


def test_a_report_that_could_not_be_made_says_why() -> None:
    (line,) = live_lines({"error": "ValueError: odd", "gate": {"task_sets_seen": 3}})
    assert line == "The planner could not make this report: ValueError: odd"


@pytest.mark.parametrize("body", [{}, {"held": 3, "groups": [1, {}], "gpu_use": [{"id": 1}]}])
def test_what_is_missing_is_shown_as_missing(body: dict[str, Any]) -> None:
    held, *others = live_tables(body)
    assert (held.rows, held.note) == ((), "No task is held.")
    for each in others:
        assert set(each.rows) == {("-",) * len(each.columns)}
