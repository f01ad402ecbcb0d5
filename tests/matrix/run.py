"""Proves dagopt's JVM part on other versions of Spark: `make test-matrix`.

    python tests/matrix/run.py                              # every line of MATRIX, newest patch of each
    python tests/matrix/run.py --spark-version 3.5          # one line
    python tests/matrix/run.py --spark-home /opt/spark      # the Spark that is there

For each Spark: compiles the jar, runs `smoke.py` without dagopt, and with it on a local cluster of two
executors with one core each, and checks that the rows are the same, that tasks were held and started as the
planner said, on the executors that it said, and that more of them ran at once than there are cores. Also
`gpu_udf_scenarios.py` and, from Spark 4.0 on, `gpu_scenarios.py`, some of each: the rows of GPU operators
behind an inserted shuffle.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from dagopt.spark.jar import Spark, build, find_spark, jar_path  # noqa: E402
from dagopt.spark.launch import submit_conf  # noqa: E402
from tests.conftest import BASE_CONF  # noqa: E402
from tests.spark.gpu_cluster import gpu_conf  # noqa: E402

LINES = "3.5 4.0 4.1 4.2 4.3"
SLOTS_PER_CORE = 4
TASKS_PER_CORE = 2
POLICY = f"group size=2 delay_ms=300 pin=2 raise={TASKS_PER_CORE}"
TIMEOUT_S = 900


class FailedError(Exception):
    """What is not as it should be."""


def install(line: str) -> Path:
    """The newest patch of a line, from the package index unless it is there already."""
    target = ROOT / "build" / "sparks" / line
    if not (target / "pyspark" / "jars").is_dir():
        print(f"{line}: installing pyspark {line}.* into {target.relative_to(ROOT)}", flush=True)
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--target",
            str(target),
        ]
        subprocess.run([*command, f"pyspark=={line}.*"], check=True)
    return target / "pyspark"


def run_script(
    spark: Spark,
    directory: Path,
    name: str,
    command: list[str],
    more_environment: dict[str, str],
) -> None:
    """Runs a script with that Spark, and no other in its environment.

    Raises:
        FailedError: it ended badly; with the end of its log.
    """
    py4j = next((spark.home / "python" / "lib").glob("py4j-*.zip"))
    environment = {
        **{
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("PYSPARK_", "SPARK_"))
        },
        "SPARK_HOME": str(spark.home),
        "PYTHONPATH": os.pathsep.join([str(spark.home.parent), str(py4j), str(ROOT)]),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        **more_environment,
    }
    log = directory / f"{name}.log"
    with log.open("w", encoding="utf-8") as out:
        done = subprocess.run(
            [sys.executable, *command],
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=directory,
            timeout=TIMEOUT_S,
            check=False,
        )
    if done.returncode != 0:
        raise FailedError(f"{name}: exit code {done.returncode}\n{log.read_text()[-4000:]}")


def smoke(
    spark: Spark, directory: Path, name: str, master: str, conf: dict[str, str]
) -> dict[str, Any]:
    """Runs the job and gives what it wrote."""
    result = directory / f"{name}.json"
    everywhere = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    options = [
        f"{key}={value}" for key, value in {**everywhere, "smoke.executors": "2", **conf}.items()
    ]
    script = Path(__file__).parent / "smoke.py"
    run_script(spark, directory, name, [str(script), str(result), master, *options], {})
    loaded: dict[str, Any] = json.loads(result.read_text())
    return loaded


def with_dagopt(spark: Spark, directory: Path, trace: Path) -> dict[str, Any]:
    """Runs the job with dagopt, with more slots than cores as each line allows."""
    jar = str(jar_path(spark.version))
    planner = Path(__file__).parent / "scripted_planner.py"
    conf = {
        "spark.plugins": "org.apache.spark.scheduler.dagopt.DagoptPlugin",
        "spark.driver.extraClassPath": jar,
        "spark.executor.extraClassPath": jar,
        "spark.dagopt.planner.command": f"{sys.executable} {planner} {trace} {POLICY}",
        "spark.dagopt.minInputBytes": "0",
        # A busy machine must not make the test fail: no pin and no hold is to run into its deadline.
        "spark.dagopt.planner.timeout": "60s",
        "spark.dagopt.slotsPerCore": str(SLOTS_PER_CORE),
    }
    if spark.minor == "4.3":
        return smoke(spark, directory, "on", "local-cluster[2,1,1024]", conf)
    conf["spark.executor.cores"] = conf["spark.task.cpus"] = str(SLOTS_PER_CORE)
    conf["spark.executorEnv.OMP_NUM_THREADS"] = "1"
    return smoke(spark, directory, "on", f"local-cluster[2,{SLOTS_PER_CORE},1024]", conf)


def gpu_stages(spark: Spark, directory: Path) -> str:
    """One line about GPU operators in split form.

    Raises:
        FailedError: rows differ from those without a profile, or CPU operators held a GPU.
    """
    names = ["plain", "nested", "followed", "numbered"]
    seen = gpu_run(spark, directory, "gpu_scenarios.py", names)
    for name in names:
        for adaptive in ("true", "false"):
            found = seen[f"{name} {adaptive}"]
            plain, gpu = ([dropped(part) for part in found[which]] for which in ("plain", "gpu"))
            if plain != gpu or not found["num_planned"]:
                raise FailedError(f"GPU stage {name}, adaptive {adaptive}: {found}")
            held = {row.get("cpu_gpus", 0) for part in found["gpu"] for row in part}
            if held != {0}:
                raise FailedError(f"GPU stage {name}, adaptive {adaptive}: CPU tasks held GPUs")
    num_split = sum(one["boundary_before"] for one in seen["report"]["gpu_stages"])
    return f"{num_split} GPU stages behind inserted shuffles"


def gpu_udfs(spark: Spark, directory: Path) -> str:
    """One line about functions of ``dagopt.gpu_udf``.

    Raises:
        FailedError: one held no GPU, or a function beside it did.
    """
    names = ["scalar", "groups", "mapped", "mapped_arrow"]
    seen = gpu_run(spark, directory, "gpu_udf_scenarios.py", names)
    for name in names:
        for adaptive in ("true", "false"):
            found = seen[f"{name} {adaptive}"]
            rows = [str(row) for part in found["gpu"] for row in part]
            held = all("'gpu_gpus': 1" in row for row in rows)
            others = any(f"'{other}_gpus': 1" in row for other in ("cpu", "after") for row in rows)
            if not rows or not held or others or not found["num_planned"]:
                raise FailedError(f"gpu_udf {name}, adaptive {adaptive}: {found}")
    return f"{len(names)} kinds of functions of gpu_udf under their profile"


def gpu_run(spark: Spark, directory: Path, script_name: str, names: list[str]) -> dict[str, Any]:
    """Runs scenarios with boundaries wherever they can be, and gives what they wrote."""
    base = {
        **BASE_CONF,
        **gpu_conf(directory, cores=3),
        "spark.dagopt.boundary": "always",
        "spark.dagopt.planner.timeout": "60s",
        "spark.dagopt.slotsPerCore": "1",
    }
    conf = {**base, **submit_conf(spark.version, base=base)}
    result = directory / "gpu.json"
    script = Path(__file__).parent / script_name
    options = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    environment = {"PYSPARK_SUBMIT_ARGS": shlex.join([*options, "pyspark-shell"])}
    run_script(spark, directory, script.stem, [str(script), str(result), *names], environment)
    seen: dict[str, Any] = json.loads(result.read_text())
    return seen


def dropped(part: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without what differs on purpose: how many GPUs their tasks held."""
    return [{key: row[key] for key in row if not key.endswith("_gpus")} for row in part]


