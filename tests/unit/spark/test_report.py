"""The report of a live session: text, JSON and HTML from whatever the planner sent."""

from __future__ import annotations

import json

import pytest

from dagopt.controller.application import ApplicationController
from dagopt.controller.boundary import BoundaryController
from dagopt.controller.grouping import GroupingController
from dagopt.errors import BridgeError
from dagopt.model.wire import ReportRequest
from dagopt.planner.report_body import report_body
from dagopt.planner.settings import controller_settings
from dagopt.spark import report
from dagopt.spark.report import Report, parse_report

BODY = {
    "mode": "on",
    "task_sets": 3,
    "decisions": [
        {
            "stage": 4,
            "attempt": 0,
            "name": "count at job.py:7",
            "action": "group",
            "tasks_per_core": 3,
            "reason": "reads 2.1 s and computes 1.0 s a task",
            "num_tasks": 64,
            "io_s": 2.1,
            "cpu_s": 1.0,
            "predicted_s": 31.5,
            "stock_s": 60.25,
        },
        {"stage": 5, "attempt": 1, "action": "pass", "reason": "a retry"},
    ],
    "idle_hold_s": 0.25,
    "gate": {"task_sets_seen": 9, "task_sets_held": 2, "groups_launched": 8, "fallbacks": 0},
    "something_new": [1],
}


def test_the_text_says_what_was_decided_and_why() -> None:
    text = str(parse_report(json.dumps(BODY)))
    lines = text.splitlines()
    assert lines[:3] == [
        "dagopt, mode on: 2 grouping decisions, 0 forms of GPU operators",
        "task sets: 9 seen, 6 too small or not eligible, 3 told to the planner, 2 held",
        "8 groups launched, 0 task sets released without an answer, idle because of a hold: 0.25 s",
    ]
    heading = "stage name tasks action tasks/core I/O a task CPU a task predicted Spark alone"
    assert " ".join(lines[3].split()) == heading
    first = "4 count at job.py:7 64 group 3 2.10 s 1.00 s 31.5 s 60 s"
    assert " ".join(lines[4].split()) == first
    assert lines[5].split() == ["5.1", "-", "-", "pass", "-", "-", "-", "-", "-"]
    assert lines[6:] == ["4: reads 2.1 s and computes 1.0 s a task", "5.1: a retry"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"decisions": None, "gate": "none"},
        {"decisions": [{}, 7, {"io_s": "x", "name": ["y"]}], "idle_hold_s": None},
        {"gate": {}},
    ],
)
def test_whatever_is_missing_is_shown_as_missing(body: dict[str, object]) -> None:
    shown = Report(body=body)
    assert str(shown).startswith("dagopt, mode -: ")
    assert "task sets: - seen, - too small or not eligible, - told to the planner, - held" in str(
        shown
    )
    assert shown.to_dict() == body


def test_every_field_of_the_planners_report_is_documented() -> None:
    controller = ApplicationController(
        grouping=GroupingController(controller_settings({})), boundary=BoundaryController()
    )
    body = report_body(controller, ReportRequest(id=1), 0.0)
    for field in (*body, "mode", "conf", "gate", "no_extension"):
        assert f"\n``{field}``" in (report.__doc__ or ""), field


def test_an_application_that_went_off_says_why() -> None:
    shown = Report(body={"gate": {"off_reason": "the planner ended with 1"}})
    assert str(shown) == "dagopt is off: the planner ended with 1"


def test_json_is_all_that_came() -> None:
    shown = parse_report(json.dumps(BODY))
    assert json.loads(shown.to_json()) == BODY
    copied = shown.to_dict()
    copied["decisions"].clear()
    assert len(shown.decisions) == 2


def test_a_stage_name_is_no_html_and_no_markup() -> None:
    body = {"decisions": [{"stage": 1, "name": "[red]<script>", "reason": "</pre>&[/]"}]}
    shown = Report(body=body)
    assert "[red]<script>" in str(shown)
    html = shown._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert html.count("</pre>") == 1


def test_a_session_without_the_extension_says_so() -> None:
    shown = Report(body={"no_extension": "spark.sql.extensions does not name it"})
    last = "GPU operators are left to Spark: spark.sql.extensions does not name it"
    assert str(shown).splitlines()[3] == last
    assert last in shown.to_html()


@pytest.mark.parametrize("text", ["", "[1]", "{", "null"])
def test_an_answer_that_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(BridgeError, match=r"report of the driver: expected (a )?JSON"):
        parse_report(text)


def test_gpu_stages_have_a_line_each_and_gpus_one_together() -> None:
    body = {
        "gpu_stages": [
            {
                "id": 1,
                "name": "MapInPandas",
                "num_partitions": 16,
                "form": "split",
                "reason": "why",
            },
            {"id": 2, "form": "fused", "reason": "less than 5% to gain"},
        ],
        "gpu_use": [
            {"id": 1, "gpu_allocated_s": 3.0, "gpu_busy_s": 2.8},
            {"id": 1, "gpu_allocated_s": 1.0, "gpu_busy_s": 0.8},
            {"id": 9, "gpu_allocated_s": 2.5, "gpu_busy_s": None},
        ],
    }
    apart = "busy 3.60 s, idle 0.40 s of 4.00 s in stages whose CPU operators ran apart"
    assert str(Report(body=body)).splitlines()[3:] == [
        "GPU operator 1, MapInPandas of 16 partitions: split; why; GPUs allocated 4.00 s; " + apart,
        "GPU operator 2, - of - partitions: fused; less than 5% to gain",
        "GPUs: allocated 6.50 s; " + apart,
    ]
