"""A wrong value, through every door: one error that names the key, the value and what is allowed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import dagopt
from dagopt.errors import ConfError
from dagopt.spark.launch import PLUGIN
from tests.conftest import RunSparkScript, ScriptResult, run_process

WRONG = [
    ("slotsPerCore", "17", "a whole number from 1 to 16"),
    ("planner.timeout", "0", "a time of at least 1ms"),
    ("mode", "ON", "off, explain, on"),
    ("networks", "rack1", "name=address range or host"),
    ("networks", "rack1=10.0.1.0/99", "name=address range or host"),
    ("networks", "rack1=a;rack2=a", "name=address range or host"),
    ("profile", "/nowhere/profile.parquet", "the path of a file that dagopt learn wrote"),
    ("decisionLog", "/nowhere/decisions.jsonl", "the path of a file that may be written"),
    ("planner.python", "nopython", "it is not on the PATH"),
    ("slotPerCore", "2", "dagopt has no such key; did you mean spark.dagopt.slotsPerCore?"),
]
UNKNOWN = {"slotPerCore": "slotsPerCore"}
JOB = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
print("rows", spark.range(0, 1000, 1, 4).repartition(4, "id").groupBy("id").count().count())
spark.stop()
"""


def only_line(ended: ScriptResult) -> str:
    """The one line that a command that must not start anything wrote."""
    assert ended.exit_code == 2, ended.tail()
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    return line


def check(line: str, key: str, value: str, allowed: str) -> None:
    for part in (f"spark.dagopt.{key}", f"'{value}'", allowed):
        assert part in line


def check_option(line: str, key: str, value: str, allowed: str) -> None:
    """An unknown option is named, and the right one, as it was spelt: without the prefix."""
    if key in UNKNOWN:
        assert f" {key} is '{value}': dagopt has no such key; did you mean {UNKNOWN[key]}?" in line
    else:
        check(line, key, value, allowed)


class Builder:
    """A builder that holds settings, as pyspark's does."""

    def __init__(self, **options: str) -> None:
        self._options = options


@pytest.mark.parametrize(("key", "value", "allowed"), WRONG)
def test_configure(key: str, value: str, allowed: str) -> None:
    with pytest.raises(ConfError) as caught:
        dagopt.configure(Builder(**{f"spark.dagopt.{key}": value}))
    check(str(caught.value), key, value, allowed)


@pytest.mark.parametrize(("key", "value", "allowed"), WRONG)
def test_dagopt_conf(key: str, value: str, allowed: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dagopt.cli", "conf", "--option", f"{key}={value}"]
    check_option(only_line(run_process(command, cwd=tmp_path)), key, value, allowed)


@pytest.mark.parametrize("door", ["option", "conf", "properties"])
@pytest.mark.parametrize(("key", "value", "allowed"), [WRONG[0], *WRONG[-3:]])
def test_dagopt_submit(door: str, key: str, value: str, allowed: str, tmp_path: Path) -> None:
    properties = tmp_path / "spark.conf"
    properties.write_text(f"spark.dagopt.{key} {value}\n")
    arguments = {
        "option": ["--option", f"{key}={value}"],
        "conf": ["--conf", f"spark.dagopt.{key}={value}"],
        "properties": ["--properties-file", str(properties)],
    }[door]
    command = [sys.executable, "-m", "dagopt.cli", "submit", *arguments, "job.py"]
    line = only_line(run_process(command, cwd=tmp_path))
    (check_option if door == "option" else check)(line, key, value, allowed)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [WRONG[0], WRONG[4], WRONG[6], WRONG[7], WRONG[-1]],
)
def test_a_properties_file_of_plain_spark_submit(
    run_spark_script: RunSparkScript,
    spark_jar: Path,
    tmp_path: Path,
    key: str,
    value: str,
    allowed: str,
) -> None:
    properties = tmp_path / "spark.conf"
    properties.write_text(f"spark.dagopt.{key} {value}\n")
    ended = run_spark_script(
        JOB,
        dagopt=False,
        submit_arguments=["--properties-file", str(properties)],
        conf={
            "spark.master": "local[2]",
            "spark.plugins": PLUGIN,
            "spark.driver.extraClassPath": str(spark_jar),
        },
        timeout_s=600,
    ).ok()
    assert "rows 1000\n" in ended.stdout
    (line,) = [line for line in ended.stderr.splitlines() if "dagopt is off" in line]
    assert " ERROR " in line
    check(line, key, value, allowed)
