"""The TPC-H job: its input, how results are compared, and all 22 results against DuckDB.

DuckDB runs the same SQL text on the same files, so it checks how the text is executed and written
out, and that it is not Spark's dialect only. That the text is TPC-H's is checked against answers that
are published for scale factor 1.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.conftest import JobRunner

SCALE = 0.01


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The eight tables at scale factor 0.01."""
    from jobs.tpch import ensure_data

    directory = tmp_path_factory.mktemp("tpch") / "sf0.01"
    ensure_data(directory, SCALE)
    return directory


def duckdb_results(tables: Path, results: Path, scale: float) -> None:
    """Write the results of all queries by DuckDB, in the form of the job's own."""
    import duckdb

    from jobs.tpch import QUERIES, TABLES, query_sql, write_result

    with duckdb.connect() as connection:
        connection.execute("SET threads = 2")
        for table in TABLES:
            connection.execute(f"CREATE VIEW {table} AS FROM '{tables / table}/*.parquet'")
        for number in QUERIES:
            cursor = connection.execute(query_sql(number, scale))
            columns = [(str(name), str(kind).lower()) for name, kind, *_ in cursor.description]
            write_result(results, number, columns, cursor.fetchall())


@pytest.mark.spark
def test_all_results_equal_duckdb(tables: Path, tmp_path: Path, submit: JobRunner) -> None:
    from jobs.tpch import compare_results

    arguments = ["--scale", SCALE, "--data", tables, "--results", tmp_path / "spark"]
    done = submit("tpch", *arguments, "--json", tmp_path / "times.json")
    assert done.returncode == 0, done.stdout[-3000:]
    duckdb_results(tables, tmp_path / "duckdb", SCALE)
    assert compare_results(tmp_path / "spark", tmp_path / "duckdb") == []

    summary = json.loads((tmp_path / "times.json").read_text(encoding="utf-8"))
    assert [row["query"] for row in summary["queries"]] == list(range(1, 23))
    assert all(row["elapsed_s"] > 0 for row in summary["queries"])
    # All queries say something at this scale: an empty result would equal any other.
    assert all(row["num_rows"] > 0 for row in summary["queries"])


# Of the answers published for scale factor 1: number of rows, and cells of the first row.
ANSWERS: dict[int, tuple[int, dict[str, str | float]]] = {
    1: (4, {"sum_qty": 37734107.00, "sum_charge": 55909065222.83, "count_order": 1478493}),
    2: (100, {"s_acctbal": 9938.53, "s_name": "Supplier#000005359", "p_partkey": 185358}),
    3: (10, {"l_orderkey": 2456423, "revenue": 406181.01, "o_orderdate": "1995-03-05"}),
    4: (5, {"o_orderpriority": "1-URGENT", "order_count": 10594}),
    5: (5, {"n_name": "INDONESIA", "revenue": 55502041.17}),
    6: (1, {"revenue": 123141078.23}),
    7: (4, {"supp_nation": "FRANCE", "l_year": 1995, "revenue": 54639732.73}),
    8: (2, {"o_year": 1995, "mkt_share": 0.03}),
    9: (175, {"nation": "ALGERIA", "o_year": 1998, "sum_profit": 27136900.18}),
    10: (20, {"c_custkey": 57040, "revenue": 734235.25, "c_acctbal": 632.87}),
    11: (1048, {"ps_partkey": 129760, "value": 17538456.86}),
    12: (2, {"l_shipmode": "MAIL", "high_line_count": 6202, "low_line_count": 9324}),
    13: (42, {"c_count": 0, "custdist": 50005}),
    14: (1, {"promo_revenue": 16.38}),
    15: (1, {"s_suppkey": 8449, "total_revenue": 1772627.21}),
    16: (18314, {"p_brand": "Brand#41", "p_type": "MEDIUM BRUSHED TIN", "supplier_cnt": 28}),
    17: (1, {"avg_yearly": 348406.05}),
    18: (57, {"c_custkey": 128120, "o_orderkey": 4722021, "o_totalprice": 544089.09}),
    19: (1, {"revenue": 3083843.06}),
    20: (186, {"s_name": "Supplier#000000020"}),
    21: (100, {"s_name": "Supplier#000002829", "numwait": 20}),
    22: (7, {"cntrycode": "13", "numcust": 888, "totacctbal": 6737713.99}),
}


@pytest.mark.slow
def test_published_answers(tmp_path: Path) -> None:
    from jobs.tpch import ensure_data

    ensure_data(tmp_path / "sf1", 1.0)
    duckdb_results(tmp_path / "sf1", tmp_path / "results", 1.0)
    for number, (num_rows, first_row) in ANSWERS.items():
        result = json.loads((tmp_path / "results" / f"q{number:02}.json").read_text("utf-8"))
        names = [column["name"] for column in result["columns"]]
        assert len(result["rows"]) == num_rows, f"Q{number}"
        # Results are kept sorted by their columns, so the query's first row is searched for.
        found = [
            row
            for row in result["rows"]
            if all(_is(row[names.index(name)], value) for name, value in first_row.items())
        ]
        assert len(found) == 1, f"Q{number}: no row with {first_row}"


def _is(cell: str | float, value: str | float) -> bool:
    """Whether a cell is a published value, which is rounded to cents."""
    if isinstance(value, str):
        return cell == value
    return abs(float(cell) - value) <= 0.0051


