from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagopt.reporting.figure import (
    MAX_BARS,
    Bar,
    Hold,
    Panel,
    figure_json,
    gpu_utilisation,
    merged,
    slots_of,
    utilisation,
)


def bar(
    start_s: float, end_s: float, *, wait_s: float = 0.0, executor: str = "1", stage: int = 0
) -> Bar:
    return Bar(
        stage=stage, executor=executor, start_s=start_s, read_s=start_s + wait_s, end_s=end_s
    )


def panel(*bars: Bar, num_cores: float = 1.0) -> Panel:
    return Panel(heading="run", bars=bars, stage_names=("a", "b"), num_cores=num_cores)


TIME = st.integers(0, 50)
BARS = st.lists(
    st.builds(
        lambda start, run, wait, executor, stage: bar(
            start, start + run, wait_s=min(run, wait), executor=executor, stage=stage
        ),
        TIME, st.integers(1, 20), st.integers(0, 20), st.sampled_from("12"), st.integers(0, 1),
    ),
    max_size=40,
)  # fmt: skip


@given(BARS)
def test_bars_of_a_slot_do_not_overlap(bars: list[Bar]) -> None:
    last: dict[str, float] = {}
    placed = slots_of(bars)
    assert len(placed) == len(bars)
    for row, each in placed:
        assert row.startswith(f"{each.executor}/")
        assert last.get(row, 0.0) <= each.start_s + 0.02
        last[row] = each.end_s


@given(BARS, st.integers(1, 10))
def test_merging_loses_no_task_and_no_wait(bars: list[Bar], max_bars: int) -> None:
    placed = slots_of(bars)
    found = merged(placed, max_bars)
    assert sum(each.num_tasks for _, each in found) == len(bars)
    waited = sum(each.read_s - each.start_s for _, each in found)
    assert waited == pytest.approx(sum(each.read_s - each.start_s for each in bars))
    if len(placed) <= max_bars:
        assert found == placed


@given(BARS)
def test_utilisation_adds_up_to_the_slot_seconds(bars: list[Bar]) -> None:
    times, waiting, rest = utilisation(panel(*bars, num_cores=4.0))
    if not bars:
        assert times == []
        return
    width_s = max(each.end_s for each in bars) / len(times)
    total = (sum(waiting) + sum(rest)) * width_s * 4.0
    assert total == pytest.approx(sum(each.end_s - each.start_s for each in bars))


def test_many_tasks_become_few_bars_and_the_panel_says_so() -> None:
    bars = [
        bar(wave, wave + 0.9, wait_s=0.1, executor=str(executor))
        for wave in range(1000)
        for executor in range(100)
    ]
    figure = figure_json([panel(*bars, num_cores=100)])
    assert len(figure["data"][0]["x"]) <= MAX_BARS
    (annotation,) = figure["layout"]["annotations"]
    assert annotation["text"].startswith("run (100000 tasks drawn as ")


def test_panels_stand_under_each_other() -> None:
    figure = figure_json([panel(bar(0, 1)), panel(bar(0, 2))])
    domains = [figure["layout"][axis]["domain"] for axis in ("yaxis", "yaxis2", "yaxis3", "yaxis4")]
    assert all(0 <= low < high <= 1 for low, high in domains)
    assert [low for low, _ in domains] == sorted((low for low, _ in domains), reverse=True)
    assert [trace["yaxis"] for trace in figure["data"]] == ["y", "y2", "y2", "y3", "y4", "y4"]


def test_groups_are_told_and_their_delays_have_rows_of_their_own() -> None:
    first = Bar(stage=0, executor="1", start_s=1.0, read_s=1.0, end_s=2.0, group="group 1")
    second = Bar(stage=0, executor="1", start_s=2.0, read_s=2.0, end_s=3.0, group="group 2")
    held = Hold(executor="1", start_s=0.5, end_s=2.0, text="group <2>")
    shown = Panel(
        heading="run", bars=(first, second), stage_names=("a",), num_cores=1.0, holds=(held,)
    )
    tasks, delays, *_ = figure_json([shown])["data"]
    assert [text.split("<br>")[1] for text in tasks["hovertext"]] == [
        "1 task of group 1 on executor 1/1",
        "1 task of group 2 on executor 1/1",
    ]
    assert (delays["y"], delays["base"], delays["x"]) == (["1/held"], [0.5], [1.5])
    assert delays["hovertext"] == ["group &lt;2&gt;"]
    # Bars of two groups are never drawn as one.
    assert len(merged(slots_of(shown.bars), 1)) == 2


def test_the_share_of_gpus_is_what_tasks_hold_of_them() -> None:
    half = Bar(stage=0, executor="1", start_s=0.0, read_s=0.0, end_s=10.0, gpus=0.5)
    late = Bar(stage=1, executor="1", start_s=5.0, read_s=5.0, end_s=10.0, gpus=1.0)
    shown = Panel(
        heading="run", bars=(half, late), stage_names=("a", "b"), num_cores=2.0, num_gpus=2.0
    )
    times, shares = gpu_utilisation(shown)
    for time_s, share in zip(times, shares, strict=True):
        assert share == pytest.approx(0.25 if time_s < 5 else 0.75)
    assert figure_json([shown])["data"][-1]["name"] == "GPUs held"
    assert gpu_utilisation(panel(bar(0, 1))) == ([], [])
