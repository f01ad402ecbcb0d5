"""The table of keys: checks, options of Python, and its twins in Scala and in the README."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from dagopt.errors import ConfError, UnknownKeyError
from dagopt.spark.conf import (
    KEYS,
    PREFIX,
    check_conf,
    check_driver_files,
    option_key,
    option_values,
    value_of,
)

ROOT = Path(__file__).resolve().parents[3]
SCALA = ROOT / "dagopt/jvm/src/main/scala/org/apache/spark/scheduler/dagopt/DagoptConf.scala"


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.key)
def test_a_default_is_allowed(key: object) -> None:
    for known in KEYS:
        if known is key and known.default is not None:
            check_conf({known.key: known.default})


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("mode", "onn", "off, explain, on"),
        ("mode", "ON", "off, explain, on"),
        ("grouping.enabled", "yes", "true or false"),
        ("boundary", "sometimes", "auto, always, never"),
        ("probe.enabled", "", "true or false"),
        ("slotsPerCore", "0", "a whole number from 1 to 16"),
        ("slotsPerCore", "17", "a whole number from 1 to 16"),
        ("slotsPerCore", "2.5", "a whole number from 1 to 16"),
        ("slotsPerCore", "-1", "a whole number from 1 to 16"),
        ("minInputBytes", "1.5m", "a size of at least 0 bytes, such as 16m"),
        ("minInputBytes", "16mib", "a size of at least 0 bytes, such as 16m"),
        ("network.bandwidth", "0", "a size of at least 1 bytes, such as 125m"),
        ("disk.bandwidth", "9000000p", "a size of at least 1 bytes, such as 200m"),
        ("maxDelay", "soon", "a time of at least 0ms, such as 10s"),
        ("planner.timeout", "0", "a time of at least 1ms, such as 500ms"),
        ("probe.interval", "199ms", "a time of at least 200ms, such as 200ms"),
        ("profile", " ", "the path of a file that dagopt learn wrote"),
        (
            "networks",
            "rack1",
            "name=address range or host,...;name=... such as rack1=10.0.1.0/24,hostA",
        ),
        (
            "networks",
            "rack1=10.0.1.0/99",
            "name=address range or host,...;name=... such as rack1=10.0.1.0/24,hostA",
        ),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(name: str, value: str, allowed: str) -> None:
    with pytest.raises(ConfError) as caught:
        check_conf({PREFIX + name: value})
    assert str(caught.value) == f"spark.dagopt.{name} is '{value}': allowed is {allowed}"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mode", "explain"),
        ("slotsPerCore", "16"),
        ("minInputBytes", "0"),
        ("minInputBytes", "1GB"),
        ("network.bandwidth", "10g"),
        ("maxDelay", "0"),
        ("planner.timeout", "2min"),
        ("networks", "rack1=10.0.1.0/24,hostA;rack2=10.0.2.0/24"),
    ],
)
def test_a_right_value_passes(name: str, value: str) -> None:
    check_conf({PREFIX + name: value, "spark.executor.cores": "anything"})


def test_an_unknown_key_names_the_nearest() -> None:
    with pytest.raises(
        ConfError,
        match=r"^spark\.dagopt\.slotPerCore is '2': dagopt has no such key; "
        r"did you mean spark\.dagopt\.slotsPerCore\?$",
    ):
        check_conf({"spark.dagopt.slotPerCore": "2"})


@pytest.mark.parametrize("name", ["slots_per_core", "slotsPerCore", "spark.dagopt.slotsPerCore"])
def test_an_option_has_three_spellings(name: str) -> None:
    assert option_key(name) == "spark.dagopt.slotsPerCore"


def test_options_become_spark_text() -> None:
    assert option_values({"probe_enabled": False, "planner_timeout": "1s", "profile": None}) == {
        "spark.dagopt.probe.enabled": "false",
        "spark.dagopt.planner.timeout": "1s",
    }
    assert option_values({"profile": Path("p.parquet"), "slots_per_core": 2}) == {
        "spark.dagopt.profile": "p.parquet",
        "spark.dagopt.slotsPerCore": "2",
    }


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("slots_per_coer", "slots_per_core"),
        ("slotPerCore", "slotsPerCore"),
        ("spark.dagopt.slots_per_coer", "spark.dagopt.slotsPerCore"),
    ],
)
def test_an_unknown_option_names_the_nearest_as_it_was_spelt(name: str, meant: str) -> None:
    with pytest.raises(UnknownKeyError) as caught:
        option_values({name: 2})
    assert str(caught.value) == f"{name} is '2': dagopt has no such key; did you mean {meant}?"


def test_a_name_that_is_near_none_gets_them_all() -> None:
    with pytest.raises(
        UnknownKeyError, match=r"; its keys: mode, grouping\.enabled, .*, decisionLog$"
    ):
        option_values({"xyzzy": 1})


@pytest.mark.parametrize(
    ("name", "value", "cause"),
    [
        ("profile", "/nowhere/profile.parquet", "No such file"),
        ("decisionLog", "/nowhere/log.jsonl", "there is no directory /nowhere"),
        ("decisionLog", ".", "it is a directory"),
        ("planner.python", "nopython", "it is not on the PATH"),
        ("planner.python", "/nowhere/python", "it is not an executable file"),
        ("planner.python", __file__, "it is not an executable file"),
    ],
)
def test_a_file_that_is_wrong_is_told_with_its_cause(name: str, value: str, cause: str) -> None:
    with pytest.raises(ConfError) as caught:
        check_driver_files({PREFIX + name: value})
    assert str(caught.value).startswith(f"spark.dagopt.{name} is '{value}': allowed is the path ")
    assert cause in str(caught.value)


def test_a_directory_that_may_not_be_written_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("os.access", lambda _path, _right: False)  # root may write anywhere
    with pytest.raises(ConfError, match=r"\(permission denied\)$"):
        check_driver_files({PREFIX + "decisionLog": str(tmp_path / "log.jsonl")})


def test_right_files_pass(tmp_path: Path) -> None:
    check_driver_files(
        {
            PREFIX + "decisionLog": str(tmp_path / "log.jsonl"),
            PREFIX + "planner.python": sys.executable,
        }
    )


def test_a_value_that_is_not_set_has_its_default() -> None:
    assert value_of({}, "spark.dagopt.maxDelay") == "10s"
    assert value_of({"spark.dagopt.maxDelay": "1s"}, "spark.dagopt.maxDelay") == "1s"
    assert value_of({}, "spark.dagopt.profile") is None


def test_scala_has_the_same_defaults_and_bounds() -> None:
    text = SCALA.read_text(encoding="utf-8")
    found = {
        f"{PREFIX}{name}": rest
        for name, rest in re.findall(r'r\.(?:\w+)\("([\w.]+)"(?:, ([^\n]*?))?\),?\n', text)
    }
    for key in KEYS:
        if key.kind in {"text", "networks"}:
            continue
        rest = found[key.key]
        default = re.match(r'(?:default = )?"?([\w.]+)"?', rest)
        assert default is not None
        assert default[1] == key.default, key.key
        if key.kind == "choice":
            assert ", ".join(re.findall(r'"(\w+)"', rest.partition("Seq(")[2])) == key.allowed
        if key.kind == "time":
            assert f"at least {rest.rpartition(', ')[2]}ms" in key.allowed
        if key.kind == "size":
            assert f"at least {rest.rpartition(', ')[2]} bytes" in key.allowed
        if key.kind == "integer":
            low, high = rest.split(", ")[1:]
            assert f"from {low} to {high}" in key.allowed


def test_scala_reads_no_other_key() -> None:
    text = SCALA.read_text(encoding="utf-8")
    names = re.findall(r'(?:r\.\w+\(|Prefix \+ )"([\w.]+)"', text)
    assert names
    assert {PREFIX + name for name in names} <= {key.key for key in KEYS}


def test_scala_knows_every_key() -> None:
    text = SCALA.read_text(encoding="utf-8")
    listed = re.search(r"val Keys = Seq\((.*?)\)", text, re.DOTALL)
    assert listed is not None
    # In the same order, since both sides list them in a message.
    assert [PREFIX + name for name in re.findall(r'"([\w.]+)"', listed[1])] == [
        key.key for key in KEYS
    ]
    # The last one is internal, and not shown to users.
    assert [key.is_internal for key in KEYS] == [False] * (len(KEYS) - 1) + [True]
