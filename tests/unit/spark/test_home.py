"""Which Spark is found, and what it says of itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dagopt.errors import InputError
from dagopt.spark.home import SparkHome, find_spark, pyspark_home


def make_spark(home: Path, version: str = "4.0.1") -> Path:
    """A Spark of which only the names of the files are right."""
    for folder in ("bin", "jars", "conf"):
        (home / folder).mkdir(parents=True)
    (home / "jars" / f"spark-core_2.13-{version}.jar").touch()
    submit = home / "bin" / "spark-submit"
    submit.touch(mode=0o755)
    return submit


def test_spark_home_wins(tmp_path: Path) -> None:
    submit = make_spark(tmp_path / "named")
    make_spark(tmp_path / "on_path")
    environment = {"SPARK_HOME": str(tmp_path / "named"), "PATH": str(tmp_path / "on_path/bin")}
    found = find_spark(environment)
    assert found == SparkHome(submit=submit, home=tmp_path / "named")
    assert found.version() == "4.0.1"


def test_then_the_path(tmp_path: Path) -> None:
    submit = make_spark(tmp_path / "on_path", "3.5.1-vendor-2")
    found = find_spark({"PATH": str(tmp_path / "on_path/bin")})
    assert found.submit == submit
    assert found.version() == "3.5.1-vendor-2"


def test_pips_script_on_the_path_leads_to_pyspark(tmp_path: Path) -> None:
    make_spark(tmp_path / "lib/python3.11/site-packages/pyspark", "4.2.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "spark-submit").touch(mode=0o755)
    assert find_spark({"PATH": str(tmp_path / "bin")}).version() == "4.2.1"


def test_then_the_installed_pyspark() -> None:
    import pyspark

    assert find_spark({"PATH": ""}).version() == pyspark.__version__
    assert pyspark_home(os.environ | {"SPARK_HOME": ""}).home == Path(pyspark.__file__).parent


def test_a_wrong_spark_home_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"SPARK_HOME is .*, but .*spark-submit does not exist"):
        find_spark({"SPARK_HOME": str(tmp_path)})


def test_a_spark_without_jars_is_asked(tmp_path: Path) -> None:
    submit = tmp_path / "spark-submit"
    submit.write_text("#!/bin/sh\necho '   version 3.5.6' >&2\n", encoding="utf-8")
    submit.chmod(0o755)
    assert SparkHome(submit=submit, home=None).version() == "3.5.6"
    submit.write_text("#!/bin/sh\necho no\n", encoding="utf-8")
    with pytest.raises(InputError, match="does not say which Spark it is"):
        SparkHome(submit=submit, home=None).version()
    with pytest.raises(InputError, match="cannot be started"):
        SparkHome(submit=tmp_path / "none", home=None).version()


def test_defaults_come_from_the_conf_folder(tmp_path: Path) -> None:
    make_spark(tmp_path / "a")
    spark = find_spark({"SPARK_HOME": str(tmp_path / "a")})
    assert spark.defaults({}) == {}
    (tmp_path / "a/conf/spark-defaults.conf").write_text("spark.x 1\n", encoding="utf-8")
    assert spark.defaults({}) == {"spark.x": "1"}
    assert spark.defaults({"SPARK_CONF_DIR": str(tmp_path)}) == {}
