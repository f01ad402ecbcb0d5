"""The ETL job against a slow and obvious computation of the same in plain Python.

The oracle takes time zones from zoneinfo, where the job computes with offsets, so it checks that too.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow.dataset
import pytest

from tests.jobs.conftest import JOBS, JobRunner

Row = dict[str, Any]

NEW_YORK = ZoneInfo("America/New_York")
# Not in the airports table.
MORE_ZONES = dict.fromkeys(["BQN", "PSE", "SJU", "STT"], "America/Puerto_Rico")
# Winter and summer, without the nights in which clocks change.
MONTHS = [1, 7, 12]


@pytest.fixture(scope="module")
def frames() -> dict[str, pd.DataFrame]:
    """The real data, cut down to some 40 aircraft."""
    from jobs.etl_shuffle import example_tables

    tables = example_tables()
    flights = tables["flights"]
    aircraft = sorted(flights["tailnum"].dropna().unique())[::100]
    chosen = flights["tailnum"].isin(aircraft) & flights["month"].isin(MONTHS)
    return {**tables, "flights": flights[chosen]}


def records(frame: pd.DataFrame) -> list[Row]:
    """The rows of a frame, with None for what is missing."""
    return [
        {str(name): None if pd.isna(value) else value for name, value in row.items()}
        for row in frame.to_dict("records")
    ]


def rows_of(directory: Path) -> list[Row]:
    rows: list[Row] = pyarrow.dataset.dataset(directory, partitioning="hive").to_table().to_pylist()
    return rows


def expected_legs(frames: dict[str, pd.DataFrame]) -> list[Row]:
    """What the job must write as legs, one flight after another."""
    zones = dict(zip(frames["airports"]["faa"], frames["airports"]["tzone"], strict=True))
    zones.update(MORE_ZONES)
    flown = [
        row
        for row in records(frames["flights"])
        if None not in (row["dep_time"], row["arr_delay"], row["tailnum"])
    ]
    air_times = defaultdict(list)
    by_aircraft = defaultdict(list)
    for row in flown:
        air_times[row["origin"], row["dest"]].append(row["air_time"])
        day = datetime(row["year"], row["month"], row["day"])  # noqa: DTZ001
        dep = day.replace(hour=row["hour"], minute=row["minute"], tzinfo=NEW_YORK)
        hour, minute = divmod(row["sched_arr_time"] % 2400, 100)
        arr = day.replace(hour=hour, minute=minute, tzinfo=ZoneInfo(zones[row["dest"]]))
        while arr.astimezone(timezone.utc) < dep.astimezone(timezone.utc):
            arr += timedelta(days=1)
        row["sched_dep_min"] = int(dep.timestamp()) // 60
        row["sched_arr_min"] = int(arr.timestamp()) // 60
        by_aircraft[row["tailnum"]].append(row)
    legs = []
    for aircraft in by_aircraft.values():
        before: Row | None = None
        for row in sorted(aircraft, key=lambda row: (row["sched_dep_min"], row["flight"])):
            leg = follow(row, before, air_times)
            legs.append(leg)
            before = leg
    return legs


def follow(row: Row, before: Row | None, air_times: dict[tuple[str, str], list[float]]) -> Row:
    """One leg, from the leg before it of the same aircraft."""
    late = max(int(row["dep_delay"]), 0)
    leg = row | {"rotation": 1, "leg": 1, "away_min": None, "slack_min": None}
    leg |= {"inherited_min": 0, "own_min": late, "late_chain": 0}
    if before is None:
        return leg
    back = int(np.median(air_times[before["origin"], before["dest"]])) + 30 + 35 + 35
    arrival = before["sched_arr_min"] + before["arr_delay"]
    away = row["sched_dep_min"] + row["dep_delay"] - arrival
    if away < 0 or away - back > 360:
        return leg | {"rotation": before["rotation"] + 1}
    slack = max(row["sched_dep_min"] - before["sched_arr_min"] - back, 0)
    inherited = min(max(before["arr_delay"] - slack, 0), late)
    return leg | {
        "rotation": before["rotation"],
        "leg": before["leg"] + 1,
        "away_min": away,
        "slack_min": slack,
        "inherited_min": inherited,
        "own_min": late - inherited,
        "late_chain": before["late_chain"] + 1 if inherited else 0,
    }


def index_of(frame: pd.DataFrame, *keys: str) -> dict[Any, Row]:
    return {tuple(row[key] for key in keys): row for row in records(frame)}


def differing(actual: Iterable[Row], expected: dict[Any, Row], keys: list[str]) -> list[str]:
    """Cells of ``actual`` that are not as expected; columns of ``expected`` alone do not count."""
    return [
        f"{[row[key] for key in keys]}: {column} is {value!r}"
        for row in actual
        for column, value in row.items()
        if expected[tuple(row[key] for key in keys)][column] != value
    ]


@pytest.mark.spark
def test_rows_equal_an_independent_computation(
    frames: dict[str, pd.DataFrame], tmp_path: Path, submit: JobRunner
) -> None:
    from jobs.etl_shuffle import write_tables

    write_tables(frames, tmp_path / "in", scale=1)
    done = submit("etl_shuffle", "--input", tmp_path / "in", "--output", tmp_path / "out")
    assert done.returncode == 0, done.stderr[-2000:]

    legs = rows_of(tmp_path / "out" / "legs")
    weather = index_of(frames["weather"], "origin", "time_hour")
    planes = index_of(frames["planes"], "tailnum")
    airports = index_of(frames["airports"], "faa")
    airlines = index_of(frames["airlines"], "carrier")
    no_weather = dict.fromkeys(["temp", "wind_speed", "precip", "visib"])
    no_plane = dict.fromkeys(["year", "manufacturer", "model", "seats"])
    expected = {}
    for leg in expected_legs(frames):
        plane = planes.get((leg["tailnum"],), no_plane)
        expected[leg["tailnum"], leg["sched_dep_min"], leg["flight"]] = (
            {name: plane[name] for name in ("manufacturer", "model", "seats")}
            | {
                name: weather.get((leg["origin"], leg["time_hour"]), no_weather)[name]
                for name in no_weather
            }
            | {"built": plane["year"], "airline": airlines[leg["carrier"],]["name"]}
            | {"dep_delay_min": leg["dep_delay"], "arr_delay_min": leg["arr_delay"]}
            | {"airport": airports.get((leg["dest"],), {"name": None})["name"]}
            | leg
        )
    for row in legs:
        if row["dest"] in MORE_ZONES:  # named by the job itself
            row["airport"] = None
    keys = ["tailnum", "sched_dep_min", "flight"]
    assert len(legs) == len(expected) > 500
    assert differing(legs, expected, keys) == []
    # The cases that matter do occur.
    assert {row["late_chain"] for row in legs} >= {0, 1, 2}
    assert any(row["precip"] for row in legs)

    check_rotations(rows_of(tmp_path / "out" / "rotations"), legs)
    check_carriers(rows_of(tmp_path / "out" / "carriers"), legs)


def check_rotations(actual: list[Row], legs: list[Row]) -> None:
    groups = defaultdict(list)
    for leg in legs:
        groups[leg["tailnum"], leg["rotation"]].append(leg)
    expected = {
        (tailnum, rotation): {
            "tailnum": tailnum,
            "rotation": rotation,
            "year": min(leg["year"] for leg in group),
            "start_min": min(leg["sched_dep_min"] for leg in group),
            "end_min": max(leg["sched_arr_min"] + leg["arr_delay_min"] for leg in group),
            "num_legs": len(group),
            "distance_miles": sum(leg["distance"] for leg in group),
            "own_min": sum(leg["own_min"] for leg in group),
            "inherited_min": sum(leg["inherited_min"] for leg in group),
            "longest_chain": max(leg["late_chain"] for leg in group),
            "seats": group[0]["seats"],
        }
        for (tailnum, rotation), group in groups.items()
    }
    assert len(actual) == len(expected)
    assert differing(actual, expected, ["tailnum", "rotation"]) == []


def check_carriers(actual: list[Row], legs: list[Row]) -> None:
    groups = defaultdict(list)
    for leg in legs:
        groups[leg["origin"], leg["carrier"], leg["year"], leg["month"]].append(leg)
    assert len(actual) == len(groups)
    for row in actual:
        group = groups[row["origin"], row["carrier"], row["year"], row["month"]]
        delays = [leg["own_min"] + leg["inherited_min"] for leg in group]
        rainy = [delay for delay, leg in zip(delays, group, strict=True) if leg["precip"]]
        assert row["num_flights"] == len(group)
        assert row["num_aircraft"] == len({leg["tailnum"] for leg in group})
        assert row["delay_min"] == sum(delays)
        assert row["inherited_min"] == sum(leg["inherited_min"] for leg in group)
        assert row["delay_p95_min"] == pytest.approx(np.percentile(delays, 95))
        assert (row["num_flights_in_rain"], row["delay_in_rain_min"]) == (len(rainy), sum(rainy))


def test_scale_adds_the_same_year_again_later(
    frames: dict[str, pd.DataFrame], tmp_path: Path
) -> None:
    from jobs.etl_shuffle import COPY_SHIFT_DAYS, write_tables

    write_tables(frames, tmp_path / "in", scale=2)
    one, two = (
        pd.read_parquet(tmp_path / "in" / "flights" / f"part-000{copy}.parquet") for copy in (0, 1)
    )
    assert len(one) == len(two) == len(frames["flights"])
    shift = timedelta(days=COPY_SHIFT_DAYS)
    assert (two["time_hour"] - one["time_hour"] == shift).all()
    assert one["time_hour"].max() < two["time_hour"].min()
    assert (pd.to_datetime(two[["year", "month", "day"]]).dt.dayofweek).tolist() == (
        pd.to_datetime(one[["year", "month", "day"]]).dt.dayofweek
    ).tolist()
    assert (two["tailnum"] == one["tailnum"]).all()


def test_the_same_data_is_prepared_once(tmp_path: Path) -> None:
    import click

    from jobs.etl_shuffle import prepare

    prepare(tmp_path / "in", 1)
    before = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*.parquet"))
    prepare(tmp_path / "in", 1)
    after = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*.parquet"))
    assert before == after
    with pytest.raises(click.UsageError, match="exists with scale 1, not 2"):
        prepare(tmp_path / "in", 2)


def test_a_missing_input_is_one_line_and_exit_code_2(tmp_path: Path, run_python: JobRunner) -> None:
    done = run_python("etl_shuffle", "--input", tmp_path / "none", "--output", tmp_path / "out")
    assert done.returncode == 2
    assert done.stderr == (
        f"etl_shuffle: --input {tmp_path / 'none'}: no directory 'flights' in it; "
        "--prepare writes the example data there\n"
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.spark
def test_a_missing_column_is_one_line_and_exit_code_2(
    frames: dict[str, pd.DataFrame], tmp_path: Path, submit: JobRunner
) -> None:
    (tmp_path / "in" / "flights").mkdir(parents=True)
    flights = frames["flights"].drop(columns=["tailnum", "dest"])
    flights.to_parquet(tmp_path / "in" / "flights" / "part-0.parquet")
    done = submit("etl_shuffle", "--input", tmp_path / "in", "--output", tmp_path / "out")
    assert done.returncode == 2
    # spark-submit prints what the Python process writes to stderr to its own stdout.
    lines = [line for line in done.stdout.splitlines() if line.startswith("etl_shuffle: ")]
    assert lines == [
        f"etl_shuffle: --input {tmp_path / 'in'}: table flights lacks the columns tailnum, dest"
    ]
    assert "Traceback" not in done.stdout


@pytest.mark.parametrize(
    ("flags", "lengths"),
    [([], []), ([0], [0]), ([1, 1], [1, 2]), ([0, 1, 1, 0, 1], [0, 1, 2, 0, 1])],
)
def test_run_length(flags: list[int], lengths: list[int]) -> None:
    from jobs.etl_shuffle import _run_length

    assert _run_length(np.array(flags, dtype=bool)).tolist() == lengths


def test_the_job_does_not_know_dagopt() -> None:
    tree = ast.parse((JOBS / "etl_shuffle.py").read_text(encoding="utf-8"))
    imported = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in [getattr(node, "module", None), *(alias.name for alias in node.names)]
    }
    assert "pyspark.sql" in imported
    assert not any(name and name.startswith("dagopt") for name in imported)
