"""The page of a live session, from a report and from what Spark says of its tasks."""

from __future__ import annotations

from typing import Any

import pytest

from dagopt.spark.live_page import live_page
from dagopt.spark.report import Report

TIMELINE: dict[str, Any] = {
    "app_id": "app-1",
    "app_name": "etl",
    "spark": "4.3.0",
    "executors": [
        {"executor": "1", "cores": 8, "gpus": 1},
        {"executor": "2", "cores": 2, "gpus": 0},
    ],
    "stages": [
        {
            "stage": 5,
            "attempt": 0,
            "name": "collect",
            "gpus": 1.0,
            "tasks": [[0, "2", 101_000, None, 0]],
        },
        {
            "stage": 4,
            "attempt": 0,
            "name": "count",
            "gpus": 0.0,
            "tasks": [[0, "1", 100_000, 102_000, 500], [1, "1", 101_000, 101_500, 9_999]],
        },
    ],
    "tasks_left_out": 3,
}
BODY: dict[str, Any] = {
    "mode": "on",
    "time_s": 103.0,
    "conf": {"spark.dagopt.mode": "on"},
    "executors": [{"executor": "1", "cores": 2.0}],
    "groups": [
        {"stage": 4, "attempt": 0, "group": 6, "executor": "1", "tasks": [1],
         "input_host_set": "rack1", "formed_s": 99.0, "launch_s": 101.0},
        {"stage": 4, "attempt": 0, "group": 7, "executor": "1", "tasks": [0],
         "input_host_set": "rack1", "formed_s": 100.0, "launch_s": 100.0},
    ],
    "decisions": [
        {"stage": 4, "attempt": 0, "action": "group", "stock_s": 9.0, "predicted_s": 8.0},
        {"stage": 4, "attempt": 0, "action": "concurrency", "stock_s": 9.0, "predicted_s": 5.0},
        {"stage": 4, "attempt": 0, "action": "release", "stock_s": 99.0, "predicted_s": 0.0},
        {"stage": 5, "attempt": 0, "action": "pass", "stock_s": 2.0, "predicted_s": 2.0},
    ],
}  # fmt: skip


def test_tasks_are_drawn_with_their_groups_and_delays() -> None:
    (panel,) = live_page(BODY, TIMELINE).panels
    running, first, second = panel.bars
    assert (running.executor, running.start_s, running.end_s, running.gpus) == ("2", 1.0, 3.0, 1.0)
    assert (first.start_s, first.read_s, first.end_s) == (0.0, 0.5, 2.0)
    assert (second.start_s, second.read_s, second.end_s) == (1.0, 1.5, 1.5)
    assert (running.group, first.group, second.group) == ("", "group 7", "group 6")
    assert panel.stage_names == ("5: collect", "4: count")
    (hold,) = panel.holds
    assert (hold.executor, hold.start_s, hold.end_s) == ("1", 0.0, 1.0)
    assert hold.text == "stage 4, group 6: 1 tasks delayed by 2.00 s, reading from rack1"


def test_cores_are_the_physical_ones_where_they_are_known() -> None:
    (panel,) = live_page(BODY, TIMELINE).panels
    assert (panel.num_cores, panel.num_gpus) == (2.0 + 2.0, 1.0)


def test_the_verdict_is_the_sum_of_what_was_last_predicted() -> None:
    page = live_page(BODY, TIMELINE)
    assert page.verdict == (
        "1 of 2 decisions save 4.00 s together against Spark alone, as predicted."
    )
    assert "would save" in live_page({**BODY, "mode": "explain"}, TIMELINE).verdict
    assert live_page({"gate": {"off_reason": "why"}}, {}).verdict == "dagopt is off: why"


def test_what_is_not_drawn_is_said() -> None:
    assert "3 older tasks are not drawn." in live_page(BODY, TIMELINE).notes
    without = live_page(BODY, {})
    assert without.panels == ()
    assert any("no timeline" in note for note in without.notes)


@pytest.mark.parametrize("timeline", [{}, TIMELINE])
def test_the_page_shows_settings_and_where_it_is_from(timeline: dict[str, Any]) -> None:
    page = live_page(BODY, timeline)
    assert page.properties == "spark.dagopt.mode on\n"
    assert dict(page.provenance)["application"] == timeline.get("app_id", "unknown")
    assert ("etl" in page.title) == bool(timeline)
    assert page.title in Report(body=BODY, take_timeline=lambda: timeline).to_html()


def test_only_the_page_asks_when_tasks_ran() -> None:
    asked: list[str] = []

    def take() -> dict[str, Any]:
        asked.append("timeline")
        return TIMELINE

    report = Report(body=BODY, take_timeline=take)
    assert str(report)
    assert report.to_json()
    assert not asked
    assert "etl" in report.to_html()
    assert asked
