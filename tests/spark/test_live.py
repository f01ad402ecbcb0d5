"""What a running application shows: the tab, Spark's metrics, and the report in a notebook."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.browser import dom_of, needs_browser
from tests.conftest import run_spark
from tests.spark.gpu_cluster import gpu_conf
from tests.unit.reporting.test_page import EVIL, Parts

pytestmark = pytest.mark.spark


#: A shuffle whose stage has an evil name, and a GPU operator; then all that there is to see is written down.
JOB = """
import json, os, sys, time, urllib.request
from pathlib import Path
import dagopt
from pyspark import InheritableThread
from pyspark.sql import SparkSession

here, evil = Path(sys.argv[1]), json.loads(sys.argv[2])
spark = SparkSession.builder.getOrCreate()
sc = spark.sparkContext


def get(path):
    with urllib.request.urlopen(sc.uiWebUrl + path, timeout=60) as answer:
        return answer.read().decode("utf-8")


def keep(parts):
    yield from parts


first = dagopt.report(spark)
(here / "early.html").write_text(get("/dagopt/"), encoding="utf-8")
rdd = sc.range(0, 1000, numSlices=4).map(lambda x: (x, os.urandom(500))).partitionBy(8)._jrdd.rdd()
deadline_s = time.monotonic() + 60
held = ""


def count():
    sc.setLocalProperty("callSite.short", evil)
    # The planner starts beside it, and a slow machine may look at the tab only once a hold is over.
    while not (held and dagopt.report(spark).body["groups"]) and time.monotonic() < deadline_s:
        assert rdd.count() > 0


counting = InheritableThread(target=count)
counting.start()
while counting.is_alive():
    shown = get("/dagopt/")
    held = held or ("" if "No task is held." in shown else shown)
counting.join()
(here / "held.html").write_text(held, encoding="utf-8")
infer = dagopt.gpu_udf(keep, dagopt.gpu_profile())
frame = spark.range(0, 100, 1, 4)
assert frame.mapInPandas(keep, "id long").mapInPandas(infer, "id long").count() == 100
while not dagopt.report(spark).body["gpu_use"] and time.monotonic() < deadline_s:
    time.sleep(0.1)
