"""What ``make demo`` says about what it measured; the runs themselves are the demonstration."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pandas as pd
import pytest
from rich.console import Console
from rich.table import Table

from jobs.demo import (
    OUTPUTS,
    compare_outputs,
    decision_summary,
    decision_table,
    read_decisions,
    times_table,
    turns,
    verdict,
)


def text_of(table: Table) -> str:
    console = Console(width=120)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def write_outputs(run_dir: Path, files: list[list[int]]) -> None:
    """Outputs of a run whose rows are spread over several files."""
    for name in OUTPUTS:
        (run_dir / "output" / name / "year=2013").mkdir(parents=True)
        for index, rows in enumerate(files):
            late = pd.array([None if row == 3 else row for row in rows], dtype="Int64")
            frame = pd.DataFrame({"leg": rows, "late": late})
            frame.to_parquet(run_dir / "output" / name / "year=2013" / f"part-{index}.parquet")


def test_equal_rows_in_other_files_are_equal(tmp_path: Path) -> None:
    write_outputs(tmp_path / "off", [[1, 2], [3]])
    write_outputs(tmp_path / "on", [[3, 1], [2]])
    assert compare_outputs(tmp_path / "off", tmp_path / "on") == 9


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ([[1, 2], [3, 3]], r"legs: 3 rows of .* and 4 rows of"),
        ([[1, 2], [4]], r"legs: rows differ: .*'leg': 3.* and .*'leg': 4"),
    ],
)
def test_a_difference_is_named(tmp_path: Path, files: list[list[int]], text: str) -> None:
    write_outputs(tmp_path / "off", [[1, 2], [3]])
    write_outputs(tmp_path / "on", files)
    with pytest.raises(click.ClickException, match=text):
        compare_outputs(tmp_path / "off", tmp_path / "on")


@pytest.mark.parametrize(
    ("off_s", "on_s", "text"),
    [
        ([20.0, 20.0], [10.0, 10.0], "dagopt saved 50.0% of the time."),
        ([20.0, 21.0], [20.5, 20.0], "Nothing to gain here"),
        ([20.0, 30.0], [21.0, 22.0], "Nothing to gain here"),
        ([20.0], [40.0], "One run each cannot tell a gain from noise"),
        ([20.0, 20.0], [25.0, 25.0], "dagopt cost 25.0% of the time, more than the 5.0%"),
    ],
)
def test_the_verdict_knows_noise(off_s: list[float], on_s: list[float], text: str) -> None:
    assert verdict(off_s, on_s).startswith(text)


def test_times_have_a_ratio() -> None:
    text = text_of(times_table([20.0, 30.0], [10.0, 40.0]))
    assert "2.00" in text
    assert "0.75" in text
    assert "median" in text


def test_decisions_are_counted_with_their_reason(tmp_path: Path) -> None:
    log = tmp_path / "decisions.jsonl"
    decision = {
        "action": "pass",
        "name": "count at [job].py:7",
        "tasks_per_core": 1,
        "stock_s": 2.5,
        "reason": "CPU [of it all]",
    }
    lines = [json.dumps(decision | {"stage": stage}) for stage in range(3)]
    lines += ['{"unknown": "fields"}', "[1]", '{"action": "pa']
    log.write_text("\n".join(lines), encoding="utf-8")
    decisions = read_decisions(log)
    assert len(decisions) == 4
    text = text_of(decision_table(decisions))
    assert "left to Spark, 1 a core, Spark alone 2.50 s" in " ".join(text.replace("│", " ").split())
    assert "count at [job].py:7" in text
    assert "CPU [of it all]" in text
    assert "3" in text
    assert "no reason given" in text


def test_decisions_to_change_nothing_are_explained() -> None:
    text = decision_summary([{"action": "pass"}, {"action": "pass"}])
    assert text.startswith("2 decisions: 2 left to Spark. Nothing was put into groups, ")
    grouped = [{"action": "pass"}, {"action": "group"}, {"action": "new"}]
    assert decision_summary(grouped) == (
        "3 decisions: 1 left to Spark; 1 launched in groups, so that one reads while another computes; "
        "1 new."
    )
    assert decision_summary([]).startswith("dagopt decided nothing")


def test_each_mode_goes_first_in_turn() -> None:
    assert turns(3) == ["off", "on", "on", "off", "off", "on"]


def test_a_log_that_is_not_there_holds_no_decision(tmp_path: Path) -> None:
    assert read_decisions(tmp_path / "none") == []
