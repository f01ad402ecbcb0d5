"""``dagopt.gpu_stage`` on real Spark (tests/matrix/gpu_rdd_scenarios.py runs its scenarios)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunSparkScript
from tests.spark.gpu_cluster import gpu_conf, run_scenarios

pytestmark = pytest.mark.spark

SCRIPT = "gpu_rdd_scenarios.py"
SCENARIOS = (
    "numbers", "empty_partitions", "no_rows", "lines", "large", "keyed", "reduced", "cached",
)  # fmt: skip


@pytest.fixture(scope="module")
def seen(spark_jar: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the scenarios did, with a boundary in each."""
    assert spark_jar.is_file()
    return run_scenarios(tmp_path_factory.mktemp("rdd"), SCRIPT, conf={"boundary": "always"})


def without_gpus(parts: list[list[Any]]) -> list[list[Any]]:
    """Rows without what differs on purpose: how many GPUs their tasks held while decoding."""
    return [[[re.sub(r", [01]\]", "]", row[0]), *row[1:]] for row in part] for part in parts]


@pytest.mark.parametrize("name", SCENARIOS)
def test_rows_partitions_and_order_are_those_without_dagopt(
    seen: dict[str, Any], name: str
) -> None:
    assert without_gpus(seen[name]["ours"]) == without_gpus(seen[name]["spark"])
    assert any(seen[name]["ours"]) == (name != "no_rows")


def test_gpus_are_held_by_what_is_mapped_next_alone(seen: dict[str, Any]) -> None:
    (row, *_) = seen["numbers"]["ours"][0]
    assert row == ["[0, 0]", "1", "0"]
    assert seen["numbers"]["spark"][0][0] == ["[0, 1]", "1", "0"]
    assert {row[-1] for part in seen["reduced"]["ours"] for row in part} == {"0"}
    assert seen["profile"][0] == seen["profile"][1]


def test_an_action_on_few_partitions_gives_their_rows(seen: dict[str, Any]) -> None:
    assert seen["taken"] == [["[0, 0]", "1", "0"], ["[1, 0]", "1", "1"]]


def test_it_can_be_checkpointed(seen: dict[str, Any]) -> None:
    assert seen["checkpointed"] == [4, 4, True]


def test_a_function_that_raises_shows_its_own_exception(seen: dict[str, Any]) -> None:
    ours, spark_s = seen["failing"]
    assert "ValueError: no such model for 4 rows" in ours
    assert ours.split(":")[0] == spark_s.split(":")[0]


def test_each_decision_is_reported(seen: dict[str, Any]) -> None:
    report = seen["report"]
    assert report["gate"]["off_reason"] == ""
    assert report["gate"]["fallbacks"] == 0
    assert {one["name"] for one in report["gpu_stages"]} == {"gpu_stage"}
    assert {one["form"] for one in report["gpu_stages"]} == {"split"}
    assert {len(one["slices"]) for one in report["gpu_stages"]} == {1}
    split = [use for use in report["gpu_use"] if use["gpu_busy_s"] is not None]
    assert split
    assert all(0 <= use["gpu_busy_s"] <= use["gpu_allocated_s"] for use in split)


@pytest.mark.slow
@pytest.mark.parametrize(
    "conf",
    [{"boundary": "never"}, {"mode": "explain", "boundary": "always"}],
    ids=["never", "explain"],
)
def test_without_boundaries_it_is_spark_s_own(
    spark_jar: Path, tmp_path: Path, conf: dict[str, str]
) -> None:
    assert spark_jar.is_file()
    names = ("numbers", "lines", "keyed")
    found = run_scenarios(tmp_path, SCRIPT, *names, conf=conf)
    for name in names:
        assert found[name]["ours"] == found[name]["spark"]
    ours, spark_s = found["lineage"]
    assert ours == spark_s
    decided = {one["form"] for one in found["report"]["gpu_stages"]}
    assert decided == ({"split"} if conf.get("mode") == "explain" else set())


@pytest.mark.slow
def test_costs_are_learned_where_it_stands(
    run_spark_script: RunSparkScript, tmp_path: Path
) -> None:
    script = """
    import json, os, time
    from pyspark.sql import SparkSession
    import dagopt

    spark = SparkSession.builder.getOrCreate()
    sc = spark.sparkContext
    profile = dagopt.gpu_profile()

    def slow(seconds):
        def work(rows):
            time.sleep(seconds)
            return rows
        return work

    def run(cpu_s):
        return dagopt.gpu_stage(sc.parallelize(range(16), 16).mapPartitions(slow(cpu_s)), profile)

    for _ in range(2):
        staged = run(0.6).mapPartitions(slow(0.1))
        assert staged.glom().collect() == [[number] for number in range(16)]
    run(0.01).mapPartitions(slow(0.3)).count()  # from elsewhere
    print("result", dagopt.report(spark).to_json())

    jvm = sc._jvm
    for child in jvm.java.lang.ProcessHandle.current().children().toArray():
        command = f"/proc/{child.pid()}/cmdline"
        if os.path.exists(command) and b"dagopt.planner" in open(command, "rb").read():
            os.kill(child.pid(), 9)
    late = dagopt.gpu_stage(sc.parallelize(range(4), 2), profile)
    while "off" not in str(dagopt.report(spark)):
        time.sleep(0.05)
    dead = sc.parallelize(range(4), 2)
    assert dagopt.gpu_stage(dead, profile) is dead
    assert late.map(lambda row: row + 1).collect() == [1, 2, 3, 4]
    print("done")
    """
    conf = {**gpu_conf(tmp_path, cores=4), "spark.dagopt.planner.timeout": "60s"}
    ended = run_spark_script(script, conf=conf).ok()
    (line,) = [line for line in ended.stdout.splitlines() if line.startswith("result ")]
    report = json.loads(line.removeprefix("result "))
    first, again, other = report["gpu_stages"]
    assert first["reason"] == "costs are not known: it runs split, which measures them"
    assert other["reason"] == first["reason"]
    assert again["signature"] == first["signature"]
    assert again["form"] == "split"
    assert again["cpu_s"] >= 0.5  # it sleeps 0.6 s; a busy machine adds what it likes
    assert again["predicted_s"] < again["stock_s"]
    assert other["signature"] != first["signature"]
    assert ended.stdout.endswith("done\n")
