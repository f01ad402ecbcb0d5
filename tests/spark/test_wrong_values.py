"""A wrong value, through every door: one error that names the key, the value and what is allowed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import dagopt
from dagopt.cli.main import main
from dagopt.errors import ConfError
from dagopt.spark.launch import PLUGIN
from tests.conftest import RunSparkScript, run_process

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
#: One application after the other, with the settings of spark-submit and some more.
JOB = """
import json, sys
from pyspark import SparkConf
from pyspark.sql import SparkSession

for more in json.loads(sys.argv[1]):
    spark = SparkSession.builder.config(conf=SparkConf().setAll(more.items())).getOrCreate()
    print("rows", spark.range(0, 1000, 1, 4).repartition(4, "id").groupBy("id").count().count())
    spark.stop()
"""


def only_line(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a command that must not start anything writes."""
    assert main(arguments) == 2
    written = capfd.readouterr()
    assert written.out == ""
    (line,) = written.err.splitlines()
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
def test_dagopt_conf(key: str, value: str, allowed: str, capfd: pytest.CaptureFixture[str]) -> None:
    check_option(only_line(capfd, "conf", "--option", f"{key}={value}"), key, value, allowed)


@pytest.mark.parametrize("door", ["option", "conf", "properties"])
@pytest.mark.parametrize(("key", "value", "allowed"), [WRONG[0], *WRONG[-3:]])
def test_dagopt_submit(
    door: str,
    key: str,
    value: str,
    allowed: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    properties = tmp_path / "spark.conf"
    properties.write_text(f"spark.dagopt.{key} {value}\n")
    arguments = {
        "option": ["--option", f"{key}={value}"],
        "conf": ["--conf", f"spark.dagopt.{key}={value}"],
        "properties": ["--properties-file", str(properties)],
    }[door]
    # What is not seen to be wrong is not to take the place of this process.
    line = only_line(capfd, "submit", "--dry-run", *arguments, "job.py")
    (check_option if door == "option" else check)(line, key, value, allowed)


def test_a_process_ends_with_its_exit_code(tmp_path: Path) -> None:
    key, value, allowed = WRONG[0]
    command = [sys.executable, "-m", "dagopt.cli", "submit", "--option", f"{key}={value}", "job.py"]
    ended = run_process(command, cwd=tmp_path)
    assert ended.exit_code == 2, ended.tail()
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    check(line, key, value, allowed)


@pytest.mark.spark
def test_applications_of_plain_spark_submit(
    run_spark_script: RunSparkScript, spark_jar: Path, tmp_path: Path
) -> None:
    """The first one's wrong value is in a properties file."""
    wrong = [WRONG[at] for at in (0, 4, 6, 7, -1)]
    key, value, _ = wrong[0]
    properties = tmp_path / "spark.conf"
    properties.write_text(f"spark.dagopt.{key} {value}\n")
    others = [
        {f"spark.dagopt.{key}": "4", f"spark.dagopt.{other}": value}
        for other, value, _ in wrong[1:]
    ]
    ended = run_spark_script(
        JOB,
        json.dumps([{}, *others]),
        dagopt=False,
        submit_arguments=["--properties-file", str(properties)],
        conf={
            "spark.master": "local[2]",
            "spark.plugins": PLUGIN,
            "spark.driver.extraClassPath": str(spark_jar),
        },
        timeout_s=600,
    ).ok()
    assert ended.stdout.count("rows 1000\n") == len(wrong)
    lines = [line for line in ended.stderr.splitlines() if "dagopt is off" in line]
    assert len(lines) == len(wrong)
    for line, (key, value, allowed) in zip(lines, wrong, strict=True):
        assert " ERROR " in line
        check(line, key, value, allowed)
