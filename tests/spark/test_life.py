"""Contexts that come and go: nothing of dagopt outlives its context, and no planner its application."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from dagopt.spark.launch import PLUGIN
from tests.conftest import ROOT, RunSparkScript

pytestmark = pytest.mark.spark

PLANNER = ROOT / "tests" / "matrix" / "scripted_planner.py"

#: The first context runs a job; the second is stopped while its tasks are held; the third ends with the process.
JOB = """
import json, sys, threading, time
from pathlib import Path
from pyspark import SparkConf, SparkContext
from tests.processes import children

here, planner = Path(sys.argv[1]), sys.argv[2]


def context(name, policy):
    conf = SparkConf().set("spark.dagopt.planner.command", f"{sys.executable} {planner} {here}/{name} {policy}")
    sc = SparkContext(conf=conf)
    deadline = time.monotonic() + 180
    while "ready" not in ((here / name).read_text() if (here / name).exists() else "") and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    return sc


def job(sc):
    return sorted(sc.parallelize(range(100), 2).map(lambda n: (n % 4, n)).partitionBy(4).map(lambda r: r[0]).collect())


def report(sc):
    return json.loads(sc._jvm.org.apache.spark.scheduler.dagopt.Dagopt.reportJson())["gate"]


def left(sc_jvm):
    threads = sc_jvm.java.lang.Thread.getAllStackTraces().keySet()
    names = [t.getName() for t in threads if t.getName().startswith("dagopt")]
    return names, children(sc_jvm.java.lang.ProcessHandle.current().pid(), "planner")


def gone(jvm):
    deadline = time.monotonic() + 20
    while any(left(jvm)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return left(jvm)


result = {}
sc = context("one", "group size=1 delay_ms=200")
jvm = sc._jvm
result["one"] = [job(sc), report(sc)]
sc.stop()
result["after_one"] = gone(jvm)

sc = context("two", "slow late_ms=50000")
ended = []


def run():
    try:
        ended.append(job(sc))
    except Exception as e:
        ended.append("cancelled" if "cancelled" in str(e) or "shut down" in str(e) else str(e))


thread = threading.Thread(target=run)
thread.start()
deadline = time.monotonic() + 180
while report(sc)["task_sets_held"] == 0 and time.monotonic() < deadline:
    time.sleep(0.05)
begun_s = time.monotonic()
result["two"] = report(sc)
sc.stop()
result["stop_s"] = time.monotonic() - begun_s
thread.join(30)
result["two_ended"] = ended
result["after_two"] = gone(jvm)

sc = context("three", "deaf")
result["three"] = job(sc)
result["three_left"] = left(jvm)[1]
print("result", json.dumps(result), flush=True)
"""
ROWS = sorted(n % 4 for n in range(100))


@pytest.mark.slow
def test_contexts_one_after_the_other(
    run_spark_script: RunSparkScript, spark_jar: Path, tmp_path: Path
) -> None:
    ended = run_spark_script(
        JOB,
        str(tmp_path),
        str(PLANNER),
        dagopt=False,
        conf={
            "spark.master": "local[2]",
            "spark.plugins": PLUGIN,
            "spark.driver.extraClassPath": str(spark_jar),
            "spark.dagopt.minInputBytes": "0",
            "spark.dagopt.planner.timeout": "60s",
        },
        timeout_s=900,
    ).ok()
    (line,) = [line for line in ended.stdout.splitlines() if line.startswith("result ")]
    result = json.loads(line.removeprefix("result "))
    rows, gate = result["one"]
    assert rows == ROWS
    assert (gate["task_sets_held"], gate["fallbacks"], gate["off_reason"]) == (1, 0, "")
    assert result["two"]["off_reason"] == ""
    assert result["two_ended"] == ["cancelled"]  # as by Spark alone
    assert result["stop_s"] < 30
    assert result["after_one"] == result["after_two"] == [[], []]
    assert result["three"] == ROWS
    # That a context ended is no news.
    assert not [
        line
        for line in ended.stderr.splitlines()
        if "dagopt is off" in line and " INFO " not in line
    ]
    # This planner reads nothing, so it does not see that the application has ended.
    (planner,) = result["three_left"]
    assert_gone(planner)


def test_a_driver_that_is_killed_takes_its_planner_with_it(
    run_spark_script: RunSparkScript, tmp_path: Path
) -> None:
    script = """
    import os, signal, sys, time
    from pathlib import Path
    from pyspark import SparkContext
    from tests.processes import children

    sc = SparkContext.getOrCreate()
    jvm = sc._jvm.java.lang.ProcessHandle.current().pid()

    # The plugin starts it beside the application.
    deadline_s = time.monotonic() + 120
    while not children(jvm, "dagopt.planner") and time.monotonic() < deadline_s:
        time.sleep(0.1)
    # Not printed: what a script prints goes through the JVM, and would die with it.
    (planner,) = children(jvm, "dagopt.planner")
    Path(sys.argv[1]).write_text(str(planner))
    os.kill(jvm, signal.SIGKILL)
    """
    found = tmp_path / "planner"
    run_spark_script(script, str(found), conf={"spark.master": "local[2]"}, timeout_s=600)
    assert_gone(int(found.read_text()))


def test_a_stage_name_with_half_a_character(run_spark_script: RunSparkScript) -> None:
    script = r"""
    import json, time
    from pyspark import SparkContext

    sc = SparkContext.getOrCreate()
    names = sc._jvm.java.util.Properties()
    names.load(sc._jvm.java.io.StringReader(r"callSite.short=half \ud83d of it"))
    rdd = sc.range(0, 1000, numSlices=4).map(lambda x: (x, x)).partitionBy(4)._jrdd.rdd()
    sc._jsc.sc().setLocalProperties(names)  # partitionBy sets a call site of its own
    deadline_s = time.monotonic() + 60
    report = {}
    while not report.get("decisions") and time.monotonic() < deadline_s:  # the planner starts beside
        assert rdd.count() > 0
        report = json.loads(sc._jvm.org.apache.spark.scheduler.dagopt.Dagopt.reportJson())
    print(json.dumps(report))
    """
    conf = {
        "spark.master": "local[2]",
        "spark.dagopt.minInputBytes": "0",
        "spark.dagopt.planner.timeout": "60s",
    }
    ended = run_spark_script(script, conf=conf, timeout_s=600).ok()
    report = json.loads(ended.stdout.splitlines()[-1])
    assert report["gate"]["off_reason"] == ""
    assert "half ? of it" in {decision["name"] for decision in report["decisions"]}


def assert_gone(pid: int, within_s: float = 20) -> None:
    deadline = time.monotonic() + within_s
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    state = Path(f"/proc/{pid}/stat")
    if state.exists() and ") Z" not in state.read_text():
        os.kill(pid, 9)
        pytest.fail(f"planner {pid} is still there {within_s} s after its application")
