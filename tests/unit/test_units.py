"""Spark's sizes and times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagopt.errors import InputError
from dagopt.units import format_bytes, format_count, format_s, parse_bytes, parse_time_s


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("0", 0), ("17", 17), ("1b", 1), ("1k", 1024), (" 16M ", 16 * 2**20), ("2gb", 2**31)],
)
def test_sizes(text: str, size_bytes: int) -> None:
    assert parse_bytes(text) == size_bytes


@pytest.mark.parametrize(
    ("text", "time_s"),
    [
        ("500", 0.5),
        ("500ms", 0.5),
        ("10s", 10),
        ("2m", 120),
        ("2min", 120),
        ("1h", 3600),
        ("9us", 9e-6),
    ],
)
def test_times(text: str, time_s: float) -> None:
    assert parse_time_s(text) == pytest.approx(time_s)


@pytest.mark.parametrize("text", ["", "k", "1.5k", "-1k", "1kib", "1 k", "1s", "٣k"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected a size such as 512k, 16m or 1g, got"):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["", "s", "1.5s", "-1s", "1 s", "1k", "soon"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected a time such as 500ms, 10s or 2min, got"):
        parse_time_s(text)


@given(st.integers(0, 2**60), st.sampled_from("kmgtp"))
def test_each_prefix_is_1024_of_the_one_before(number: int, prefix: str) -> None:
    smaller = {"k": "b", "m": "k", "g": "m", "t": "g", "p": "t"}[prefix]
    assert parse_bytes(f"{number}{prefix}") == 1024 * parse_bytes(f"{number}{smaller}")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (3 * 2**30, "3.0 GiB"),
        (2**51, "2048.0 TiB"),
    ],
)
def test_sizes_for_people(value: float, text: str) -> None:
    assert format_bytes(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0.00 s"), (0.352, "0.35 s"), (12.54, "12.5 s"), (75.4, "75 s")]
)
def test_times_for_people(value: float, text: str) -> None:
    assert format_s(value) == text


def test_counts() -> None:
    assert [format_count(number, "stage") for number in (0, 1, 2)] == [
        "0 stages", "1 stage", "2 stages",
    ]  # fmt: skip