def check(off: dict[str, Any], on: dict[str, Any], trace: list[dict[str, Any]]) -> str:
    """One line about what was seen.

    Raises:
        FailedError: it is not what it must be.
    """
    for part in ("rdd", "sql"):
        if off[part] != on[part]:
            raise FailedError(f"{part} rows differ: {off[part]} without dagopt, {on[part]} with it")
    gate = on["report"]["gate"]
    if gate["off_reason"] or gate["fallbacks"] or gate["messages_dropped"]:
        raise FailedError(f"the gate did not do as told: {gate}")
    told = [line["message"] for line in trace if line["way"] == "in"]
    said = [(line["at_ms"], json.loads(line["message"])) for line in trace if line["way"] == "out"]
    sets = [message for message in told if message["type"] == "task_set"]
    if len(sets) < 2 or gate["task_sets_held"] != len(sets):
        raise FailedError(f"{len(sets)} task sets were told, {gate['task_sets_held']} held")
    started = {
        (message["stage"], message["task"]): message
        for message in told
        if message["type"] == "task_started"
    }
    launches = [(at_ms, message) for at_ms, message in said if message["type"] == "launch"]
    num_pinned = 0
    for at_ms, launch in launches:
        for task in launch["tasks"]:
            start = started.get((launch["stage"], task))
            if start is None:
                raise FailedError(f"task {task} of stage {launch['stage']} never started")
            # Written down just before it was sent; Spark's clock has whole milliseconds.
            if start["time_ms"] < at_ms + launch["delay_ms"] - 2:
                raise FailedError(f"started too early: {start} after {launch} at {at_ms}")
            if launch["executor"] is not None:
                num_pinned += 1
                if start["executor"] != launch["executor"]:
                    raise FailedError(f"not on its executor: {start} after {launch}")
    return (
        f"{len(sets)} task sets held, {gate['groups_launched']} groups launched, {num_pinned} tasks pinned, "
        f"up to {most_at_once(on['times'])} tasks a core, gate {gate['gate_cpu_ns_max'] / 1e6:.2f} ms of CPU at most"
    )