report = dagopt.report(spark)
(here / "tab.html").write_text(get("/dagopt/"), encoding="utf-8")
(here / "prometheus.txt").write_text(get("/metrics/prometheus"), encoding="utf-8")
(here / "inline.html").write_text(report._repr_html_(), encoding="utf-8")
(here / "page.html").write_text(report.to_html(), encoding="utf-8")
(here / "text").write_text(repr(report), encoding="utf-8")
(here / "report.json").write_text(report.to_json(), encoding="utf-8")
(here / "timeline.json").write_text(json.dumps(report.timeline), encoding="utf-8")
spark.stop()  # the sinks are told once more
stopped = dagopt.report(spark)
assert stopped.body["gate"]["task_sets_seen"] >= 1 and stopped.timeline == {}, stopped
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the application wrote down."""

    directory: Path
    report: Mapping[str, Any]

    def text(self, name: str) -> str:
        return (self.directory / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def seen(spark_jar: Path, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    assert spark_jar.is_file()
    directory = tmp_path_factory.mktemp("live")
    sinks = "spark.metrics.conf.driver.sink"
    conf = {
        **gpu_conf(directory),
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.dagopt.minInputBytes": "0",
        "spark.dagopt.planner.timeout": "60s",
        # So slow that reading seems to take long, and delays as long as is allowed.
        "spark.dagopt.disk.bandwidth": "16k",
        "spark.dagopt.maxDelay": "500ms",
        f"{sinks}.csv.class": "org.apache.spark.metrics.sink.CsvSink",
        f"{sinks}.csv.directory": str(directory / "csv"),
        f"{sinks}.prometheusServlet.class": "org.apache.spark.metrics.sink.PrometheusServlet",
        f"{sinks}.prometheusServlet.path": "/metrics/prometheus",
    }
    (directory / "csv").mkdir()
    run_spark(directory, JOB, str(directory), json.dumps(EVIL), conf=conf).ok()
    return Seen(directory=directory, report=json.loads((directory / "report.json").read_text()))


def test_the_tab_shows_decisions_with_reasons_and_names_as_text(seen: Seen) -> None:
    parts = Parts(seen.text("tab.html"))
    decision = next(one for one in seen.report["decisions"] if one["name"] == EVIL)
    texts = [text.strip() for text in parts.texts]
    assert EVIL in texts
    assert decision["reason"] in texts
    assert seen.report["gpu_stages"][-1]["reason"] in texts
    assert {"Held now", "Decisions", "GPU operators"} <= set(texts)
    assert "b" not in parts.tags
    assert "alert(1)" not in parts.scripts
    assert any(text.startswith("GPUs: allocated ") for text in texts)


def test_the_tab_shows_holds_while_they_last_and_delays_afterwards(seen: Seen) -> None:
    assert seen.report["gate"]["groups_launched"] >= 1
    held = [text.strip() for text in Parts(seen.text("held.html")).texts]
    assert held[held.index("Held now") :].index(EVIL) < 12  # the first row of its table
    (hold, *_) = [group for group in seen.report["groups"] if group["launch_s"] > group["formed_s"]]
    text = f"stage {hold['stage']}, group {hold['group']}: "
    assert text in seen.text("page.html")
    assert "Task groups" in [text.strip() for text in Parts(seen.text("tab.html")).texts]


def test_the_tab_is_there_from_the_start_and_named_in_the_others(seen: Seen) -> None:
    early = Parts(seen.text("early.html"))
    assert any(source.rstrip("/").endswith("/dagopt") for source in early.sources)
    assert any(
        "dagopt, mode on: 0 grouping decisions" in text or "did not answer" in text
        for text in early.texts
    )


def metrics(text: str) -> dict[str, float]:
    """Of Spark's Prometheus page, those of dagopt."""
    found = re.findall(r"^metrics_\w+_driver_dagopt_(\w+)_Value\S*? (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in found}


def test_prometheus_reads_what_the_report_says(seen: Seen) -> None:
    found, gate = metrics(seen.text("prometheus.txt")), seen.report["gate"]
    assert found["decisions"] == len(seen.report["decisions"]) >= 1
    assert found["gpuDecisions"] == len(seen.report["gpu_stages"]) >= 1
    assert found["taskSetsSeen"] == gate["task_sets_seen"] >= 1
    assert found["fallbacks"] == gate["fallbacks"]
    assert found["idleHoldSeconds"] <= seen.report["idle_hold_s"]
    allocated_s = sum(use["gpu_allocated_s"] for use in seen.report["gpu_use"])
    assert found["gpuAllocatedSeconds"] == pytest.approx(allocated_s, abs=0.01) != 0
    assert found["off"] == 0
    assert {"tasksHeldNow", "groupsLaunched", "gpuBusySeconds", "gpuIdleSeconds"} <= found.keys()


def test_another_sink_has_them_too(seen: Seen) -> None:
    (path,) = (seen.directory / "csv").glob("*.driver.dagopt.decisions.csv")
    with path.open(encoding="utf-8") as file:
        *_, last = csv.DictReader(file)
    assert int(last["value"]) == len(seen.report["decisions"])


def test_the_timeline_has_every_task_of_the_application(seen: Seen) -> None:
    timeline = json.loads(seen.text("timeline.json"))
    tasks = {
        (stage["stage"], task[0]): task for stage in timeline["stages"] for task in stage["tasks"]
    }
    for decision in seen.report["decisions"]:
        assert {(decision["stage"], index) for index in range(decision["num_tasks"])} <= set(tasks)
    assert all(start <= end for *_, start, end, _ in tasks.values())
    assert timeline["tasks_left_out"] == 0
    assert any(stage["gpus"] == 1 for stage in timeline["stages"])
    assert [executor["gpus"] for executor in timeline["executors"] if executor["gpus"]] == [1]


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(seen: Seen) -> None:
    outer = Parts(seen.text("inline.html"))
    assert outer.tags == ["iframe", "details", "summary", "pre"]
    assert EVIL[:20] in "".join(outer.texts)  # the text cuts long names
    (inner,) = outer.frames
    assert inner == seen.text("page.html")
    parts = Parts(inner)
    assert parts.tags.count("script") == 3
    assert parts.sources == []
    assert EVIL in parts.texts
    assert "b" not in parts.tags
    assert seen.text("text").startswith("dagopt, mode on: ")


@needs_browser
def test_a_browser_draws_its_timeline(seen: Seen, tmp_path: Path) -> None:
    dom = dom_of(seen.directory / "page.html", tmp_path / "profile")
    parts = Parts(dom)
    assert 'class="point"' in dom
    assert parts.tags.count("script") == 3
