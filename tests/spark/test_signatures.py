"""The planner and the reader of event logs give a stage the same signature, run after run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from dagopt.events.read import find_event_logs, read_trace
from dagopt.model.stage_profile import loose_signature
from tests.conftest import RunSparkScript

pytestmark = pytest.mark.spark

#: Two queries alike but for their words, which adaptive execution gives stages of one name, and a
#: shuffle without SQL.
JOB = """
import dagopt
from pyspark.sql import SparkSession, functions as F

builder = dagopt.configure(SparkSession.builder, min_input_bytes="1k", decision_log="decisions.jsonl")
spark = builder.getOrCreate()
rows = spark.range(0, 20_000, 1, 4)
for key, mean in (("customer", "spent"), ("town", "earned")):
    means = rows.groupBy((F.col("id") % 997).alias(key)).agg(F.mean("id").alias(mean))
    assert len(means.repartition(4, mean).collect()) == 997
pairs = spark.sparkContext.parallelize(range(2_000), 4).map(lambda n: (n % 100, n))
assert pairs.groupByKey(4).count() == 100
print("held", dagopt.report(spark).to_dict()["gate"]["task_sets_held"])
spark.stop()
"""


#: Those that read a shuffle: two of each query, one of the RDD.
NUM_HELD = 5


@dataclass(frozen=True)
class Run:
    """What one run of the job left."""

    live: dict[tuple[int, int], str]
    """Signatures by stage and attempt, from the decision log."""
    logged: dict[tuple[int, int], str]
    """Signatures from the event log."""


def run(run_spark_script: RunSparkScript, tmp_path: Path, name: str) -> Run:
    log_dir = tmp_path / f"{name} log"
    log_dir.mkdir()
    decision_log = tmp_path / "decisions.jsonl"
    decision_log.unlink(missing_ok=True)
    conf = {
        "spark.master": "local-cluster[1,2,1024]",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": log_dir.as_uri(),
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
    }
    ended = run_spark_script(JOB, conf=conf, dagopt=False).ok()
    assert f"held {NUM_HELD}\n" in ended.stdout
    decisions = [json.loads(line) for line in decision_log.read_text("utf-8").splitlines()]
    (log,) = find_event_logs(log_dir)
    trace, health = read_trace(log)
    assert health.problems == ()
    return Run(
        live={(each["stage"], each["attempt"]): each["signature"] for each in decisions},
        logged={(stage.stage_id, stage.attempt): stage.signature for stage in trace.stages},
    )


def test_the_planner_and_the_event_log_agree_on_signatures(
    run_spark_script: RunSparkScript, tmp_path: Path
) -> None:
    first, second = (run(run_spark_script, tmp_path, name) for name in ("first", "second"))
    for each in (first, second):
        assert len(each.live) == NUM_HELD
        assert each.live == {key: each.logged[key] for key in each.live}
    assert sorted(first.live.values()) == sorted(second.live.values())
    assert sorted(first.logged.values()) == sorted(second.logged.values())

    signatures = list(first.live.values())
    assert len(set(signatures)) == NUM_HELD
    in_plan = [signature for signature in signatures if " in plan " in signature]
    assert len(in_plan) == 4
    # Without its plan's number, a stage of one query is called what a stage of the other is.
    assert len({loose_signature(signature) for signature in in_plan}) == 2
