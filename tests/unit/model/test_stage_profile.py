from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dagopt.errors import InputError
from dagopt.model.stage_profile import (
    StageProfile,
    StageProfiles,
    has_python,
    loose_signature,
    merge_profiles,
    plan_number,
    stage_signature,
    works_outside_jvm,
)


def profile(signature: str = "s []", **more: Any) -> StageProfile:
    fields = {
        "num_runs": 1,
        "num_tasks": 10,
        "read_bytes_per_task": 1e6,
        "cpu_s_per_task": 1.0,
        "io_wait_s_per_task": 0.25,
        "io_bytes_per_s": 4e6,
        "spilled_bytes_per_task": 0.0,
        "peak_memory_bytes": 100,
        "executor_cpu_s_per_task": 0.5,
        "python": False,
        "coverage": 1.0,
        **more,
    }
    return StageProfile(signature=signature, **fields)


class TestSignature:
    def test_it_is_readable(self) -> None:
        scopes = ["Scan parquet db.t", "WholeStageCodegen (1)", "Exchange"]
        expected = "count at job.py:12 [Scan parquet db.t > WholeStageCodegen > Exchange]"
        assert stage_signature("count at /home/me/job.py:12", scopes) == expected

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("WholeStageCodegen (1)", "WholeStageCodegen (12)"),
            ("Exchange", "AQEShuffleRead"),
            ("Exchange", "CustomShuffleReader"),
            ("reduceByKey\n@ 16:21:20", "reduceByKey\n@ 16:21:22"),
            ("cache a#12L", "cache a#7L"),
            ("x [id=#4]", "x [plan_id=19]"),
            (
                "tmp 0a1b2c3d-0000-4000-8000-0a1b2c3d4e5f",
                "tmp 99999999-0000-4000-8000-0a1b2c3d4e5f",
            ),
            ("Scan parquet ", "Scan parquet"),
        ],
    )
    def test_what_changes_from_run_to_run_does_not_count(self, one: str, other: str) -> None:
        assert stage_signature("s", [one]) == stage_signature("s", [other])

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("count at /a/job.py:12", "count at /b/c/job.py:12"),
            ("count at C:\\me\\job.py:12", "count at job.py:12"),
            ("$anonfun$run$1 at X.java:3", "$anonfun$run$2 at X.java:3"),
        ],
    )
    def test_folders_and_closures_of_the_name_do_not_count(self, one: str, other: str) -> None:
        assert stage_signature(one, []) == stage_signature(other, [])

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (("count at job.py:12", ["a"]), ("count at job.py:13", ["a"])),
            (("count at job.py:12", ["a"]), ("count at job2.py:12", ["a"])),
            (("count at job.py:12", ["a"]), ("collect at job.py:12", ["a"])),
            (("s", ["a", "b"]), ("s", ["b", "a"])),
            (("s", ["Scan parquet db.t1"]), ("s", ["Scan parquet db.t2"])),
            (("s", ["a", "b"] * 99), ("s", ["a", "b"] * 98)),
            (("s", []), ("s", ["s"])),
        ],
    )
    def test_different_stages_differ(
        self, one: tuple[str, list[str]], other: tuple[str, list[str]]
    ) -> None:
        assert stage_signature(*one) != stage_signature(*other)

    def test_repeats_beside_each_other_count_once(self) -> None:
        assert stage_signature("s", ["a", "a", "b"]) == "s [a > b]"

    def test_a_long_chain_ends_in_a_digest(self) -> None:
        signature = stage_signature("s", [f"operator{letter}" for letter in "abcdefghij" * 50])
        assert len(signature) < 200
        assert signature.startswith("s [operatora > operatorb > ")

    def test_only_the_scopes_that_the_jvm_tells_count(self) -> None:
        scopes = ["a", "b"] * 500
        assert stage_signature("s", [*scopes, "c"]) == stage_signature("s", scopes)

    def test_the_plan_tells_queries_apart(self) -> None:
        assert stage_signature("s", ["a"], "12") == "s in plan 12 [a]"
        assert stage_signature("s", ["a"], "12") != stage_signature("s", ["a"], "13")
        assert stage_signature("s", ["a"], "") == stage_signature("s", ["a"]) == "s [a]"

    def test_loose_leaves_out_the_plan(self) -> None:
        here = stage_signature("count at job.py:12", ["a"], plan_number("Range"))
        there = stage_signature("count at job.py:13", ["a"], plan_number("Scan"))
        assert loose_signature(here) == loose_signature(there) == "count at job.py:# in plan # [a]"

    def test_loose_leaves_out_the_line(self) -> None:
        here = stage_signature("count at job.py:12", ["Scan 7"])
        there = stage_signature("count at job.py:345", ["Scan 7"])
        assert loose_signature(here) == loose_signature(there) == "count at job.py:# [Scan #]"


