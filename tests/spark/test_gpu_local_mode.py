"""GPU stages in local mode, where no task can have a profile, with dagopt and without; and wrong arguments."""

from __future__ import annotations

import pytest

from tests.conftest import run_spark

pytestmark = pytest.mark.spark

SCRIPT = """
import logging, sys
import pandas as pd
from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests
from pyspark.sql import SparkSession
from pyspark.sql.functions import pandas_udf
import dagopt
from dagopt.errors import BridgeError, InputError

logging.basicConfig(stream=sys.stdout, format="note: %(message)s")
spark = SparkSession.builder.getOrCreate()
rdd = spark.sparkContext.parallelize(range(4), 2)

print("part: profile")
none = dagopt.gpu_profile()
arguments = {} if spark.version.startswith("3.5") else {"profile": none}
rows = spark.range(4).mapInPandas(lambda parts: parts, "id long", **arguments).collect()
print(none, sorted(row.id for row in rows))

print("part: rdd")
profile = ResourceProfileBuilder().require(TaskResourceRequests().cpus(1)).build
for arguments in ((rdd, {"gpu": 1}), (spark.range(3), profile)):
    try:
        dagopt.gpu_stage(*arguments)
    except InputError as error:
        print("error:", error)
print(dagopt.gpu_stage(rdd, profile) is rdd, dagopt.gpu_stage(rdd, None) is rdd)
print(dagopt.gpu_stage(rdd, profile).map(lambda row: row + 1).collect())

print("part: udf")

@pandas_udf("long")
def total(ids: pd.Series) -> int:
    return ids.sum()

@pandas_udf("long")
def more(ids: pd.Series) -> pd.Series:
    return ids + 1

@pandas_udf("double")
def other(ids: pd.Series) -> pd.Series:
    return ids + 1.0

for arguments in ((7, profile), (more, 3), (total, profile), (more, profile, 7), (more, profile, other)):
    try:
        dagopt.gpu_udf(*arguments)
    except InputError as error:
        print("error:", error)
print(dagopt.gpu_udf(more, profile) is more)
marked = dagopt.gpu_udf(more, profile, cpu_only=lambda ids: ids + 2)
print([row[0] for row in spark.range(3).select(marked("id")).collect()], marked.__name__)

print("part: explain")
try:
    print("explained:", dagopt.explain(spark.range(3)))
except BridgeError as error:
    print("error:", error)
"""


@pytest.fixture(scope="module", params=["with", "without"])
def dagopt(request: pytest.FixtureRequest) -> str:
    given: str = request.param
    return given


@pytest.fixture(scope="module")
def said(
    spark_jar: object, dagopt: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """What each part of the script printed, and what was noted there."""
    assert spark_jar
    directory = tmp_path_factory.mktemp("local")
    conf = {"spark.master": "local[2]"}
    ended = run_spark(directory, SCRIPT, conf=conf, dagopt=dagopt == "with").ok()
    _, *parts = ended.stdout.split("part: ")
    return {name: text for name, _, text in (part.partition("\n") for part in parts)}


@pytest.mark.parametrize("part", ["profile", "rdd", "udf"])
def test_that_there_are_no_profiles_is_noted(said: dict[str, str], part: str) -> None:
    assert "note: dagopt: local[2] has no stage-level scheduling" in said[part]


def test_the_plan_runs_unchanged(said: dict[str, str]) -> None:
    assert "None [0, 1, 2, 3]\n" in said["profile"]


def test_a_stage_of_an_rdd_is_the_rdd(said: dict[str, str]) -> None:
    assert "error: gpu_stage: profile is a dict, expected a ResourceProfile" in said["rdd"]
    assert "error: gpu_stage: rdd is a DataFrame, expected an RDD" in said["rdd"]
    assert "True True\n" in said["rdd"]
    assert "[1, 2, 3, 4]\n" in said["rdd"]


def test_a_function_is_the_function_or_its_cpu_form(said: dict[str, str]) -> None:
    errors = [line for line in said["udf"].splitlines() if line.startswith("error: gpu_udf: ")]
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
    assert "True\n" in said["udf"]
    assert "[2, 3, 4] more\n" in said["udf"]


def test_only_with_dagopt_there_is_something_to_explain(said: dict[str, str], dagopt: str) -> None:
    if dagopt == "with":
        assert "explained: no GPU operator that dagopt plans\n" in said["explain"]
    else:
        assert "error: dagopt plans no GPU operators in this session" in said["explain"]
