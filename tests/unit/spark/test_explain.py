"""How the forms of GPU operators are shown; tests/spark/test_explain.py has them from real plans."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import dagopt
from dagopt.errors import BridgeError, InputError
from dagopt.spark.explain import Explanation, _with_stages

SHOWN: dict[str, Any] = {
    "name": "MapInPandas",
    "num_partitions": 12,
    "form": "sliced",
    "slices": [6, 6],
    "boundary_before": True,
    "boundary_after": True,
    "front": ["Scan", "Filter"],
    "operators": ["MapInPandas"],
    "above": ["Project"],
    "profile": "1 cpus, 1 gpu",
    "predicted_s": 3.5,
    "stock_s": 8.0,
    "bytes_across": 2048,
    "reason": "sliced <3.5 s> against fused 8 s",
}


def explained(**changed: Any) -> Explanation:
    return Explanation(operators=[_with_stages({**SHOWN, **changed})])


def test_the_text_has_stages_profiles_times_and_the_reason() -> None:
    assert str(explained()).splitlines() == [
        "MapInPandas of 12 partitions, boundary before and after, 2 slices of 6 to 6",
        "  stage, on CPU slots: Scan, Filter",
        "  stage, a task with 1 cpus, 1 gpu: MapInPandas",
        "  stage, on CPU slots: Project",
        "  predicted 3.50 s, Spark alone 8.00 s, 2.0 KiB across boundaries",
        "  sliced <3.5 s> against fused 8 s",
    ]


def test_a_fused_operator_has_one_stage_under_its_profile() -> None:
    shown = explained(
        form="fused", slices=[12], boundary_before=False, boundary_after=False, predicted_s=None
    )
    assert shown.to_dict()["operators"][0]["stages"] == [
        {"operators": ["Scan", "Filter", "MapInPandas", "Project"], "profile": "1 cpus, 1 gpu"}
    ]
    lines = str(shown).splitlines()
    assert lines[0] == "MapInPandas of 12 partitions, no boundary"
    assert len(lines) == 3


def test_slices_that_may_shift_are_told_to() -> None:
    head = str(explained(form="shifting")).splitlines()[0]
    assert head.endswith("2 slices of 6 to 6, which go to their CPU form where that ends sooner")


def test_a_probe_says_that_the_rest_is_decided_later() -> None:
    text = str(explained(form="probe", slices=[4, 8], ask_again=True))
    assert "4 partitions first, to measure them; then the rest is decided" in text


def test_what_the_planner_did_not_say_is_left_out() -> None:
    shown = Explanation(operators=[_with_stages({"name": "MapInArrow", "reason": "because"})])
    assert str(shown).splitlines() == [
        "MapInArrow of ? partitions, no boundary",
        "  stage, on CPU slots: reads on",
        "  because",
    ]


def test_a_notebook_shows_the_text_escaped() -> None:
    assert "&lt;3.5 s&gt;" in explained()._repr_html_()
    assert str(Explanation(operators=[])) == "no GPU operator that dagopt plans"


def test_changing_the_dict_changes_no_explanation() -> None:
    shown = explained()
    shown.to_dict()["operators"][0]["slices"].append(7)
    assert shown.operators[0]["slices"] == [6, 6]


def test_what_cannot_be_explained_is_an_error() -> None:
    with pytest.raises(InputError, match="expected a DataFrame, got int"):
        dagopt.explain(7)  # type: ignore[arg-type]
    with pytest.raises(BridgeError, match="Spark Connect client"):
        dagopt.explain(SimpleNamespace(sparkSession=None))  # type: ignore[arg-type]