class TestPlanNumber:
    def test_it_is_that_of_the_jvm(self) -> None:
        # What SqlPlans.number gives.
        assert plan_number("== Physical Plan ==\n* Range (12)\t[id#7L é]") == "225641276024157"
        assert plan_number("") == "250348346448124"

    @pytest.mark.parametrize(
        "other", ["Range(1) id#22L", "Range (7)\n\tid#L", "Range\r\x0b\f() id#3L"]
    )
    def test_expression_ids_and_blanks_do_not_count(self, other: str) -> None:
        assert plan_number(other) == plan_number("Range (12) id#7L")

    @pytest.mark.parametrize("other", ["Range (12) id#7", "Scan (12) id#7L", "Range\x85(12) id#7L"])
    def test_all_else_counts(self, other: str) -> None:
        assert plan_number(other) != plan_number("Range (12) id#7L")

    def test_text_that_is_not_unicode_has_one(self) -> None:
        assert plan_number("a\ud800") == plan_number("a?")


class TestPython:
    @pytest.mark.parametrize(
        "scope",
        [
            "PythonRDD",
            "ArrowEvalPython",
            "BatchEvalPython",
            "MapInPandas",
            "PythonMapInArrow",
            "FlatMapGroupsInPandas",
            "AggregateInPandas",
            "WindowInPandas",
            "FlatMapGroupsInArrow",
        ],
    )
    def test_operators_that_run_workers(self, scope: str) -> None:
        assert has_python(["Exchange", scope])

    @pytest.mark.parametrize("scope", ["Scan parquet db.Pandas", "Exchange", "", "/x/Python/y"])
    def test_others(self, scope: str) -> None:
        assert not has_python([scope])

    @pytest.mark.parametrize(
        ("scope", "is_outside"),
        [("GpuScan parquet ", True), ("MapInPandas", True), ("Exchange", False), ("GpuX", True),
         ("Gpus", False), ("Scan GpuX", False)],
    )  # fmt: skip
    def test_what_works_outside_of_the_jvm(self, scope: str, *, is_outside: bool) -> None:
        assert works_outside_jvm(["Exchange", scope]) == is_outside


class TestProfile:
    @pytest.mark.parametrize(
        ("field", "value", "allowed"),
        [
            ("num_runs", 0, ">= 1"),
            ("num_tasks", 0, ">= 1"),
            ("cpu_s_per_task", -1.0, "finite and >= 0"),
            ("read_bytes_per_task", math.nan, "finite and >= 0"),
            ("io_wait_s_per_task", math.inf, "finite and >= 0"),
            ("io_bytes_per_s", 0.0, "finite and > 0, or None"),
            ("executor_cpu_s_per_task", -0.1, "finite and >= 0, or None"),
            ("coverage", 1.5, "0..1"),
        ],
    )
    def test_impossible_values_are_refused(self, field: str, value: float, allowed: str) -> None:
        wrong: dict[str, Any] = {field: value}
        with pytest.raises(InputError) as raised:
            profile(**wrong)
        assert str(raised.value) == f"stage profile 's []': {field} is {value}, must be {allowed}"

    def test_compute_is_proportional_to_bytes(self) -> None:
        predicted = profile().predicted_cpu_s(np.array([0.0, 1e6, 3e6]))
        np.testing.assert_allclose(predicted, [0.0, 1.0, 3.0])

    def test_without_bytes_all_tasks_are_alike(self) -> None:
        flat = profile(read_bytes_per_task=0.0)
        assert flat.cpu_s_per_byte is None
        assert flat.predicted_cpu_s(np.array([0.0, 1e6])).tolist() == [1.0, 1.0]

    @pytest.mark.parametrize("size", [-1.0, math.nan, math.inf])
    def test_sizes_are_checked(self, size: float) -> None:
        with pytest.raises(InputError, match="read_bytes must be finite and >= 0"):
            profile().predicted_cpu_s(np.array([size]))


