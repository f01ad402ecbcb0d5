"""Looking at a running application harms nothing: not many who look, not a report that cannot be made."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunSparkScript, run_spark

pytestmark = pytest.mark.spark

#: dagopt's own planner with slow reports. The first of them cannot be made, those while a file ``wait`` is
#: there are not made, and when ``end`` is there the next one ends the planner.
PLANNER = """
import json, os, sys, time
from pathlib import Path
from dagopt.planner import process
from dagopt.planner.__main__ import main

here, make, asked = Path(sys.argv[1]), process.report_body, []


def slow(application, question, now_s):
    asked.append(question.view)
    (here / "asked.json").write_text(json.dumps(asked))
    if len(asked) == 1:
        raise ZeroDivisionError("<b>broken</b>")
    while (here / "wait").exists():
        time.sleep(0.1)
    if (here / "end").exists():
        time.sleep(1)
        os._exit(3)
    time.sleep(0.3)
    return make(application, question, now_s)


process.report_body = slow
sys.exit(main())
"""

JOB = """
import json, sys, threading, time, urllib.request
from pathlib import Path
import dagopt
from dagopt.spark.bridge import call
from pyspark.sql import SparkSession

here = Path(sys.argv[1])
spark = SparkSession.builder.getOrCreate()
sc = spark.sparkContext
result = {}
deadline_s = time.monotonic() + 120


def tab():
    with urllib.request.urlopen(sc.uiWebUrl + "/dagopt/", timeout=60) as answer:
        return answer.read().decode("utf-8")


def timeline(most):
    told = call(sc, "org.apache.spark.scheduler.dagopt.Timeline", "json", sc._jsc.sc(), most)
    return json.loads(str(told))


def count(rdd, times):
    for _ in range(times):
        assert rdd.count() > 0


rdd = sc.range(0, 1000, numSlices=4).map(lambda x: (x, x)).partitionBy(8)
result["broken"] = [str(dagopt.report(spark)), None]
result["broken"][1] = tab()
while not dagopt.report(spark).body.get("decisions") and time.monotonic() < deadline_s:  # the planner starts beside
    count(rdd, 1)
before = json.loads((here / "asked.json").read_text())

loads, over = [], threading.Event()


def look():
    while not over.is_set():
        begun_s = time.monotonic()
        tab()
        loads.append([begun_s, time.monotonic()])


lookers = [threading.Thread(target=look) for _ in range(20)]
for looker in lookers:
    looker.start()
count(rdd, 8)
while len(loads) < 200 and time.monotonic() < deadline_s:
    count(rdd, 1)
over.set()
for looker in lookers:
    looker.join()
asked = json.loads((here / "asked.json").read_text())
result["loads"], result["asked"] = len(loads), asked[len(before):].count(True)
result["seconds"] = max(end_s for _, end_s in loads) - min(begun_s for begun_s, _ in loads)
result["after"] = dagopt.report(spark).to_dict()

late = dagopt.report(spark)
sc.parallelize(range(8), 5).count()
drawn = late.timeline["stages"][0]["tasks"]
result["newest"], result["two"] = drawn, timeline(2)
(gone,) = [e["executor"] for e in timeline(1)["executors"] if e["executor"] == "0"]
sc._jsc.sc().killExecutor(gone)
while gone in [e["executor"] for e in timeline(1)["executors"]] and time.monotonic() < deadline_s:
    time.sleep(0.2)
result["executors"] = [e["executor"] for e in timeline(1)["executors"]]

(here / "wait").touch()
time.sleep(1.5)  # what was shown last is too old
looker = threading.Thread(target=lambda: result.update(interrupted=tab()))
looker.start()
waiting = []
while not waiting and looker.is_alive():
    threads = sc._jvm.java.lang.Thread.getAllStackTraces().keySet()
    of_web = [one for one in threads if one.getName().startswith("SparkUI")]
    waiting = [one for one in of_web if any("DagoptPage" in at.toString() for at in one.getStackTrace())]
for one in waiting:
    one.interrupt()
