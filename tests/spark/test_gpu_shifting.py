"""Slices that shift to their CPU-only form (tests/matrix/gpu_shifting_scenarios.py runs them)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark.gpu_cluster import run_scenarios

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = [[i, i // 5, 2 * i] for i in range(100)]


@pytest.fixture(scope="module")
def seen(spark_jar: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    assert spark_jar.is_file()
    # On a machine with much else to do, launches may be taken to cost more than there is to gain.
    directory = tmp_path_factory.mktemp("shifting")
    return run_scenarios(
        directory, "gpu_shifting_scenarios.py", cores=4, conf={"boundary": "always"}
    )


def rows(run: dict[str, Any]) -> list[list[int]]:
    return [row[:3] for row in run["rows"]]


def on_cpus(run: dict[str, Any]) -> set[int]:
    """Partitions whose rows were computed without a GPU, each of them wholly."""
    parts = {partition for _, partition, _, on_gpu in run["rows"] if not on_gpu}
    assert all(not row[3] for row in run["rows"] if row[1] in parts)
    return parts


def test_shifted_partitions_are_in_the_result_once_and_in_their_place(seen: dict[str, Any]) -> None:
    runs = seen["shifted"]
    for run in runs:
        assert rows(run) == ROWS
    last = runs[-1]
    assert "shifting" in last["forms"]
    shifted = sum(one["num_partitions"] for one in last["shifts"] if one["action"] == "shift")
    back = sum(one["num_partitions"] for one in last["shifts"] if one["action"] == "take_back")
    assert len(on_cpus(last)) == shifted - back > 1
    assert len(on_cpus(last)) < 20


def test_a_cpu_only_form_that_takes_too_long_goes_back_to_idle_gpus(seen: dict[str, Any]) -> None:
    for run in seen["taken_back"]:
        assert rows(run) == ROWS
    last = seen["taken_back"][-1]
    assert {one["action"] for one in last["shifts"]} == {"shift", "take_back"}
    assert not on_cpus(last)


def test_the_user_sees_what_the_cpu_form_raised(seen: dict[str, Any]) -> None:
    assert "ValueError: no answer" in seen["raising"]


def test_a_cancelled_query_leaves_no_slice_running(seen: dict[str, Any]) -> None:
    assert "cancelled" in seen["cancelled"]["thrown"]
    assert seen["cancelled"]["active"] == 0


def test_a_query_that_is_lost_elsewhere_starts_no_more_slices(seen: dict[str, Any]) -> None:
    assert "ValueError: the other branch" in seen["lost"]["thrown"]
    assert seen["lost"]["active"] == 0
    assert seen["lost"]["computed"] < 20


def test_rows_that_are_not_repeatable_are_computed_in_one_job(seen: dict[str, Any]) -> None:
    found = seen["unrepeatable"]
    assert sorted(row[0] for row in found["rows"]) == list(range(100))
    assert len(found["forms"]) == 1
    assert found["forms"][0] in {"fused", "split"}


def test_a_dead_planner_loses_no_rows(seen: dict[str, Any]) -> None:
    assert [row[:3] for row in seen["orphaned"]] == ROWS
