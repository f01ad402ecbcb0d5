"""``dagopt.gpu_udf`` on real Spark (tests/matrix/gpu_udf_scenarios.py runs its scenarios)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, RunSparkScript, run_spark
from tests.spark.gpu_cluster import gpu_conf

pytestmark = pytest.mark.spark

SCENARIOS = (
    "scalar", "iterator", "batch", "row", "followed", "nested", "several", "filtered", "subquery",
    "aggregated", "groups", "keyed_groups", "mapped", "mapped_arrow",
)  # fmt: skip


def run(directory: Path, *names: str, **conf: str) -> dict[str, Any]:
    result = directory / "result.json"
    options = {f"spark.dagopt.{key}": value for key, value in conf.items()}
    settings = {**gpu_conf(directory, cores=3), "spark.dagopt.planner.timeout": "60s", **options}
    script = ROOT / "tests" / "matrix" / "gpu_udf_scenarios.py"
    run_spark(directory, script, str(result), *names, conf=settings).ok()
    found: dict[str, Any] = json.loads(result.read_text())
    return found


@pytest.fixture(scope="module")
def seen(spark_jar: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the scenarios did, with boundaries wherever they can be."""
    assert spark_jar.is_file()
    return run(tmp_path_factory.mktemp("udf"), boundary="always")


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
    assert found["is_planned"]
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
    assert on_gpu == {"scalar": [1], "mapped": [1]}
    assert without == {"scalar": [-1], "mapped": [-1]}


def test_dagopt_stays_on(seen: dict[str, Any]) -> None:
    assert seen["report"]["gate"]["off_reason"] == ""
    assert {one["form"] for one in seen["report"]["gpu_stages"]} >= {"split"}


@pytest.mark.parametrize(
    "conf", [{"mode": "explain"}, {"boundary": "never"}], ids=["explain", "never"]
)
def test_without_boundaries_a_function_still_runs(
    spark_jar: Path, tmp_path: Path, conf: dict[str, str]
) -> None:
    """Without a profile where dagopt touches nothing; with one where only boundaries are off."""
    assert spark_jar.is_file()
    names = ("scalar", "several", "groups", "mapped")
    found = run(tmp_path, *names, **conf)
    has_profile = conf.get("boundary") == "never"
    for name in names:
        for adaptive in ("true", "false"):
            one = found[f"{name} {adaptive}"]
            assert one["is_planned"] == has_profile
            assert without_gpus(one["gpu"]) == without_gpus(one["plain"])
            held = values(one["gpu"], "one" if name == "several" else "gpu_gpus")
            assert held == ({1} if has_profile else {0})
    assert found["both_forms"][0]["scalar"] == ([1] if has_profile else [-1])


def test_wrong_arguments_and_local_mode(run_spark_script: RunSparkScript) -> None:
    script = """
    import pandas as pd
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import pandas_udf
    import dagopt
    from dagopt.errors import InputError

    spark = SparkSession.builder.getOrCreate()

    @pandas_udf("long")
    def total(ids: pd.Series) -> int:
        return ids.sum()

    @pandas_udf("long")
    def more(ids: pd.Series) -> pd.Series:
        return ids + 1

    @pandas_udf("double")
    def other(ids: pd.Series) -> pd.Series:
        return ids + 1.0

    profile = dagopt.gpu_profile()
    for arguments in ((7, profile), (more, 3), (total, profile), (more, profile, 7), (more, profile, other)):
        try:
            dagopt.gpu_udf(*arguments)
        except InputError as error:
            print("error:", error)
    print(dagopt.gpu_udf(more, profile) is more)
    marked = dagopt.gpu_udf(more, profile, cpu_only=lambda ids: ids + 2)
    print([row[0] for row in spark.range(3).select(marked("id")).collect()], marked.__name__)
    """
    ended = run_spark_script(script, conf={"spark.master": "local[2]"}).ok()
    errors = [line for line in ended.stdout.splitlines() if line.startswith("error: gpu_udf: ")]
    expected = (
        "function_or_udf is a int, expected a function or a UDF",
        "profile is a int, expected a ResourceProfile",
        "total is a UDF of kind SQL_GROUPED_AGG_PANDAS_UDF; allowed are",
        "cpu_only is a int, expected a function or a UDF",
        "cpu_only is a UDF of kind and type",
    )
    assert len(errors) == len(expected)
    for error, words in zip(errors, expected, strict=True):
        assert words in error
    assert "True\n[2, 3, 4] more\n" in ended.stdout
    assert "local[2] has no stage-level scheduling" in ended.stdout + ended.stderr
