"""Ten thousand small stages, each held and released: neither the planner nor the gate grows by them."""

from __future__ import annotations

import json
import os

import pytest

from tests.conftest import RunSparkScript

pytestmark = [pytest.mark.spark, pytest.mark.soak]

NUM_STAGES = int(os.environ.get("NUM_STAGES", "10000"))
WARM_STAGES = max(1000, NUM_STAGES // 10)
"""After so many all that is kept to a bound, such as the last 1,000 decisions, has come to it."""

JOB = """
import json, sys, time
from pathlib import Path
from pyspark.sql import SparkSession
from tests.processes import children

warm, last = int(sys.argv[1]), int(sys.argv[2])
spark = SparkSession.builder.getOrCreate()
sc = spark.sparkContext
jvm = sc._jvm
server = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
commands = jvm.javax.management.ObjectName("com.sun.management:type=DiagnosticCommand")


def histogram():
    arguments = sc._gateway.new_array(jvm.java.lang.Object, 1)
    arguments[0] = sc._gateway.new_array(jvm.java.lang.String, 0)
    types = sc._gateway.new_array(jvm.java.lang.String, 1)
    types[0] = "[Ljava.lang.String;"
    lines = server.invoke(commands, "gcClassHistogram", arguments, types).splitlines()
    ours = [line.split() for line in lines if "org.apache.spark.scheduler.dagopt." in line]
    return {row[3]: int(row[1]) for row in ours}


def seen(stages):
    time.sleep(2)
    (planner,) = children(jvm.java.lang.ProcessHandle.current().pid(), "dagopt.planner")
    status = Path(f"/proc/{planner}/status").read_text()
    rss = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    gate = json.loads(jvm.org.apache.spark.scheduler.dagopt.Dagopt.reportJson())
    print("seen", json.dumps({
        "stages": stages,
        "planner_rss_bytes": int(rss.split()[1]) * 1024,
        "report_chars": len(json.dumps(gate)),
        "objects": histogram(),
        "gate": gate["gate"],
    }), flush=True)


rdd = spark.range(0, 1000, 1, 2).repartition(2, "id")._jdf.rdd()
held = 0
while held < last:
    # A name of its own for every stage: what is learned by name must not be kept for ever either.
    sc.setLocalProperty("callSite.short", f"stage {held}")
    assert rdd.count() == 1000
    held += 1
    if held in (warm, last):
        seen(held)
"""


def test_ten_thousand_held_stages_leave_nothing_behind(run_spark_script: RunSparkScript) -> None:
    ended = run_spark_script(
        JOB,
        str(WARM_STAGES),
        str(NUM_STAGES),
        conf={
            "spark.master": "local[2]",
            "spark.dagopt.minInputBytes": "1",
            # Every stage shall be planned, however busy the machine is.
            "spark.dagopt.planner.timeout": "60s",
            "spark.driver.extraJavaOptions": "--add-exports=java.management/com.sun.jmx.mbeanserver=ALL-UNNAMED",
        },
        timeout_s=5400,
    ).ok()
    lines = [line for line in ended.stdout.splitlines() if line.startswith("seen ")]
    warm, last = (json.loads(line.removeprefix("seen ")) for line in lines)
    assert last["gate"]["off_reason"] == ""
    assert last["gate"]["task_sets_held"] >= NUM_STAGES - 10
    assert last["gate"]["fallbacks"] == last["gate"]["messages_dropped"] == 0
    assert last["planner_rss_bytes"] - warm["planner_rss_bytes"] < 16 * 1024 * 1024
    assert last["report_chars"] < 1.5 * warm["report_chars"]
    grown = {name: (warm["objects"].get(name, 0), n) for name, n in last["objects"].items()}
    assert not {name: counts for name, counts in grown.items() if counts[1] > counts[0] + 50}, grown
