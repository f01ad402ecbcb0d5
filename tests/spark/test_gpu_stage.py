"""GPU operators in their forms on real Spark (tests/matrix/gpu_scenarios.py runs them)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dagopt.app.learn import learn
from dagopt.controller.gpu_costs import GpuCosts
from dagopt.events.profile_file import read_profile
from dagopt.model.stage_profile import is_gpu_part
from tests.conftest import ROOT, RunSparkScript, run_spark
from tests.spark.gpu_cluster import gpu_conf, needs_profiles_in_sql

pytestmark = [pytest.mark.spark, needs_profiles_in_sql]

SCENARIOS = (
    "plain", "no_cpu_part", "empty_partitions", "no_rows", "nested", "followed", "union", "aggregate",
    "coalesced", "sorted_within", "cached", "two", "two_profiles", "numbered", "barrier", "limit",
)  # fmt: skip
RANDOM = tuple(f"random {seed}" for seed in range(8))
NUM_PLANNED = {"barrier": 0, "two_profiles": 2}


@pytest.fixture(scope="module")
def seen(spark_jar: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the scenarios did, with boundaries wherever they can be."""
    assert spark_jar.is_file()
    directory = tmp_path_factory.mktemp("gpu")
    log = directory / "events"
    log.mkdir()
    conf = {
        **gpu_conf(directory, cores=3),
        "spark.dagopt.boundary": "always",
        "spark.dagopt.planner.timeout": "60s",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": log.as_uri(),
    }
    script = ROOT / "tests" / "matrix" / "gpu_scenarios.py"
    ended = run_spark(directory, script, str(directory / "result.json"), conf=conf).ok()
    found: dict[str, Any] = json.loads((directory / "result.json").read_text())
    found["log"] = ended.stderr
    (events,) = log.iterdir()
    found["events"] = events
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    found["task_ends"] = [line for line in lines if line["Event"] == "SparkListenerTaskEnd"]
    found["stages"] = [
        line["Stage Info"] for line in lines if line["Event"] == "SparkListenerStageCompleted"
    ]
    return found


