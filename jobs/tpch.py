"""The 22 TPC-H queries as a Spark application: ``spark-submit jobs/tpch.py --scale 1``.

The SQL text stands in ``tpch_queries/``, written from the definitions and validation parameters of
the TPC-H specification; what deviates is said in the file. The data comes from ``tpchgen-cli``, is
written once per scale factor and is never changed afterwards. No refresh functions, no power or
throughput metric: this is a work load with known answers, not a TPC result.

dagopt does not occur in here: it is switched on by configuration.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import date
from decimal import Decimal
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import click
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
QUERIES = range(1, 23)
QUERY_DIR = Path(__file__).resolve().parent / "tpch_queries"
DATA_ROOT = Path(__file__).resolve().parent.parent / "build" / "data" / "tpch"

REL_TOLERANCE = 1e-6
"""Largest relative difference of two floating-point cells that count as equal."""

MAX_DIFFERENCES = 20
"""Differing rows named per query; more say nothing new."""


class QueryError(click.ClickException):
    """A query failed, or results differ from the ones they must equal: exit code 1."""


def parse_queries(text: str) -> list[int]:
    """Query numbers of ``"1,3,5-7"`` in ascending order, each once.

    Raises:
        click.BadParameter: an item is no number or range of numbers from 1 to 22.
    """
    chosen: set[int] = set()
    for item in text.split(","):
        first, _, last = item.strip().partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            raise click.BadParameter(f"{item.strip()!r} is no query number; example: 1,3,5-7")
        numbers = range(int(first), int(last or first) + 1)
        if not numbers or numbers[0] not in QUERIES or numbers[-1] not in QUERIES:
            raise click.BadParameter(f"{item.strip()} is no TPC-H query; there are 1 to 22")
        chosen.update(numbers)
    return sorted(chosen)


def query_sql(number: int, scale: float) -> str:
    """SQL text of one query; ``scale`` sets the one parameter that depends on it (Q11)."""
    text = (QUERY_DIR / f"q{number:02}.sql").read_text(encoding="utf-8")
    return Template(text).substitute(fraction=f"{0.0001 / scale:.12f}")


def missing_tables(directory: Path) -> list[str]:
    """Tables without a Parquet file in ``directory``."""
    return [table for table in TABLES if not any((directory / table).glob("*.parquet"))]


def ensure_data(directory: Path, scale: float) -> None:
    """Write the eight tables of one scale factor as Parquet, unless they are there.

    They are written beside ``directory`` and renamed as a whole, so nobody ever reads half a table,
    and two runs that start together both succeed.

    Raises:
        click.UsageError: ``directory`` holds something else, or the generator is missing or fails.
    """
    if directory.exists():
        missing = missing_tables(directory)
        if missing:
            problem = f"{directory} exists, but has no Parquet files of {', '.join(missing)}"
            raise click.UsageError(f"{problem}; expected {directory}/<table>/*.parquet")
        return
    beside = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    binary = shutil.which("tpchgen-cli", path=beside)
    if binary is None:
        raise click.UsageError("tpchgen-cli is missing; install it: pip install tpchgen-cli")
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{directory.name}-") as scratch:
        target = Path(scratch) / "tables"
        # Several files per table, or a small scale factor is read by one task.
        command = [binary, "parquet", "--scale-factor", f"{scale:g}", "--parts", "4"]
        command += ["--quiet", "--output-dir", str(target)]
        result = subprocess.run(command, check=False, capture_output=True, text=True)
        if result.returncode or missing_tables(target):
            last_line = (result.stderr.strip() or "it wrote no tables").splitlines()[-1]
            raise click.UsageError(f"tpchgen-cli failed for scale factor {scale:g}: {last_line}")
        try:
            target.rename(directory)
        except OSError:
            if missing_tables(directory):  # else another run was first, with the same bytes
                raise


# Results: one JSON file a query, so that runs of other engines and other days can be compared.


def write_result(
    directory: Path, number: int, columns: Sequence[tuple[str, str]], rows: Iterable[Iterable[Any]]
) -> None:
    """Write ``q01.json`` and so on: the columns' names and types, and the rows, sorted.

    Decimals and dates are written as text, so nothing is rounded.
    """
    encoded = sorted(([_encoded(cell) for cell in row] for row in rows), key=_row_key)
    body = ",\n".join(json.dumps(row, ensure_ascii=False) for row in encoded)
    head = json.dumps([{"name": name, "type": kind} for name, kind in columns])
    text = f'{{"query": {number},\n"columns": {head},\n"rows": [\n{body}\n]}}\n'
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"q{number:02}.json").write_text(text, encoding="utf-8")


def compare_results(left: Path, right: Path) -> list[str]:
    """Differences of two results directories, row by row, in words; empty if they are equal.

    Cells must be equal exactly, except where a side is floating point: then within
    ``REL_TOLERANCE``, or within the rounding of a decimal on the other side. The order of rows
    does not count, nor do the columns' types, so that another engine's results can be compared.
    """
    names = {path.name for side in (left, right) for path in side.glob("q*.json")}
    if not names:
        return [f"neither {left} nor {right} holds results (q*.json)"]
    differences = []
    for name in sorted(names):
        absent = [side for side in (left, right) if not (side / name).is_file()]
        if absent:
            differences.append(f"{name}: missing in {absent[0]}")
        else:
            differences += [f"{name}: {text}" for text in _compare_files(left / name, right / name)]
    return differences


def _compare_files(left_file: Path, right_file: Path) -> list[str]:
    left = json.loads(left_file.read_text(encoding="utf-8"))
    right = json.loads(right_file.read_text(encoding="utf-8"))
    names = [[column["name"] for column in side["columns"]] for side in (left, right)]
    if names[0] != names[1]:
        return [f"columns {names[0]} and {names[1]}"]
    if len(left["rows"]) != len(right["rows"]):
        return [f"{len(left['rows'])} rows and {len(right['rows'])}"]
    types = [
        (one["type"], other["type"])
        for one, other in zip(left["columns"], right["columns"], strict=True)
    ]
    # Exact columns decide which rows face each other: rounding must not change the pairs.
    order = sorted(range(len(types)), key=lambda index: _is_float(*types[index]))

    def sort_key(row: list[Any]) -> list[tuple[bool, Any]]:
        values = [_number(row[index], types[index]) for index in order]
        return [(value is not None, "" if value is None else value) for value in values]

    pairs = zip(
        sorted(left["rows"], key=sort_key), sorted(right["rows"], key=sort_key), strict=True
    )
    differences = [
        f"{one} and {other}" for one, other in pairs if not all(map(_same_cell, one, other, types))
    ]
    return differences[:MAX_DIFFERENCES]


def _same_cell(left: Any, right: Any, types: tuple[str, str]) -> bool:
    if left is None or right is None:
        return left is right
    if not _is_float(*types):
        return bool(_number(left, types) == _number(right, types))
    one, other = float(left), float(right)
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    rounding = max(
        (
            0.5 * 10.0 ** -(len(str(cell)) - str(cell).index(".") - 1)
            for cell, kind in zip((left, right), types, strict=True)
            if kind.startswith("decimal") and "." in str(cell)
        ),
        default=0.0,
    )
    return abs(one - other) <= max(REL_TOLERANCE * max(abs(one), abs(other)), rounding)


def _is_float(*types: str) -> bool:
    return any(kind in ("double", "float") for kind in types)


def _number(cell: Any, types: tuple[str, str]) -> Any:
    """The cell as a value that compares across types: 5, "5.00" and 5.0 are one number."""
    if cell is None or not (_is_float(*types) or any(kind.startswith("decimal") for kind in types)):
        return cell
    return float(cell) if _is_float(*types) else Decimal(cell)


def _encoded(cell: Any) -> Any:
    if isinstance(cell, Decimal):
        return format(cell, "f")
    return cell.isoformat() if isinstance(cell, date) else cell


def _row_key(row: list[Any]) -> list[tuple[bool, Any]]:
    return [(cell is not None, "" if cell is None else cell) for cell in row]


# The application


def run_queries(
    spark: SparkSession, numbers: Sequence[int], scale: float, results: Path | None
) -> list[dict[str, float | int]]:
    """Run the queries one after another; returns number, elapsed seconds and rows of each."""
    times: list[dict[str, float | int]] = []
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )
    with bar:
        task = bar.add_task("TPC-H", total=len(numbers))
        for number in numbers:
            bar.update(task, description=f"TPC-H Q{number}")
            spark.sparkContext.setJobDescription(f"TPC-H Q{number}")
            start_s = time.perf_counter()
            try:
                frame = spark.sql(query_sql(number, scale))
                rows = frame.collect()
            except PySparkException as error:
                reason = str(error).strip().splitlines()[0]
                raise QueryError(f"query {number} failed: {reason}") from error
            elapsed_s = round(time.perf_counter() - start_s, 3)
            times.append({"query": number, "elapsed_s": elapsed_s, "num_rows": len(rows)})
            if results is not None:
                write_result(results, number, frame.dtypes, rows)
            bar.advance(task)
        bar.update(task, description="TPC-H")
    return times


@click.command(epilog="example: spark-submit jobs/tpch.py --scale 0.1 --queries 1,3,5-7")
@click.option(
    "--scale", type=click.FloatRange(min=0, min_open=True), default=1.0, show_default=True
)
@click.option("--queries", default="1-22", show_default=True, help="which, such as 1,3,5-7")
@click.option("--data", help="the tables' directory or URI; a missing directory is generated")
@click.option("--results", type=click.Path(path_type=Path, file_okay=False), help="write rows here")
@click.option(
    "--baseline",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="results directory of an earlier run that must be equal; needs --results",
)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="write the times here")
def main(
    scale: float,
    queries: str,
    data: str | None,
    results: Path | None,
    baseline: Path | None,
    json_file: Path | None,
) -> None:
    """Run TPC-H queries and print how long each took, in seconds."""
    try:
        numbers = parse_queries(queries)
    except click.BadParameter as error:
        raise click.UsageError(f"--queries: {error.message}") from error
    if baseline is not None and results is None:
        raise click.UsageError("--baseline needs --results")
    location = data or str(DATA_ROOT / f"sf{scale:g}")
    if "://" not in location:
        ensure_data(Path(location), scale)

    spark = SparkSession.builder.appName(f"TPC-H sf{scale:g}").getOrCreate()
    for table in TABLES:
        spark.read.parquet(f"{location}/{table}").createOrReplaceTempView(table)
    times = run_queries(spark, numbers, scale, results)
    summary = {
        "scale": scale,
        "spark": spark.version,
        "total_s": round(sum(row["elapsed_s"] for row in times), 3),
        "queries": times,
    }
    spark.stop()

    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    for row in times:
        click.echo(f"Q{row['query']:<2} {row['elapsed_s']:8.3f} s {row['num_rows']:6} rows")
    click.echo(f"sum {summary['total_s']:7.3f} s")
    if baseline is not None and results is not None:
        differences = [
            text
            for text in compare_results(baseline, results)
            # A baseline of all queries serves a run of some.
            if int(text[1:3]) in numbers
        ]
        if differences:
            raise QueryError(f"results differ from {baseline}: {'; '.join(differences[:3])}")
        click.echo(f"results equal {baseline}")


def run() -> int:
    """Run the command; an error is one line, 2 for wrong input and 1 for a failed query."""
    try:
        main(standalone_mode=False)
    except click.UsageError as error:
        click.echo(f"tpch: {error.format_message()}", err=True)
        return 2
    except click.ClickException as error:
        click.echo(f"tpch: {error.format_message()}", err=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(run())
