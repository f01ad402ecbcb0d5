"""Files that no tool of its own checks: spark_conf/, the README's table, scripts, the Makefile."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dagopt.model.decision import Decision
from dagopt.spark.conf import check_conf
from dagopt.spark.launch import EXTENSION, PLUGIN, SPARK_LINES
from dagopt.spark.properties import read_properties

ROOT = Path(__file__).resolve().parents[2]
CONF_FILES = sorted((ROOT / "spark_conf").glob("*.conf"))


def test_the_checks_of_make_check_pass() -> None:
    command = [sys.executable, str(ROOT / ".ci" / "check_config.py")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stdout + ended.stderr


@pytest.mark.parametrize("path", CONF_FILES, ids=lambda path: path.stem)
def test_a_ready_made_file_switches_dagopt_on(path: Path) -> None:
    settings = read_properties(path)
    check_conf(settings)
    assert settings["spark.plugins"] == PLUGIN
    assert settings["spark.sql.extensions"] == EXTENSION
    newest = f"dagopt-spark-{SPARK_LINES[-1]}.jar"
    assert settings["spark.jars"].endswith(newest)
    assert settings["spark.driver.extraClassPath"].endswith(newest)


@pytest.mark.parametrize("path", CONF_FILES, ids=lambda path: path.stem)
def test_what_a_ready_made_file_suggests_is_right_too(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    suggested = dict(re.findall(r"^#(spark\.\S+)\s+(\S.*)$", text, re.MULTILINE))
    check_conf(suggested)
    if "spark.task.cpus" in suggested:
        settings = read_properties(path)
        assert suggested["spark.task.cpus"] == settings["spark.dagopt.slotsPerCore"]


def test_the_readme_names_every_field_of_a_decision() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = {
        field
        for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
        for field in re.findall(r"`(\w+)`", row)
    }
    assert {field.name for field in dataclasses.fields(Decision)} <= named


def test_each_target_of_make_is_in_its_help() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony is not None
    for target in phony[1].split():
        assert re.search(rf"^{target}:.*  ## \S", text, re.MULTILINE), target
