"""``dagopt.gpu_udf`` on real Spark (tests/matrix/gpu_udf_scenarios.py runs its scenarios)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark.gpu_cluster import run_scenarios

pytestmark = pytest.mark.spark

SCRIPT = "gpu_udf_scenarios.py"
SCENARIOS = (
    "scalar", "iterator", "batch", "row", "followed", "nested", "several", "filtered", "subquery",
    "aggregated", "groups", "keyed_groups", "cogroups", "cogroups_union", "stacked", "behind_profile",
    "nested_calls", "mapped", "mapped_arrow",
)  # fmt: skip


@pytest.fixture(scope="module")
def seen(spark_jar: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the scenarios did, with boundaries wherever they can be."""
    assert spark_jar.is_file()
    return run_scenarios(tmp_path_factory.mktemp("udf"), SCRIPT, conf={"boundary": "always"})


def flat(row: dict[str, Any]) -> dict[str, Any]:
    """A row with the fields of its structs beside its columns."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        found.update(flat(value) if isinstance(value, dict) else {name: value})
    return found


def values(parts: list[list[dict[str, Any]]], column: str) -> set[float]:
    return {
        value
        for part in parts
        for row in part
        for name, value in flat(row).items()
        if column in name
    }


def without_gpus(parts: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    """Rows without what differs on purpose: how many GPUs their tasks held."""
    gone = ("gpu", "predict", "one", "half", "zero")
    return [
        [
            {k: v for k, v in flat(row).items() if not any(part in k for part in gone)}
            for row in part
        ]
        for part in parts
    ]


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_rows_partitions_order_and_columns_are_those_without_a_profile(
    seen: dict[str, Any], name: str, adaptive: str
) -> None:
    found = seen[f"{name} {adaptive}"]
    marked, plain = found["columns"]
    assert marked == plain
    # Of one profile that follow one another they are one. Spark calls twice what is followed.
    assert found["num_planned"] == {"followed": 2, "several": 2, "cogroups_union": 2}.get(name, 1)
    if name == "filtered":  # a row passes for the GPU that its task held, or its odd number
        assert len(found["plain"]) == len(found["gpu"])
        assert sum(map(len, found["plain"])) == 20
        assert sum(map(len, found["gpu"])) == 40
    else:
        assert without_gpus(found["gpu"]) == without_gpus(found["plain"])


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("scalar", "gpu_gpus"),
        ("iterator", "gpus("),
        ("batch", "predict("),
        ("row", "row_gpus("),
        ("followed", "gpu_gpus"),
        ("several", "one"),
        ("several", "half"),
        ("subquery", "gpus"),
        ("aggregated", "gpu_gpus"),
        ("groups", "gpu_gpus"),
        ("keyed_groups", "gpu_gpus"),
        ("cogroups", "gpu_gpus"),
        ("cogroups_union", "gpu_gpus"),
        ("stacked", "one"),
        ("stacked", "two_gpus"),
        ("behind_profile", "one"),
        ("nested_calls", "gpu_gpus"),
        ("mapped", "gpu_gpus"),
        ("mapped_arrow", "gpu_gpus"),
    ],
)
def test_a_marked_function_holds_a_gpu(
    seen: dict[str, Any], name: str, column: str, adaptive: str
) -> None:
    found = seen[f"{name} {adaptive}"]
    assert values(found["gpu"], column) == {1}
    assert values(found["plain"], column) == {0}


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("scalar", "cpu_gpus"),
        ("followed", "cpu_gpus"),
        ("followed", "after_gpus"),
        ("nested", "after_gpus"),
        ("groups", "after_gpus"),
        ("stacked", "cpu_gpus"),
        ("several", "zero"),
        ("several", "cpu_gpus"),
    ],
)
def test_functions_that_are_not_marked_hold_none(
    seen: dict[str, Any], name: str, column: str, adaptive: str
) -> None:
    assert values(seen[f"{name} {adaptive}"]["gpu"], column) == {0}


def test_a_function_that_raises_shows_its_own_exception(seen: dict[str, Any]) -> None:
    marked, plain = seen["failing"]
    assert "ValueError: no such model for 8 rows" in marked
    assert marked.split(":")[0] == plain.split(":")[0]


def test_the_cpu_form_runs_where_a_task_holds_no_gpu(seen: dict[str, Any]) -> None:
    on_gpu, without = seen["both_forms"]
    # Slices may have shifted to the CPU form.
    assert all(1 in held and set(held) <= {-1, 1} for held in on_gpu.values())
    assert without == {"scalar": [-1], "mapped": [-1]}


def test_dagopt_stays_on(seen: dict[str, Any]) -> None:
    assert seen["report"]["gate"]["off_reason"] == ""
    assert {one["form"] for one in seen["report"]["gpu_stages"]} >= {"split"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "conf",
    [{"mode": "explain"}, {"boundary": "never", "grouping.enabled": "false"}],
    ids=["explain", "never"],
)
def test_without_boundaries_a_function_still_runs(
    seen: dict[str, Any], tmp_path: Path, conf: dict[str, str]
) -> None:
    """Without a profile where dagopt touches nothing; with one where only boundaries are off."""
    names = ("scalar", "several", "groups", "mapped")
    found = run_scenarios(tmp_path, SCRIPT, *names, conf=conf)
    has_profile = conf.get("boundary") == "never"
    for name in names:
        for adaptive in ("true", "false"):
            one = found[f"{name} {adaptive}"]
            assert (one["num_planned"] > 0) == has_profile
            # What would be there is told all the same.
            assert one["explained"] == seen[f"{name} {adaptive}"]["explained"]
            assert without_gpus(one["gpu"]) == without_gpus(one["plain"])
            held = values(one["gpu"], "one" if name == "several" else "gpu_gpus")
            assert held == ({1} if has_profile else {0})
    assert found["both_forms"][0]["scalar"] == ([1] if has_profile else [-1])
    told = {one["signature"] for one in found["report"]["gpu_stages"]}
    shown = [one for name in names for one in found[f"{name} true"]["explained"]]
    assert len(shown) == 5
    assert {signature for _, _, signature in shown} <= told