looker.join()
result["num_interrupted"] = len(waiting)
(here / "wait").unlink()
result["after_interrupt"] = dagopt.report(spark).body["gate"]["off_reason"]

(here / "end").touch()
begun_s = time.monotonic()
dagopt.report(spark)
result["waited_s"] = time.monotonic() - begun_s
result["ended"] = tab()
print("result", json.dumps(result), flush=True)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What those who looked at an application saw."""

    found: dict[str, Any]

    def gate(self) -> dict[str, Any]:
        gate: dict[str, Any] = self.found["after"]["gate"]
        return gate


@pytest.fixture(scope="module")
def looked(spark_jar: Path, tmp_path_factory: pytest.TempPathFactory) -> Looked:
    assert spark_jar.is_file()
    directory = tmp_path_factory.mktemp("harm")
    (directory / "planner.py").write_text(PLANNER, encoding="utf-8")
    command = f"{sys.executable} {directory / 'planner.py'} {directory}"
    conf = {
        "spark.master": "local-cluster[2,2,640]",
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.dagopt.minInputBytes": "0",
        "spark.dagopt.planner.command": command,
        "spark.dagopt.planner.timeout": "2s",
    }
    ended = run_spark(directory, JOB, str(directory), conf=conf).ok()
    (line,) = [line for line in ended.stdout.splitlines() if line.startswith("result ")]
    return Looked(found=json.loads(line.removeprefix("result ")))


def test_a_report_that_cannot_be_made_says_so_and_ends_nothing(looked: Looked) -> None:
    text, page = looked.found["broken"]
    assert "ZeroDivisionError: <b>broken</b>" in text + page
    assert "<b>broken</b>" not in page
    assert looked.found["after"]["decisions"]


def test_many_who_look_make_no_plan_late(looked: Looked) -> None:
    gate = looked.gate()
    assert (gate["fallbacks"], gate["off_reason"]) == (0, "")
    assert gate["task_sets_held"] >= 8
    assert looked.found["loads"] >= 200


def test_many_who_look_ask_once_a_second(looked: Looked) -> None:
    assert 1 <= looked.found["asked"] <= looked.found["seconds"] + 2


def test_the_timeline_is_taken_when_it_is_drawn(looked: Looked) -> None:
    assert len(looked.found["newest"]) == 5


def test_of_a_large_stage_the_newest_tasks_are_drawn(looked: Looked) -> None:
    told = looked.found["two"]
    (stage,) = told["stages"]
    assert stage["tasks"] == looked.found["newest"][-2:]
    assert told["tasks_left_out"] > 3


def test_the_timeline_has_no_executors_that_have_gone(looked: Looked) -> None:
    assert "0" not in looked.found["executors"]
    assert "1" in looked.found["executors"]


def test_who_is_interrupted_sees_a_page_and_ends_nothing(looked: Looked) -> None:
    assert looked.found["num_interrupted"] == 1
    assert "The planner did not answer" in looked.found["interrupted"]
    assert looked.found["after_interrupt"] == ""


def test_who_waits_when_the_planner_ends_waits_no_longer(looked: Looked) -> None:
    assert looked.found["waited_s"] < 5
    assert "dagopt is off: the planner process ended (exit code 3" in looked.found["ended"]


def test_a_planner_that_never_started_is_named_in_the_tab(run_spark_script: RunSparkScript) -> None:
    script = """
    import urllib.request
    from pyspark.sql import SparkSession

    sc = SparkSession.builder.getOrCreate().sparkContext
    for path in ("/dagopt/", "/metrics/prometheus"):
        with urllib.request.urlopen(sc.uiWebUrl + path, timeout=60) as answer:
            print(answer.read().decode("utf-8"), flush=True)
    """
    sinks = "spark.metrics.conf.driver.sink.prometheusServlet"
    conf = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.dagopt.planner.command": "/nowhere/planner",
        f"{sinks}.class": "org.apache.spark.metrics.sink.PrometheusServlet",
        f"{sinks}.path": "/metrics/prometheus",
    }
    shown = run_spark_script(script, conf=conf).ok().stdout
    assert "dagopt is off: it could not start" in shown
    assert "_driver_dagopt_off_Value" in shown