def test_data_is_generated_once_and_as_a_whole(tmp_path: Path) -> None:
    from jobs.tpch import ensure_data, missing_tables

    directory = tmp_path / "sf0.001"
    both = [threading.Thread(target=ensure_data, args=(directory, 0.001)) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert missing_tables(directory) == []
    assert [path.name for path in tmp_path.iterdir()] == ["sf0.001"]
    stamps = {path: path.stat().st_mtime_ns for path in directory.rglob("*.parquet")}
    ensure_data(directory, 0.001)
    assert stamps == {path: path.stat().st_mtime_ns for path in directory.rglob("*.parquet")}


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    import click

    from jobs.tpch import ensure_data

    (tmp_path / "nation").mkdir()
    with pytest.raises(click.UsageError, match=r"no Parquet files of customer, lineitem, nation"):
        ensure_data(tmp_path, 0.001)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("1", [1]), ("3, 1,1", [1, 3]), ("20-22,7", [7, 20, 21, 22]), ("1-22", list(range(1, 23)))],
)
def test_queries_are_parsed(text: str, numbers: list[int]) -> None:
    from jobs.tpch import parse_queries

    assert parse_queries(text) == numbers


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("1,23", "tpch: --queries: 23 is no TPC-H query; there are 1 to 22"),
        ("0", "tpch: --queries: 0 is no TPC-H query; there are 1 to 22"),
        ("5-3", "tpch: --queries: 5-3 is no TPC-H query; there are 1 to 22"),
        ("q1", "tpch: --queries: 'q1' is no query number; example: 1,3,5-7"),
        ("", "tpch: --queries: '' is no query number; example: 1,3,5-7"),
    ],
)
def test_a_wrong_query_is_one_line_and_exit_code_2(
    text: str, line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from jobs.tpch import run

    monkeypatch.setattr("sys.argv", ["tpch.py", "--queries", text])
    assert run() == 2
    assert capsys.readouterr().err == line + "\n"


def test_a_process_ends_with_exit_code_2(run_python: JobRunner) -> None:
    done = run_python("tpch", "--queries", "23")
    assert done.returncode == 2
    assert done.stderr == "tpch: --queries: 23 is no TPC-H query; there are 1 to 22\n"


# Comparing results

MONEY = ("revenue", "decimal(25,4)")
SHARE = ("share", "double")
NAME = ("name", "string")


def differences(
    tmp_path: Path,
    left: tuple[Sequence[tuple[str, str]], Sequence[Sequence[Any]]],
    right: tuple[Sequence[tuple[str, str]], Sequence[Sequence[Any]]],
) -> list[str]:
    from jobs.tpch import compare_results, write_result

    for side, (columns, rows) in {"left": left, "right": right}.items():
        write_result(tmp_path / side, 1, columns, rows)
    return compare_results(tmp_path / "left", tmp_path / "right")


@pytest.mark.parametrize(
    ("columns", "left", "right"),
    [
        pytest.param([NAME], [["b"], ["a"]], [["a"], ["b"]], id="order does not count"),
        pytest.param([NAME, SHARE], [["a", 1.0]], [["a", 1.0 + 9e-7]], id="float within tolerance"),
        pytest.param([SHARE], [[float("nan")]], [[float("nan")]], id="NaN is NaN"),
        pytest.param([NAME], [[None], ["a"]], [["a"], [None]], id="null is null"),
        pytest.param([MONEY], [[Decimal("5.00")]], [[Decimal("5.0000")]], id="equal decimals"),
        pytest.param(
            [SHARE, NAME],
            [[1.0, "b"], [1.0 + 1e-8, "a"]],
            [[1.0 + 1e-8, "b"], [1.0, "a"]],
            id="pairs",
        ),
        pytest.param([("d", "date")], [[date(1995, 1, 2)]], [[date(1995, 1, 2)]], id="dates"),
        pytest.param([NAME], [], [], id="both empty"),
    ],
)
def test_equal_results(
    tmp_path: Path,
    columns: list[tuple[str, str]],
    left: list[list[Any]],
    right: list[list[Any]],
) -> None:
    assert differences(tmp_path, (columns, left), (columns, right)) == []


@pytest.mark.parametrize(
    ("columns", "left", "right", "text"),
    [
        ([NAME], [["a"]], [["b"]], "q01.json: ['a'] and ['b']"),
        ([NAME], [["a"]], [["a"], ["a"]], "q01.json: 1 rows and 2"),
        ([NAME], [[None]], [["a"]], "q01.json: [None] and ['a']"),
        ([SHARE], [[1.0]], [[1.0 + 2e-6]], "q01.json: [1.0] and [1.000002]"),
        (
            [MONEY],
            [[Decimal("5.0001")]],
            [[Decimal("5.0002")]],
            "q01.json: ['5.0001'] and ['5.0002']",
        ),
    ],
)
def test_different_results(
    tmp_path: Path,
    columns: list[tuple[str, str]],
    left: list[list[Any]],
    right: list[list[Any]],
    text: str,
) -> None:
    assert differences(tmp_path, (columns, left), (columns, right)) == [text]


def test_a_decimal_equals_the_float_that_rounds_to_it(tmp_path: Path) -> None:
    decimal = ([("share", "decimal(10,3)")], [[Decimal("0.034")]])
    assert differences(tmp_path, decimal, ([SHARE], [[0.03436]])) == []
    assert differences(tmp_path, decimal, ([SHARE], [[0.03464]])) != []


def test_a_missing_result_is_named(tmp_path: Path) -> None:
    from jobs.tpch import compare_results, write_result

    for side, number in (("left", 1), ("left", 2), ("right", 1)):
        write_result(tmp_path / side, number, [NAME], [["a"]])
    assert compare_results(tmp_path / "left", tmp_path / "right") == [
        f"q02.json: missing in {tmp_path / 'right'}"
    ]
    (tmp_path / "none").mkdir()
    (difference,) = compare_results(tmp_path / "none", tmp_path / "none")
    assert "holds results" in difference