class TestMerge:
    def test_the_newer_run_weighs_twice_the_older(self) -> None:
        merged = merge_profiles([profile(cpu_s_per_task=1.0), profile(cpu_s_per_task=4.0)])
        assert merged.cpu_s_per_task == pytest.approx((1.0 + 2 * 4.0) / 3)
        assert merged.num_runs == 2

    def test_more_tasks_weigh_more(self) -> None:
        small, large = profile(num_tasks=1), profile(num_tasks=9, cpu_s_per_task=2.0)
        merged = merge_profiles([small, large], older_weight=1.0)
        assert merged.cpu_s_per_task == pytest.approx(1.9)
        assert merged.num_tasks == round((1 + 81) / 10)

    def test_runs_that_differ_are_seen_to_differ(self) -> None:
        cheap, dear = profile(cpu_s_per_task=1.0), profile(cpu_s_per_task=3.0)
        merged = merge_profiles([cheap, dear], older_weight=1.0)
        assert merged.cost_spread == pytest.approx(0.5)
        again = merge_profiles([merged, merged], older_weight=1.0)
        assert again.cost_spread == pytest.approx(0.5)
        all_at_once = merge_profiles([cheap, dear, cheap, dear], older_weight=1.0)
        assert all_at_once.cost_spread == pytest.approx(0.5)

    def test_runs_of_another_size_and_the_same_rate_do_not_differ(self) -> None:
        large = profile(cpu_s_per_task=10.0, read_bytes_per_task=1e7)
        assert merge_profiles([profile(), large]).cost_spread == pytest.approx(0.0)

    def test_without_bytes_times_are_compared(self) -> None:
        idle = profile(read_bytes_per_task=0.0, cpu_s_per_task=0.0)
        assert merge_profiles([profile(), idle], older_weight=1.0).cost_spread == pytest.approx(1.0)
        assert merge_profiles([idle, idle]).cost_spread == 0.0

    def test_unknown_numbers_do_not_count(self) -> None:
        unknown = profile(io_bytes_per_s=None, executor_cpu_s_per_task=None)
        merged = merge_profiles([profile(), unknown])
        assert (merged.io_bytes_per_s, merged.executor_cpu_s_per_task) == (4e6, 0.5)
        assert merge_profiles([unknown, unknown]).io_bytes_per_s is None

    def test_peak_memory_is_the_largest(self) -> None:
        peaks = [profile(peak_memory_bytes=700), profile(peak_memory_bytes=5)]
        assert merge_profiles(peaks).peak_memory_bytes == 700

    def test_python_in_one_run_is_python(self) -> None:
        merged = merge_profiles([profile(), profile(python=True)])
        assert (merged.python, merged.executor_cpu_s_per_task) == (True, None)

    def test_there_must_be_one(self) -> None:
        with pytest.raises(InputError, match="at least one profile"):
            merge_profiles([])

    @pytest.mark.parametrize("weight", [0.0, 1.5])
    def test_the_weight_is_checked(self, weight: float) -> None:
        with pytest.raises(InputError, match="older_weight is"):
            merge_profiles([profile()], older_weight=weight)

    def test_very_many_runs(self) -> None:
        assert merge_profiles([profile()] * 5_000).cpu_s_per_task == 1.0


class TestProfiles:
    def test_the_exact_one_is_preferred(self) -> None:
        near, far = profile("f at a:1 [x]"), profile("f at a:2 [x]", cpu_s_per_task=9.0)
        profiles = StageProfiles([near, far])
        assert profiles.find("f at a:2 [x]") == far
        assert len(profiles) == 2

    def test_a_moved_line_is_found(self) -> None:
        only = profile("f at a:1 [x]")
        assert StageProfiles([only]).find("f at a:99 [x]") == only

    def test_namesakes_weigh_alike(self) -> None:
        near, far = profile("f at a:1 [x]"), profile("f at a:2 [x]", cpu_s_per_task=2.0)
        found = StageProfiles([near, far]).find("f at a:3 [x]")
        assert found is not None
        assert found.cpu_s_per_task == pytest.approx(1.5)

    @pytest.mark.parametrize(("factor", "is_found"), [(2.9, True), (3.1, False)])
    def test_namesakes_that_are_unlike_say_nothing(self, factor: float, *, is_found: bool) -> None:
        near, far = profile("f in plan 1 [x]"), profile("f in plan 2 [x]", cpu_s_per_task=factor)
        profiles = StageProfiles([near, far])
        assert (profiles.find("f in plan 3 [x]") is not None) == is_found
        assert profiles.find("f in plan 2 [x]") == far

    def test_runs_that_differ_are_found_by_their_own_name_only(self) -> None:
        profiles = StageProfiles([profile("f at a:1 [x]", cost_spread=0.6)])
        assert profiles.find("f at a:1 [x]") is not None
        assert profiles.find("f at a:2 [x]") is None

    def test_another_stage_is_not_found(self) -> None:
        assert StageProfiles([profile("f at a:1 [x]")]).find("f at a:1 [y]") is None
        assert StageProfiles().find("f at a:1 [x]") is None

    def test_runs_of_one_signature_are_merged(self) -> None:
        profiles = StageProfiles([profile(), profile(cpu_s_per_task=4.0)])
        assert [p.num_runs for p in profiles.by_signature.values()] == [2]