def most_at_once(times: list[list[str]]) -> int:
    """The most tasks that one executor, which has one core, ran at the same time.

    Told by the tasks themselves: for Spark a task ends some time after its core has gone to another.

    Raises:
        FailedError: concurrency was not raised, or more than asked for.
    """
    spans = [(where, float(begin), float(end)) for where, begin, end in times]
    most = max(
        sum(other == where and start <= begin < end for other, start, end in spans)
        for where, begin, _ in spans
    )
    if most != TASKS_PER_CORE:
        raise FailedError(f"{most} tasks ran at once on a core, expected {TASKS_PER_CORE}: {spans}")
    return most


def prove(spark: Spark) -> None:
    build(spark)
    with tempfile.TemporaryDirectory(prefix="dagopt-matrix-") as tmp:
        directory = Path(tmp)
        # Rows do not depend on where they are computed, and one JVM starts sooner than four.
        off = smoke(spark, directory, "off", "local[2]", {"smoke.executors": "0"})
        trace = directory / "trace"
        on = with_dagopt(spark, directory, trace)
        lines = [json.loads(line) for line in trace.read_text().splitlines()]
        print(f"{spark.version}: same rows; {check(off, on, lines)}", flush=True)
        print(f"{spark.version}: {gpu_udfs(spark, directory)}", flush=True)
        if spark.minor != "3.5":
            print(f"{spark.version}: same rows; {gpu_stages(spark, directory)}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Prove dagopt's JVM part on versions of Spark.")
    parser.add_argument(
        "--spark-version", action="append", help="a line such as 3.5; may be repeated"
    )
    parser.add_argument(
        "--spark-home", action="append", type=Path, help="a Spark that is there; may be repeated"
    )
    arguments = parser.parse_args()
    homes = list(arguments.spark_home or [])
    lines = arguments.spark_version or ([] if homes else os.environ.get("MATRIX", LINES).split())
    exit_code = 0
    homes.extend(install(line) for line in lines)
    for home in homes:
        spark = find_spark(home)
        try:
            prove(spark)
        except (FailedError, subprocess.TimeoutExpired) as e:
            print(f"{spark.version}: FAILED: {e}", flush=True)
            exit_code = 1
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
