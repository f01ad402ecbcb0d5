"""``dagopt.explain`` on real plans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.spark.gpu_cluster import gpu_conf, needs_profiles_in_sql

pytestmark = [pytest.mark.spark, needs_profiles_in_sql]

SCRIPT = """
import json, time
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
import dagopt
from dagopt.errors import BridgeError

spark = SparkSession.builder.getOrCreate()
tracker = spark.sparkContext.statusTracker()
profile = dagopt.gpu_profile()
seen = {}

def decode(parts):
    for part in parts:
        time.sleep(0.4)  # and 0.1 s on the GPU
        yield part

def infer(parts):
    for part in parts:
        time.sleep(0.1)
        yield part

def after(parts):
    return parts

def scores(frame):
    frame = frame.mapInPandas(decode, "id long").mapInPandas(infer, "id long", profile=profile)
    return frame.mapInPandas(after, "id long")

def explained(frame):
    before = len(tracker.getJobIdsForGroup(None))
    shown = dagopt.explain(frame)
    text, page = str(shown), shown._repr_html_()
    assert text.splitlines()[0] in page
    return {
        **shown.to_dict(), "text": text, "jobs": len(tracker.getJobIdsForGroup(None)) - before,
    }

for adaptive in ("true", "false"):
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    plans = {
        "pipeline": lambda: scores(spark.range(0, 1200, 1, 12)),
        "shuffled": lambda: scores(spark.range(0, 1200, 1, 3).repartition(12)),
    }
    for name, plan in plans.items():
        first = explained(plan())
        plan().write.format("noop").mode("overwrite").save()
        seen[f"{name} {adaptive}"] = [first, explained(plan())]
decided = len(dagopt.report(spark).gpu_stages)

small = spark.range(100).groupBy("id").count()
joined = spark.range(0, 100, 1, 5).join(F.broadcast(small), "id").select("id")
seen["joined"] = explained(scores(joined))
seen["subquery"] = explained(scores(spark.sql("SELECT id FROM range(0, 9, 1, 7) WHERE id < (SELECT max(id) FROM range(5))")))
seen["cached"] = explained(scores(spark.range(0, 100, 1, 8).repartition(4).cache()))
seen["union"] = explained(scores(joined.union(spark.range(0, 9, 1, 2))))
seen["limited"] = explained(scores(spark.range(0, 9, 1, 2)).limit(3))
seen["two"] = explained(scores(scores(spark.range(0, 9, 1, 2))))
seen["none"] = explained(spark.range(4))
assert len(dagopt.report(spark).gpu_stages) == decided  # nothing was recorded
print("result", json.dumps(seen))
"""


@pytest.fixture(scope="module")
def seen(spark_jar: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    from tests.conftest import run_spark

    assert spark_jar.is_file()
    directory = tmp_path_factory.mktemp("explain")
    conf = {
        **gpu_conf(directory, cores=4),
        "spark.dagopt.boundary": "always",
        "spark.dagopt.planner.timeout": "60s",
    }
    ended = run_spark(directory, SCRIPT, conf=conf).ok()
    (line,) = [line for line in ended.stdout.splitlines() if line.startswith("result ")]
    found: dict[str, Any] = json.loads(line.removeprefix("result "))
    return found


def test_nothing_is_run(seen: dict[str, Any]) -> None:
    shown = [
        one for found in seen.values() for one in (found if isinstance(found, list) else [found])
    ]
    assert {one["jobs"] for one in shown} == {0}


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("name", ["pipeline", "shuffled"])
def test_what_ran_before_is_known(seen: dict[str, Any], name: str, adaptive: str) -> None:
    ((first,), (again,)) = (found["operators"] for found in seen[f"{name} {adaptive}"])
    assert first["num_partitions"] == again["num_partitions"] == 12
    if adaptive == "true":
        assert (first["form"], first["predicted_s"]) == ("probe", None)
        assert "costs are not known" in first["reason"]
    else:  # the same plan ran with adaptive execution
        assert first["predicted_s"] is not None
    assert again["form"] in {"split", "sliced"}
    assert again["stock_s"] > 0
    assert again["predicted_s"] > 0
    assert again["bytes_across"] > 0
    assert "against" in again["reason"]
    cpu, gpu = again["stages"][:2]
    assert cpu["profile"] is None
    assert cpu["operators"][-1] == "MapInPandas"
    assert gpu["profile"] == "1 cpus, 1 gpu"
    assert "MapInPandas" in gpu["operators"]
    assert "  predicted " in seen[f"{name} {adaptive}"][1]["text"]


def test_the_number_of_partitions_is_found_without_a_job(seen: dict[str, Any]) -> None:
    counts = {
        name: seen[name]["operators"][0].get("num_partitions")
        for name in ("joined", "subquery", "union")
    }
    assert counts == {"joined": 5, "subquery": 7, "union": 7}
    (cached,) = seen["cached"]["operators"]
    assert cached["num_partitions"] in {4, None}
    assert cached["reason"]


def test_each_gpu_operator_has_its_own_entry(seen: dict[str, Any]) -> None:
    assert len(seen["two"]["operators"]) == 2
    assert [one["num_partitions"] for one in seen["two"]["operators"]] == [2, 2]
    assert seen["none"]["operators"] == []
    assert seen["none"]["text"] == "no GPU operator that dagopt plans"


def test_a_limit_is_said(seen: dict[str, Any]) -> None:
    (limited,) = seen["limited"]["operators"]
    assert limited["form"] == "fused"
    assert limited["reason"] == "a limit needs only some of the rows"
