"""Laws of signatures and of merged profiles.

Not a law, on purpose: "different stages have different signatures". Two stages of the same call
site and operators are one to everybody who sees only those.
"""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from dagopt.model.stage_profile import (
    StageProfile,
    StageProfiles,
    loose_signature,
    merge_profiles,
    plan_number,
    stage_signature,
)

names = st.text(max_size=40) | st.builds(
    "{} at {}:{}".format, st.text(max_size=9), st.text(max_size=9), st.integers(0, 9_999)
)
scopes = st.lists(st.text(max_size=30), max_size=12)
operators = st.sampled_from(["Exchange", "WholeStageCodegen", "Scan parquet db.t", "PythonRDD"])
amounts = st.floats(0, 1e12)


@st.composite
def profiles(draw: st.DrawFn) -> StageProfile:
    """Any profile of one signature; sizes up to 1e12."""
    return StageProfile(
        signature="s []",
        num_runs=draw(st.integers(1, 100)),
        num_tasks=draw(st.integers(1, 10**6)),
        read_bytes_per_task=draw(amounts),
        cpu_s_per_task=draw(amounts),
        io_wait_s_per_task=draw(amounts),
        io_bytes_per_s=draw(st.none() | st.floats(1e-3, 1e12)),
        spilled_bytes_per_task=draw(amounts),
        peak_memory_bytes=draw(st.integers(0, 2**50)),
        python=draw(st.booleans()),
        coverage=draw(st.floats(0, 1)),
        executor_cpu_s_per_task=draw(st.none() | amounts),
        cost_spread=draw(st.floats(0, 10)),
    )


@given(names, scopes)
def test_a_signature_is_one_short_line(name: str, stage_scopes: list[str]) -> None:
    signature = stage_signature(name, stage_scopes)
    assert signature == stage_signature(name, stage_scopes)
    assert "\n" not in signature
    assert signature.count("[") == 1
    assert signature.endswith("]")
    assert len(signature) <= len(name) + 200


@given(names, scopes, st.text(), st.text())
def test_of_a_plan_a_loose_signature_only_says_that_there_is_one(
    name: str, stage_scopes: list[str], plan: str, other: str
) -> None:
    one, two = (stage_signature(name, stage_scopes, plan_number(text)) for text in (plan, other))
    assert loose_signature(one) == loose_signature(two)
    assert (one == two) == (plan_number(plan) == plan_number(other))


@given(names, scopes)
def test_loose_is_idempotent_and_keeps_the_operators(name: str, stage_scopes: list[str]) -> None:
    signature = stage_signature(name, stage_scopes)
    loose = loose_signature(signature)
    assert loose_signature(loose) == loose
    assert loose.partition(" [")[2] == signature.partition(" [")[2]


@given(st.lists(operators, max_size=30), st.randoms(use_true_random=False))
def test_numbers_of_generated_code_never_count(chain: list[str], numbers: st.DataObject) -> None:
    def numbered() -> list[str]:
        return [
            f"{scope} ({numbers.randint(1, 99)})" if scope == "WholeStageCodegen" else scope  # type: ignore[attr-defined]
            for scope in chain
        ]

    assert stage_signature("s", numbered()) == stage_signature("s", numbered())


@given(st.lists(operators, max_size=30), st.integers(0, 99_999), st.integers(0, 99_999))
def test_a_moved_line_is_found_and_an_unmoved_one_first(
    chain: list[str], line: int, other: int
) -> None:
    here, there = (stage_signature(f"count at job.py:{n}", chain) for n in (line, other))
    assert loose_signature(here) == loose_signature(there)
    assert (here == there) == (line == other)


@given(st.lists(operators, max_size=6), st.lists(operators, max_size=6))
def test_other_operators_are_another_stage(one: list[str], other: list[str]) -> None:
    def without_repeats(chain: list[str]) -> list[str]:
        return [scope for place, scope in enumerate(chain) if chain[place - 1 : place] != [scope]]

    same = stage_signature("s", one) == stage_signature("s", other)
    assert same == (without_repeats(one) == without_repeats(other))


@given(st.lists(profiles(), min_size=1, max_size=8), st.floats(0.01, 1))
def test_a_merge_lies_between_its_parts(parts: list[StageProfile], older_weight: float) -> None:
    merged = merge_profiles(parts, older_weight=older_weight)
    for field in ("cpu_s_per_task", "read_bytes_per_task", "io_wait_s_per_task", "coverage"):
        values = [getattr(part, field) for part in parts]
        assert min(values) <= getattr(merged, field) <= max(values)
    assert merged.num_runs == sum(part.num_runs for part in parts)
    assert math.isfinite(merged.cost_spread)


@given(profiles(), st.integers(1, 9))
def test_a_merge_of_equals_is_the_same_again(part: StageProfile, times: int) -> None:
    merged = merge_profiles([part] * times)
    for field in ("num_tasks", "cpu_s_per_task", "read_bytes_per_task", "io_bytes_per_s"):
        assert getattr(merged, field) == getattr(part, field)
    if part.cpu_s_per_task > 0:
        assert math.isclose(merged.cost_spread, part.cost_spread, rel_tol=1e-6, abs_tol=1e-6)


@given(st.lists(profiles(), max_size=5))
def test_what_was_put_in_is_found(parts: list[StageProfile]) -> None:
    found = StageProfiles(parts).find("s []")
    assert found == (merge_profiles(parts) if parts else None)
