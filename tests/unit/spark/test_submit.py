"""spark-submit's arguments with dagopt's settings in them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from dagopt.errors import ConfError, InputError
from dagopt.spark import launch
from dagopt.spark.home import SparkHome
from dagopt.spark.launch import PLUGIN
from dagopt.spark.submit import parse_submit, plan_submission

JAR = "/jars/dagopt-spark-3.5.jar"


@pytest.fixture(autouse=True)
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SparkHome:
    """A Spark 3.5.1 without anything in it but what tells its version, and the jar for it."""
    home = tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    (home / "jars" / "spark-core_2.12-3.5.1.jar").touch()
    (home / "conf").mkdir()
    monkeypatch.setattr(launch, "jar_path", lambda _: _Jar(JAR))
    return SparkHome(submit=home / "bin" / "spark-submit", home=home)


class _Jar(type(Path())):  # type: ignore[misc]
    """A path at which there is a file."""

    def is_file(self) -> bool:
        return True


def planned(
    spark: SparkHome,
    *arguments: str,
    options: Mapping[str, object] | None = None,
    cores: int | None = None,
) -> list[str]:
    """The arguments for spark-submit."""
    command = plan_submission(
        arguments, spark=spark, environment={}, options=options or {}, cores=cores
    ).command
    assert command[0] == str(spark.submit)
    return list(command[1:])


def conf_of(arguments: list[str]) -> dict[str, str]:
    """The last value of each ``--conf``."""
    pairs = pairwise(arguments)
    return dict(value.split("=", 1) for name, value in pairs if name == "--conf")


def test_settings_stand_before_the_application(spark: SparkHome) -> None:
    arguments = planned(spark, "--master", "local[2]", "job.py", "--conf", "x")
    assert arguments[:2] == ["--master", "local[2]"]
    assert arguments[-3:] == ["job.py", "--conf", "x"]
    assert conf_of(arguments[:-3])["spark.plugins"] == PLUGIN


def test_options_of_spark_that_win_over_conf_are_changed_themselves(spark: SparkHome) -> None:
    arguments = planned(
        spark,
        *("--jars", "a.jar", "--driver-class-path", "/x", "--executor-cores", "4"),
        *("--master", "k8s://h", "job.py"),
        options={"slots_per_core": 2},
    )
    assert arguments[:6] == [
        *("--jars", f"a.jar,{JAR}", "--driver-class-path", f"{JAR}:/x"),
        *("--executor-cores", "8"),
    ]
    conf = conf_of(arguments)
    assert "spark.jars" not in conf
    assert conf["spark.kubernetes.executor.request.cores"] == "4"


def test_the_users_conf_is_respected_and_appended_to(spark: SparkHome) -> None:
    arguments = planned(
        spark,
        *("--conf", "spark.dagopt.slotsPerCore=2", "-c", "spark.plugins=com.example.One", "job.py"),
    )
    conf = conf_of(arguments)
    assert conf["spark.dagopt.slotsPerCore"] == "2"
    assert conf["spark.plugins"] == f"com.example.One,{PLUGIN}"


def test_an_option_of_dagopt_wins_over_conf(spark: SparkHome) -> None:
    arguments = planned(
        spark, "--conf", "spark.dagopt.mode=on", "job.py", options={"mode": "explain"}
    )
    assert conf_of(arguments)["spark.dagopt.mode"] == "explain"


def test_wrong_values_are_refused_before_anything_starts(spark: SparkHome, tmp_path: Path) -> None:
    with pytest.raises(
        ConfError, match=r"spark\.dagopt\.mode is 'onn': allowed is off, explain, on"
    ):
        planned(spark, "--conf", "spark.dagopt.mode=onn", "job.py")
    file = tmp_path / "x.conf"
    file.write_text("spark.dagopt.maxDelay soon\n", encoding="utf-8")
    with pytest.raises(ConfError, match=r"spark\.dagopt\.maxDelay is 'soon'"):
        planned(spark, "--properties-file", str(file), "job.py")
    with pytest.raises(InputError, match=r"--conf: expected key=value, got 'spark\.x'"):
        planned(spark, "--conf", "spark.x", "job.py")
    with pytest.raises(InputError, match="--master: a value is missing behind it"):
        planned(spark, "--master")


def test_a_properties_file_replaces_the_defaults(spark: SparkHome, tmp_path: Path) -> None:
    assert spark.home is not None
    defaults = spark.home / "conf" / "spark-defaults.conf"
    defaults.write_text("spark.plugins com.example.Default\n", encoding="utf-8")
    file = tmp_path / "x.conf"
    file.write_text("spark.jars b.jar\n", encoding="utf-8")
    assert conf_of(planned(spark, "job.py"))["spark.plugins"] == f"com.example.Default,{PLUGIN}"
    with_file = conf_of(planned(spark, "--properties-file", str(file), "job.py"))
    assert with_file["spark.plugins"] == PLUGIN
    assert with_file["spark.jars"] == f"b.jar,{JAR}"
    both = planned(spark, f"--properties-file={file}", "--load-spark-defaults", "job.py")
    assert conf_of(both)["spark.plugins"] == f"com.example.Default,{PLUGIN}"


def test_dynamic_allocation_of_the_defaults_is_seen(spark: SparkHome) -> None:
    assert spark.home is not None
    defaults = spark.home / "conf" / "spark-defaults.conf"
    defaults.write_text("spark.dynamicAllocation.enabled true\n", encoding="utf-8")
    assert "spark.task.cpus" not in conf_of(planned(spark, "--master", "k8s://h", "job.py"))


def test_local_cluster_gets_its_cores_in_the_master(spark: SparkHome) -> None:
    arguments = planned(spark, "--master", "local-cluster[2,1,1024]", "job.py")
    assert arguments[:2] == ["--master", "local-cluster[2,4,1024]"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["--help"],
        ["--kill", "driver-1", "--master", "spark://h"],
        ["--status=driver-1"],
        ["--remote", "sc://h", "job.py"],
    ],
)
def test_what_starts_no_application_is_passed_on(spark: SparkHome, arguments: list[str]) -> None:
    expected = [part for text in arguments for part in text.split("=")]
    assert planned(spark, *arguments) == expected


def test_a_switch_takes_no_value() -> None:
    line = parse_submit(["--verbose", "--supervise", "job.py", "--verbose"])
    assert line.options == (("--verbose", None), ("--supervise", None))
    assert line.application == ("job.py", "--verbose")
    assert line.starts_application


def test_two_dashes_end_the_options() -> None:
    line = parse_submit(["--name", "x", "--", "job.py"])
    assert line.options == (("--name", "x"),)
    assert line.application == ("job.py",)
