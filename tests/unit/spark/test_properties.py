"""Java properties: Spark's own syntax, read and written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagopt.errors import InputError
from dagopt.spark.properties import format_properties, parse_properties, read_properties

KEYS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(str.strip)
#: Spark trims values, so outer spaces do not survive.
VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\0")).map(
    lambda text: text.strip("".join(map(chr, range(33))))
)


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("a.b  c d ", {"a.b": "c d"}),
        ("a.b=c", {"a.b": "c"}),
        ("a.b : c=d", {"a.b": "c=d"}),
        ("  a   =  b", {"a": "b"}),
        ("# a b\n! a b\n\na b", {"a": "b"}),
        ("a x,\\\n   y", {"a": "x,y"}),
        ("a x\\\\\nb y", {"a": "x\\", "b": "y"}),
        ("a\\ b c", {"a b": "c"}),
        ("a \\u0041\\tB", {"a": "A\tB"}),
        ("a 1\na 2", {"a": "2"}),
        ("a", {"a": ""}),
        ("a b\r\nc d\r", {"a": "b", "c": "d"}),
        ("a x\\\n# no comment", {"a": "x# no comment"}),
        ("a b\\", {"a": "b"}),
        ("", {}),
    ],
)
def test_what_java_reads(text: str, settings: dict[str, str]) -> None:
    assert parse_properties(text) == settings


@given(st.dictionaries(KEYS, VALUES))
def test_what_is_written_is_read_back(settings: dict[str, str]) -> None:
    assert parse_properties(format_properties(settings)) == settings


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no\.conf: cannot be read as properties"):
        read_properties(tmp_path / "no.conf")


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.conf").write_bytes(b"a \xff\xfe")
    with pytest.raises(InputError, match=r"x\.conf: cannot be read as properties"):
        read_properties(tmp_path / "x.conf")
