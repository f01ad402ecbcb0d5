"""A jar that does not fit the Spark it is loaded into: one warning, and the job runs as plain Spark."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dagopt.spark.jar import JVM_DIR, PROPERTIES, find_spark
from dagopt.spark.launch import PLUGIN, SPARK_LINES
from tests.conftest import RunSparkScript

pytestmark = pytest.mark.spark

JOB = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
print("rows", spark.range(0, 1000, 1, 4).repartition(4, "id").groupBy("id").count().count())
spark.stop()
"""
PACKAGE = PLUGIN.rpartition(".")[0].replace(".", "/")


def changed(jar: Path, into: Path, change: Callable[[str, bytes], bytes | None]) -> Path:
    """A copy of a jar with each entry's bytes changed; one that becomes None is left out."""
    with zipfile.ZipFile(jar) as old, zipfile.ZipFile(into, "w") as new:
        for name in old.namelist():
            data = change(name, old.read(name))
            if data is not None:
                new.writestr(name, data)
    return into


def run(run_spark_script: RunSparkScript, jar: Path, master: str = "local[2]") -> list[str]:
    """The warnings about dagopt of a job that ran with this jar, after checking its rows."""
    ended = run_spark_script(
        JOB,
        dagopt=False,
        conf={
            "spark.master": master,
            "spark.plugins": PLUGIN,
            "spark.driver.extraClassPath": str(jar),
            "spark.executor.extraClassPath": str(jar),
            "spark.dagopt.minInputBytes": "0",
        },
        timeout_s=600,
    ).ok()
    assert "rows 1000\n" in ended.stdout
    lines = ended.stderr.splitlines()
    return [line for line in lines if "dagopt" in line and (" WARN " in line or " ERROR " in line)]


def test_a_jar_of_another_line_touches_nothing_but_the_version(
    run_spark_script: RunSparkScript, spark_jar: Path, tmp_path: Path
) -> None:
    """Every class but the two that ask for the version is rubbish: whoever loads it fails."""

    def spoil(name: str, data: bytes) -> bytes:
        if name == PROPERTIES:
            return b"spark.minor=1.6\n"
        keep = name.startswith((f"{PACKAGE}/DagoptPlugin", f"{PACKAGE}/BuildInfo"))
        return data if keep or not name.endswith(".class") else b"\xca\xfe\xba\xbe rubbish"

    jar = changed(spark_jar, tmp_path / "other.jar", spoil)
    (warning,) = run(run_spark_script, jar, "local-cluster[1,2,1024]")
    version = find_spark().version
    assert f"this dagopt jar was built for Spark 1.6 and this is Spark {version}" in warning
    assert "dagopt is off for this application" in warning


def test_the_real_jar_of_another_line(run_spark_script: RunSparkScript) -> None:
    others = [line for line in SPARK_LINES if line != find_spark().minor]
    jars = [JVM_DIR / "jars" / f"dagopt-spark-{line}.jar" for line in reversed(others)]
    built = [jar for jar in jars if jar.is_file()]
    if not built:
        pytest.skip("needs the jar of another line, see `make jars`")
    (warning,) = run(run_spark_script, built[0])
    assert "dagopt is off for this application" in warning


@pytest.mark.parametrize("missing", ["Gate", "HeldSet", "DagoptDriver"])
def test_a_class_that_does_not_link(
    run_spark_script: RunSparkScript, spark_jar: Path, tmp_path: Path, missing: str
) -> None:
    """As on a vendor's Spark that bears the version of Apache's and differs from it."""
    jar = changed(
        spark_jar,
        tmp_path / "broken.jar",
        lambda name, data: None if name == f"{PACKAGE}/{missing}.class" else data,
    )
    (warning,) = run(run_spark_script, jar)
    assert "dagopt is off for this application" in warning
