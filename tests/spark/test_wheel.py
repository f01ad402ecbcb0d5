"""The wheel, installed away from the checkout: all that runs is in it."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from dagopt.spark.launch import PLUGIN
from tests.conftest import ROOT, run_process

pytestmark = pytest.mark.spark

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]


@pytest.fixture(scope="module")
def site(spark_jar: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the wheel is installed into, without network."""
    tree = tmp_path_factory.mktemp("tree")
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    # A copy, since setuptools leaves its own files in the tree that it builds.
    shutil.copytree(ROOT / "dagopt", tree / "dagopt", ignore=shutil.ignore_patterns("__pycache__"))
    assert (tree / spark_jar.relative_to(ROOT)).is_file()
    wheels, installed = tree / "wheels", tree / "site"
    offline = ["--no-deps", "--no-index", "--quiet"]
    build = [*PIP, "wheel", *offline, "--no-build-isolation", "-w", str(wheels), "."]
    run_process(build, cwd=tree, environment={"PYTHONPATH": ""}).ok()
    (wheel,) = wheels.glob("dagopt-*.whl")
    install = [*PIP, "install", *offline, "--target", str(installed), str(wheel)]
    run_process(install, cwd=tree, environment={"PYTHONPATH": ""}).ok()
    return installed


def test_everything_but_the_sources_is_in_it(site: Path) -> None:
    def files(root: Path) -> set[Path]:
        found = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
        return {path for path in found if "__pycache__" not in path.parts}

    in_the_tree = {path for path in files(ROOT / "dagopt") if path.parts[:2] != ("jvm", "src")}
    assert files(site / "dagopt") == in_the_tree


def test_the_installed_command_names_the_installed_jar(
    site: Path, spark_jar: Path, tmp_path: Path
) -> None:
    command = [sys.executable, str(site / "bin" / "dagopt"), "conf", "--json"]
    printed = run_process(command, cwd=tmp_path, environment={"PYTHONPATH": str(site)}).ok()
    conf = json.loads(printed.stdout)
    assert conf["spark.plugins"] == PLUGIN
    assert conf["spark.jars"] == str(site / "dagopt" / "jvm" / "jars" / spark_jar.name)
    assert conf["spark.dagopt.planner.pythonpath"] == str(site)


def test_the_installed_planner_starts(site: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dagopt.planner"]
    run_process(command, cwd=tmp_path, environment={"PYTHONPATH": str(site)}).ok()
