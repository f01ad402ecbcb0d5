"""configure on builders, without a JVM; what a live session does with it is in tests/spark."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

import dagopt
from dagopt.errors import BridgeError, ConfError, UnknownKeyError
from dagopt.spark import launch
from dagopt.spark.launch import EXTENSION, PLUGIN


@pytest.fixture(autouse=True)
def fake_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A Spark 3.5.1 to be configured for, and its jar; none of the environment's."""
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_CONF_DIR", "MASTER"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "spark"
    for folder in ("bin", "jars", "conf"):
        (home / folder).mkdir(parents=True)
    (home / "bin" / "spark-submit").touch()
    (home / "jars" / "spark-core_2.12-3.5.1.jar").touch()
    (tmp_path / "dagopt-spark-3.5.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setattr(launch, "jar_path", lambda _: tmp_path / "dagopt-spark-3.5.jar")
    return home


def settings(builder: SparkSession.Builder) -> dict[str, Any]:
    """What a builder will set."""
    return dict(builder._options)


def test_a_notebooks_builder_gets_everything(tmp_path: Path) -> None:
    builder = SparkSession.builder.master("local[2]")
    assert dagopt.configure(builder) is builder
    jar = str(tmp_path / "dagopt-spark-3.5.jar")
    assert settings(builder) == {
        "spark.master": "local[2]",
        "spark.plugins": PLUGIN,
        "spark.jars": jar,
        "spark.driver.extraClassPath": jar,
        "spark.sql.extensions": EXTENSION,
        "spark.dagopt.planner.python": sys.executable,
        "spark.dagopt.planner.pythonpath": str(Path(dagopt.__file__).parents[1]),
    }


def test_what_the_user_set_stays() -> None:
    builder = (
        SparkSession.builder.master("k8s://h")
        .config("spark.plugins", "com.example.One")
        .config("spark.dagopt.slotsPerCore", 2)
        .config("spark.dagopt.planner.python", "/bin/sh")
    )
    found = settings(dagopt.configure(builder))
    assert found["spark.plugins"] == f"com.example.One,{PLUGIN}"
    assert found["spark.dagopt.slotsPerCore"] == "2"
    assert found["spark.dagopt.planner.python"] == "/bin/sh"
    assert found["spark.task.cpus"] == "2"


def test_the_defaults_file_is_respected(fake_spark: Path) -> None:
    defaults = fake_spark / "conf" / "spark-defaults.conf"
    defaults.write_text(
        "spark.plugins com.example.Default\nspark.dynamicAllocation.enabled true\n",
        encoding="utf-8",
    )
    found = settings(dagopt.configure(SparkSession.builder.master("k8s://h")))
    assert found["spark.plugins"] == f"com.example.Default,{PLUGIN}"
    assert "spark.task.cpus" not in found


def test_configuring_twice_is_configuring_once() -> None:
    builder = SparkSession.builder.master("local-cluster[2,3,1024]")
    once = settings(dagopt.configure(builder))
    assert once["spark.master"] == "local-cluster[2,12,1024]"
    assert settings(dagopt.configure(builder)) == once


def test_the_last_options_count() -> None:
    builder = SparkSession.builder.master("local-cluster[2,3,1024]")
    dagopt.configure(builder, slots_per_core=8, max_delay="1s")
    found = settings(dagopt.configure(builder, slots_per_core=2))
    assert found["spark.master"] == "local-cluster[2,6,1024]"
    assert found["spark.task.cpus"] == "2"
    assert "spark.dagopt.maxDelay" not in found


def test_what_the_user_sets_in_between_counts() -> None:
    builder = dagopt.configure(SparkSession.builder.master("local-cluster[2,3,1024]"))
    builder = builder.master("yarn").config("spark.dagopt.mode", "explain")
    found = settings(dagopt.configure(builder))
    assert found["spark.master"] == "yarn"
    assert found["spark.dagopt.mode"] == "explain"
    assert "spark.task.cpus" not in found


def test_wrong_options_are_refused_and_nothing_is_set() -> None:
    builder = SparkSession.builder
    with pytest.raises(ConfError, match=r"spark\.dagopt\.slotsPerCore is '99'"):
        dagopt.configure(builder, slots_per_core=99)
    with pytest.raises(UnknownKeyError, match="slots is '2': dagopt has no such key; "):
        dagopt.configure(builder, slots=2)
    builder.config("spark.dagopt.mode", "onn")
    with pytest.raises(ConfError, match=r"spark\.dagopt\.mode is 'onn'"):
        dagopt.configure(builder)
    assert settings(builder) == {"spark.dagopt.mode": "onn"}


def test_mode_off_is_plain_spark() -> None:
    found = settings(dagopt.configure(SparkSession.builder, mode="off"))
    assert found == {"spark.dagopt.mode": "off"}


def test_a_connect_client_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    builder = SparkSession.builder.remote("sc://host")
    dagopt.configure(builder, slots_per_core=2)
    assert settings(builder) == {"spark.remote": "sc://host"}
    assert [record.getMessage() for record in caplog.records] == [
        "dagopt: this is a Spark Connect client; dagopt's settings belong where the server starts"
    ]


def test_an_unsupported_spark_is_told_once(
    fake_spark: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (fake_spark / "jars" / "spark-core_2.12-3.5.1.jar").rename(
        fake_spark / "jars" / "spark-core_2.12-3.4.4.jar"
    )
    builder = SparkSession.builder.config("spark.x", "1")
    dagopt.configure(builder)
    assert settings(builder) == {"spark.x": "1"}
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (
            logging.WARNING,
            "dagopt: Spark 3.4.4 runs without dagopt, which works with Spark 3.5 to 4.3",
        )
    ]


def test_no_report_of_a_connect_session() -> None:
    with pytest.raises(BridgeError, match="not active in this session: it is a Spark Connect"):
        dagopt.report(SimpleNamespace())  # type: ignore[arg-type]


def without_plugin(settings: dict[str, str]) -> Any:
    """A session with such settings."""
    context = SimpleNamespace(_jvm=None, getConf=lambda: settings)
    return SimpleNamespace(_jsparkSession=1, sparkContext=context)


def test_no_report_without_the_plugin() -> None:
    with pytest.raises(BridgeError, match=r"not active in this session: spark\.plugins does"):
        dagopt.report(without_plugin({}))


def test_the_report_of_mode_off_says_so() -> None:
    found = dagopt.report(
        without_plugin(settings(dagopt.configure(SparkSession.builder, mode="off")))
    )
    assert str(found) == "dagopt is off: spark.dagopt.mode is off"
    assert found.to_dict() == {"mode": "off", "gate": {"off_reason": "spark.dagopt.mode is off"}}


def test_the_package_has_nothing_else() -> None:
    with pytest.raises(AttributeError, match="no attribute 'configured'"):
        dagopt.configured  # noqa: B018
