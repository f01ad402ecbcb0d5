"""Every way to switch dagopt on, with a real Spark: is it active, and is the result right?"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from dagopt.spark.launch import SPARK_LINES
from tests.conftest import BASE_CONF, ROOT, RunSparkScript, run_process, spark_submit
from tests.spark.gpu_cluster import gpu_conf

pytestmark = pytest.mark.spark

#: Prints the report of a session in which one shuffle was run.
JOB = """
import sys
import dagopt
from pyspark.sql import SparkSession

builder = SparkSession.builder
if "configure" in sys.argv:
    builder = dagopt.configure(builder, min_input_bytes=0)
spark = builder.getOrCreate()
print("rows", spark.range(0, 1000, 1, 4).repartition(4, "id").groupBy("id").count().count())
print("report", dagopt.report(spark).to_json())
spark.stop()
if "again" in sys.argv:
    spark = dagopt.configure(SparkSession.builder.master("local[1]")).getOrCreate()
    print("again", dagopt.report(spark).to_json())
    spark.stop()
sys.exit(3 if "fail" in sys.argv else 0)
"""


def report_of(stdout: str, name: str = "report") -> dict[str, Any]:
    """The report that the job printed, after checking that dagopt was active."""
    lines = [line for line in stdout.splitlines() if line.startswith(f"{name} ")]
    assert len(lines) == 1, stdout
    body: dict[str, Any] = json.loads(lines[0].removeprefix(name))
    assert body["gate"]["off_reason"] == ""
    return body


def test_dagopt_submit_switches_it_on_and_passes_the_exit_code(
    run_spark_script: RunSparkScript,
) -> None:
    ended = run_spark_script(JOB, "fail", conf={"spark.dagopt.minInputBytes": "0"})
    assert ended.exit_code == 3, ended.stderr
    assert "rows 1000\n" in ended.stdout
    gate = report_of(ended.stdout)["gate"]
    assert gate["task_sets_held"] >= 1
    started, at_the_end = (
        line.partition(" INFO ")[2]
        for line in ended.stderr.splitlines()
        if " DagoptDriver: " in line
    )
    assert re.match(
        r"DagoptDriver: dagopt \d+\.\d+\.\d+ for Spark \d\.\d runs: mode on, "
        r"planner \S*python\S* -m dagopt\.planner$",
        started,
    )
    held, launched = gate["task_sets_held"], gate["groups_launched"]
    assert re.match(
        rf"DagoptDriver: dagopt at the end: \d+ task sets seen, {held} held, "
        rf"{launched} groups launched, \d+ released without an answer$",
        at_the_end,
    )


def test_configure_in_a_plain_spark_submit(run_spark_script: RunSparkScript) -> None:
    ended = run_spark_script(JOB, "configure", dagopt=False).ok()
    assert report_of(ended.stdout)["gate"]["task_sets_held"] >= 1


def test_configure_in_a_notebook_and_again_in_the_same_jvm(spark_jar: Path, tmp_path: Path) -> None:
    assert spark_jar.is_file()
    (tmp_path / "notebook.py").write_text(JOB, encoding="utf-8")
    settings = " ".join(f"--conf {key}={value}" for key, value in BASE_CONF.items())
    ended = run_process(
        [sys.executable, "notebook.py", "configure", "again"],
        cwd=tmp_path,
        environment={"PYSPARK_SUBMIT_ARGS": f"{settings} pyspark-shell"},
    ).ok()
    assert report_of(ended.stdout)["gate"]["task_sets_held"] >= 1
    report_of(ended.stdout, "again")


def test_what_dagopt_conf_prints(spark_jar: Path, tmp_path: Path) -> None:
    assert spark_jar.is_file()
    (tmp_path / "job.py").write_text(JOB, encoding="utf-8")
    printed = run_process([sys.executable, "-m", "dagopt.cli", "conf"], cwd=tmp_path).ok()
    base = [part for key, value in BASE_CONF.items() for part in ("--conf", f"{key}={value}")]
    command = [str(spark_submit()), *base, *shlex.split(printed.stdout), "job.py"]
    report_of(run_process(command, cwd=tmp_path).ok().stdout)


def own_jar(spark_jar: Path, *, always: bool = False) -> dict[str, str]:
    """What the ready-made files say of the newest jar, for this one: Python 3.10 has no Spark 4.3."""
    if not always and SPARK_LINES[-1] in spark_jar.name:
        return {}
    return {"spark.jars": str(spark_jar), "spark.driver.extraClassPath": str(spark_jar)}


def test_the_command_that_local_cluster_conf_names(spark_jar: Path, tmp_path: Path) -> None:
    text = (ROOT / "spark_conf" / "local-cluster.conf").read_text(encoding="utf-8")
    (command,) = re.findall(r"^#   (spark-submit .*\\\n#.*)$", text, re.MULTILINE)
    _, *arguments = shlex.split(command.replace("\\\n#", " "))
    for name in ("dagopt", "jobs", "spark_conf"):
        (tmp_path / name).symlink_to(ROOT / name)
    over = [part for item in own_jar(spark_jar).items() for part in ("--conf", "=".join(item))]
    ended = run_process(
        [str(spark_submit()), *over, *arguments],
        cwd=tmp_path,
        environment={"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
    ).ok()
    assert " runs: mode on, planner " in ended.stderr
    assert "wrote build/etl: " in ended.stdout
    assert (tmp_path / "build" / "etl" / "carriers" / "_SUCCESS").is_file()


@pytest.mark.parametrize(
    "path", sorted((ROOT / "spark_conf").glob("*.conf")), ids=lambda path: path.stem
)
def test_a_ready_made_file(path: Path, spark_jar: Path, tmp_path: Path) -> None:
    for name in ("dagopt", "spark_conf"):  # the files' paths begin at a checkout's root
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "job.py").write_text(JOB, encoding="utf-8")
    over = {**BASE_CONF, "spark.submit.deployMode": "client"}
    if path.stem.startswith("gpu-"):
        over |= gpu_conf(tmp_path)
    # The jar of these lies where only their drivers find it.
    elsewhere = {"yarn", "kubernetes", "gpu-yarn", "gpu-k8s"}
    over |= own_jar(spark_jar, always=path.stem in elsewhere)
    command = [str(spark_submit()), "--properties-file", str(path)]
    command += [part for key, value in over.items() for part in ("--conf", f"{key}={value}")]
    ended = run_process(
        [*command, "job.py"],
        cwd=tmp_path,
        environment={"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
    ).ok()
    assert "rows 1000\n" in ended.stdout
    report_of(ended.stdout)
