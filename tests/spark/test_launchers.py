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
from dagopt.spark.properties import read_properties
from jobs.etl_shuffle import example_tables, write_tables
from tests.conftest import BASE_CONF, QUICK_START, ROOT, RunSparkScript, run_process, spark_submit
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
    settings = [part for key, value in BASE_CONF.items() for part in ("--conf", f"{key}={value}")]
    ended = run_process(
        [sys.executable, "notebook.py", "configure", "again"],
        cwd=tmp_path,
        environment={"PYSPARK_SUBMIT_ARGS": shlex.join([*settings, "pyspark-shell"])},
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


def own_jar(spark_jar: Path) -> dict[str, str]:
    """What the ready-made files say of the newest jar, for this one: Python 3.10 has no Spark 4.3."""
    if SPARK_LINES[-1] in spark_jar.name:
        return {}
    return {"spark.jars": str(spark_jar), "spark.driver.extraClassPath": str(spark_jar)}


@pytest.mark.slow
def test_the_command_that_local_cluster_conf_names(spark_jar: Path, tmp_path: Path) -> None:
    text = (ROOT / "spark_conf" / "local-cluster.conf").read_text(encoding="utf-8")
    (command,) = re.findall(r"^#   (spark-submit .*\\\n#.*)$", text, re.MULTILINE)
    _, *arguments = shlex.split(command.replace("\\\n#", " "))
    for name in ("dagopt", "jobs", "spark_conf"):
        (tmp_path / name).symlink_to(ROOT / name)
    # Some of the data, where the command would have written all of it.
    prepared = arguments[arguments.index("--input") + 1]
    frames = example_tables()
    flights = frames["flights"].query("month == 7 and day <= 2")
    write_tables({**frames, "flights": flights}, tmp_path / prepared, scale=1)
    quick = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
    settings = {**dict.fromkeys(quick, QUICK_START), **own_jar(spark_jar)}
    settings["spark.sql.shuffle.partitions"] = BASE_CONF["spark.sql.shuffle.partitions"]
    over = [part for item in settings.items() for part in ("--conf", "=".join(item))]
    command = [str(spark_submit()), *over, *arguments]
    ended = run_process(command, cwd=tmp_path, environment=environment()).ok()
    assert " runs: mode on, planner " in ended.stderr
    assert "wrote build/etl: " in ended.stdout
    assert (tmp_path / "build" / "etl" / "carriers" / "_SUCCESS").is_file()


#: Its paths are those of a checkout, and it is for GPUs: spark-submit reads it as a user has it do. So it does
#: local-cluster.conf, in the test above. What the others say is told one JVM, one application after the other.
BY_SPARK_SUBMIT = "gpu-standalone"
OTHERS = sorted({path.stem for path in (ROOT / "spark_conf").glob("*.conf")} - {BY_SPARK_SUBMIT})

APPLICATIONS = """
import json, sys
from pathlib import Path
import dagopt
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

SparkContext._ensure_initialized()
java = SparkContext._jvm.java
for name, over in json.loads(Path("over.json").read_text()).items():
    properties = java.util.Properties()
    properties.load(java.io.FileReader(f"spark_conf/{name}.conf"))
    conf = SparkConf().setAppName(name)
    for key in properties.stringPropertyNames():
        conf.set(key, properties.getProperty(key).strip())
    spark = SparkSession(SparkContext(conf=conf.setAll(over.items())))
    rows = spark.range(0, 1000, 1, 4).repartition(4, "id").groupBy("id").count().count()
    print(f"rows-of-{name}", rows)
    print(f"report-of-{name}", dagopt.report(spark).to_json(), flush=True)
    spark.stop()
"""


def link_checkout(directory: Path) -> None:
    """The files' paths begin at a checkout's root."""
    for name in ("dagopt", "spark_conf"):
        (directory / name).symlink_to(ROOT / name)


def environment() -> dict[str, str]:
    """The planner's Python is found on the PATH."""
    return {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def over_a_file(name: str, directory: Path) -> dict[str, str]:
    """What stands in a ready-made file, but cannot be had on this machine."""
    gpu = gpu_conf(directory) if name.startswith("gpu-") else {}
    return {**BASE_CONF, "spark.submit.deployMode": "client", **gpu}


def test_a_ready_made_file_by_spark_submit(spark_jar: Path, tmp_path: Path) -> None:
    link_checkout(tmp_path)
    (tmp_path / "job.py").write_text(JOB, encoding="utf-8")
    over = {**over_a_file(BY_SPARK_SUBMIT, tmp_path), **own_jar(spark_jar)}
    command = [str(spark_submit()), "--properties-file", f"spark_conf/{BY_SPARK_SUBMIT}.conf"]
    command += [part for key, value in over.items() for part in ("--conf", f"{key}={value}")]
    ended = run_process([*command, "job.py"], cwd=tmp_path, environment=environment()).ok()
    assert "rows 1000\n" in ended.stdout
    report_of(ended.stdout)


@pytest.fixture(scope="module")
def applications(spark_jar: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the applications with the other files printed."""
    directory = tmp_path_factory.mktemp("files")
    link_checkout(directory)
    jar = {"spark.jars": str(spark_jar)}
    over = {name: {**over_a_file(name, directory), **jar} for name in OTHERS}
    (directory / "over.json").write_text(json.dumps(over))
    (directory / "job.py").write_text(APPLICATIONS, encoding="utf-8")
    arguments = ["--driver-class-path", str(spark_jar), "--driver-java-options", QUICK_START]
    submit = {"PYSPARK_SUBMIT_ARGS": shlex.join([*arguments, "pyspark-shell"])}
    return (
        run_process(
            [sys.executable, "job.py"], cwd=directory, environment={**environment(), **submit}
        )
        .ok()
        .stdout
    )


@pytest.mark.parametrize("name", OTHERS)
def test_a_ready_made_file(applications: str, name: str) -> None:
    assert f"rows-of-{name} 1000\n" in applications
    report = report_of(applications, f"report-of-{name}")
    assert report["mode"] == ("explain" if name == "explain" else "on")


@pytest.mark.parametrize("name", [*OTHERS, BY_SPARK_SUBMIT])
def test_the_jar_that_a_ready_made_file_names(name: str) -> None:
    settings = read_properties(ROOT / "spark_conf" / f"{name}.conf")
    for key in ("spark.jars", "spark.driver.extraClassPath"):
        path = Path(settings[key].removeprefix("local://"))
        assert path.name == f"dagopt-spark-{SPARK_LINES[-1]}.jar"
        # In a checkout, in an image, or in the working directory of a driver in the cluster.
        assert str(path.parent) in {"dagopt/jvm/jars", "/opt/dagopt", "."}