def without_gpus(parts: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    """Rows without what differs on purpose: how many GPUs their tasks held."""
    return [
        [{key: row[key] for key in row if not key.endswith("_gpus")} for row in part]
        for part in parts
    ]


def values(parts: list[list[dict[str, Any]]], column: str) -> set[int]:
    return {row[column] for part in parts for row in part}


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("name", SCENARIOS + RANDOM)
def test_rows_partitions_and_order_are_those_without_dagopt(
    seen: dict[str, Any], name: str, adaptive: str
) -> None:
    found = seen[f"{name} {adaptive}"]
    assert without_gpus(found["gpu"]) == without_gpus(found["plain"])
    if name in SCENARIOS:
        # Two of one profile that follow one another are one stage.
        assert found["num_planned"] == NUM_PLANNED.get(name, 1)
    else:
        assert found["num_planned"] >= 1


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize(
    "name", ["plain", "followed", "union", "coalesced", "sorted_within", "two", "two_profiles"]
)
def test_gpus_are_held_by_the_gpu_operator_alone(
    seen: dict[str, Any], name: str, adaptive: str
) -> None:
    rows = seen[f"{name} {adaptive}"]["gpu"]
    assert values(rows, "cpu_gpus") == {0}
    assert values(rows[:2], "gpu_gpus") == {1}
    if name == "followed":
        assert values(rows, "after_gpus") == {0}


def test_no_stage_with_a_profile_holds_an_aggregate_or_a_union(seen: dict[str, Any]) -> None:
    profiled = [stage for stage in seen["stages"] if stage["Resource Profile Id"] != 0]
    assert profiled
    scopes = {
        json.loads(rdd["Scope"])["name"]
        for stage in profiled
        for rdd in stage["RDD Info"]
        if "Scope" in rdd
    }
    assert not [scope for scope in scopes if "Aggregate" in scope or "Union" in scope]


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_a_function_that_raises_shows_its_own_exception(
    seen: dict[str, Any], adaptive: str
) -> None:
    with_profile, without = seen[f"failing {adaptive}"]
    assert "ValueError: no such model for 8 rows" in with_profile
    assert with_profile.split(":")[0] == without.split(":")[0]


def test_two_profiles_that_meet_are_told(seen: dict[str, Any]) -> None:
    reasons = [one["reason"] for one in seen["report"]["gpu_stages"]]
    assert sum(reason.startswith("another profile stands in front") for reason in reasons) >= 2


def test_a_hint_is_for_the_operators_below_it(seen: dict[str, Any]) -> None:
    assert seen["hinted"] == {"never": 0, "nearest": 1, "wrong": 1, "without": 1}
    assert "the hint dagopt(sometimes) is dropped" in seen["log"]


def test_partitions_that_are_read_one_by_one_are_the_same(seen: dict[str, Any]) -> None:
    assert seen["iterated"] == list(range(40))


def test_a_limit_is_left_as_it_is(seen: dict[str, Any]) -> None:
    assert seen["taken"] == 2
    reasons = [one["reason"] for one in seen["report"]["gpu_stages"] if one["form"] == "fused"]
    assert reasons.count("a limit needs only some of the rows") >= 3


def test_the_report_has_a_reason_for_each_form_and_what_gpus_did(seen: dict[str, Any]) -> None:
    report = seen["report"]
    assert report["gate"]["off_reason"] == ""
    assert report["gate"]["fallbacks"] == 0
    forms = {one["form"] for one in report["gpu_stages"]}
    assert forms <= {"fused", "split", "sliced", "probe"}
    assert "split" in forms
    assert all(one["reason"] for one in report["gpu_stages"])
    split = [use for use in report["gpu_use"] if use["gpu_busy_s"] is not None]
    assert split
    assert all(0 <= use["gpu_busy_s"] <= use["gpu_allocated_s"] for use in split)


def stages_of_part(seen: dict[str, Any], part: str) -> set[int]:
    return {
        stage["Stage ID"]
        for stage in seen["stages"]
        if "Failure Reason" not in stage
        for rdd in stage["RDD Info"]
        if is_gpu_part(rdd["Name"]) and rdd["Name"].endswith(part)
    }


def test_gpus_were_allocated_for_as_long_as_the_trace_says(seen: dict[str, Any]) -> None:
    stages = stages_of_part(seen, "gpu part")
    assert stages
    held_ms = sum(
        end["Task Info"]["Finish Time"] - end["Task Info"]["Launch Time"]
        for end in seen["task_ends"]
        if end["Stage ID"] in stages and end["Task End Reason"]["Reason"] == "Success"
    )
    apart = [use for use in seen["report"]["gpu_use"] if use["gpu_busy_s"] is not None]
    allocated_s = sum(use["gpu_allocated_s"] for use in apart)
    assert allocated_s == pytest.approx(held_ms / 1000, rel=0.01)
    for use in apart:
        parts_s = use["gpu_busy_s"] + use["gpu_idle_s"]
        assert parts_s == pytest.approx(use["gpu_allocated_s"])


def test_no_cpu_part_ran_under_the_profile(seen: dict[str, Any]) -> None:
    profiles = {stage["Stage ID"]: stage["Resource Profile Id"] for stage in seen["stages"]}
    cpu, gpu = (stages_of_part(seen, part) for part in ("cpu part", "gpu part"))
    # What stands in front of one profile may be another one's GPU operator.
    assert not [stage for stage in cpu - gpu if profiles[stage] != 0]
    assert all(profiles[stage] != 0 for stage in gpu)


def test_an_event_log_teaches_what_the_parts_cost(seen: dict[str, Any], tmp_path: Path) -> None:
    profile = tmp_path / "profile.parquet"
    learn(seen["events"], profile)
    costs = GpuCosts(read_profile(profile))
    split = {
        one["signature"]
        for one in seen["report"]["gpu_stages"]
        if one["boundary_before"] and one["boundary_after"] and one["cpu_s"] is not None
    }
    known = {signature: costs.find(signature) for signature in split}
    assert None not in known.values()
    # One scenario has no rows.
    assert sum(one is not None and one.input_bytes > 0 for one in known.values()) >= len(split) - 1
    assert all(one is not None and one.gpu_s > 0 for one in known.values())


def test_without_its_planner_the_plan_is_spark_s_own(seen: dict[str, Any]) -> None:
    found = seen["without_planner"]
    assert without_gpus(found["gpu"]) == without_gpus(found["plain"])
    # One stage under the profile: its CPU part holds a GPU.
    assert values(found["gpu"], "cpu_gpus") == {1}
    assert "the planner process ended" in seen["report_at_the_end"]["gate"]["off_reason"]


def test_costs_are_learned_from_a_first_slice(
    run_spark_script: RunSparkScript, tmp_path: Path
) -> None:
    script = """
    import json, time
    from pyspark.sql import SparkSession
    import dagopt

    spark = SparkSession.builder.getOrCreate()

    def decode(parts):
        for part in parts:
            time.sleep(0.6)
            yield part

    def infer(parts):
        for part in parts:
            time.sleep(0.1)
            yield part

    frame = spark.range(0, 1600, 1, 16).mapInPandas(decode, "id long")
    frame = frame.mapInPandas(infer, "id long", profile=dagopt.gpu_profile())
    for _ in range(2):
        parts = frame.rdd.glom().collect()
        assert [[row.id for row in part] for part in parts] == [
            list(range(100 * index, 100 * index + 100)) for index in range(16)
        ]
        frame = frame.select("id")  # planned anew
    print("result", dagopt.report(spark).to_json())
    """
    conf = {**gpu_conf(tmp_path, cores=4), "spark.dagopt.planner.timeout": "60s"}
    ended = run_spark_script(script, conf=conf).ok()
    (line,) = [line for line in ended.stdout.splitlines() if line.startswith("result ")]
    report = json.loads(line.removeprefix("result "))
    first, rest, again = report["gpu_stages"]
    assert (first["form"], first["slices"]) == ("probe", [4, 12])
    for one in (rest, again):
        assert one["form"] in {"split", "sliced"}, one
        assert one["boundary_before"]
        assert one["cpu_s"] >= 0.5  # it sleeps 0.6 s; a busy machine adds what it likes
        assert one["predicted_s"] < one["stock_s"]
        assert "against fused" in one["reason"] or "fused" in one["reason"]
    assert again["num_partitions"] == 16
    assert report["gate"]["off_reason"] == ""


@pytest.mark.slow
def test_a_stage_that_takes_longer_than_what_is_known_of_it_is_measured_again(
    run_spark_script: RunSparkScript, tmp_path: Path
) -> None:
    script = """
    import json, pathlib, time
    from pyspark.sql import SparkSession
    import dagopt

    spark = SparkSession.builder.getOrCreate()
    decode_s = pathlib.Path("decode_s").absolute()
    path = str(decode_s)

    def decode(parts):
        for part in parts:
            time.sleep(float(open(path).read()))
            yield part

    def infer(parts):
        for part in parts:
            time.sleep(0.3)
            yield part

    frame = spark.range(0, 800, 1, 8).mapInPandas(decode, "id long")
    frame = frame.mapInPandas(infer, "id long", profile=dagopt.gpu_profile())
    for seconds in (0.0, 0.9, 0.9):
        decode_s.write_text(str(seconds))
        frame.rdd.count()
        frame = frame.select("id")  # planned anew
    print("result", dagopt.report(spark).to_json())
    """
    conf = {**gpu_conf(tmp_path), "spark.dagopt.planner.timeout": "60s"}
    ended = run_spark_script(script, conf=conf).ok()
    (line,) = [line for line in ended.stdout.splitlines() if line.startswith("result ")]
    report = json.loads(line.removeprefix("result "))
    *_, known, again, rest = report["gpu_stages"]
    assert [known["form"], again["form"]] == ["fused", "probe"]
    assert again["reason"].startswith("its fused tasks took ")
    assert rest["form"] != "fused"
    assert "were predicted" not in rest["reason"]


def test_a_hint_acts_where_nothing_else_of_dagopt_does(
    run_spark_script: RunSparkScript, tmp_path: Path
) -> None:
    script = """
    import json
    from pyspark.sql import SparkSession
    import dagopt

    spark = SparkSession.builder.getOrCreate()

    def passed_on(parts):
        return parts

    def plan(frame):
        return frame._jdf.queryExecution().executedPlan().toString()

    frame = spark.range(0, 80, 1, 8).mapInPandas(passed_on, "id long")
    frame = frame.mapInPandas(passed_on, "id long", profile=dagopt.gpu_profile())
    hinted = {value: frame.hint("dagopt", value) for value in ("always", "auto", "never")}
    planned = [name for name, one in hinted.items() if "GpuStage" in plan(one)]
    rows = [frame.rdd.glom().collect(), hinted["always"].rdd.glom().collect()]
    report = dagopt.report(spark).to_dict()
    print("result", json.dumps([planned, "GpuStage" in plan(frame), rows[0] == rows[1], report]))
    """
    conf = {
        **gpu_conf(tmp_path),
        "spark.dagopt.grouping.enabled": "false",
        "spark.dagopt.boundary": "never",
        "spark.dagopt.planner.timeout": "60s",
    }
    ended = run_spark_script(script, conf=conf).ok()
    (line,) = [line for line in ended.stdout.splitlines() if line.startswith("result ")]
    planned, is_planned, is_equal, report = json.loads(line.removeprefix("result "))
    assert planned == ["always", "auto"]
    assert not is_planned
    assert is_equal
    assert report["gate"]["off_reason"] == ""
    assert report["gate"]["task_sets_held"] == 0
    assert any(one["boundary_before"] for one in report["gpu_stages"])
