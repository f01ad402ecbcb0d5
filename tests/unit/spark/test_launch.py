"""What a launch sets, for each Spark line and cluster manager."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from dagopt.errors import ConfError, InputError, UnsupportedError
from dagopt.spark import launch
from dagopt.spark.launch import EXTENSION, PLUGIN, SPARK_LINES, find_jar, launch_conf, submit_conf

ROOT = Path(__file__).resolve().parents[3]
JARS = ROOT / "dagopt" / "jvm" / "jars"


@pytest.fixture(autouse=True)
def all_jars(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Jars of every line, empty: nothing here opens one."""
    for line in SPARK_LINES:
        (tmp_path / f"dagopt-spark-{line}.jar").touch()

    def fake_path(version: str) -> Path:
        return tmp_path / f"dagopt-spark-{'.'.join(version.split('.')[:2])}.jar"

    monkeypatch.setattr(launch, "jar_path", fake_path)
    return tmp_path


def test_everything_that_a_plain_launch_sets(all_jars: Path) -> None:
    jar = str(all_jars / "dagopt-spark-4.3.jar")
    assert submit_conf("4.3.0") == {
        "spark.plugins": PLUGIN,
        "spark.jars": jar,
        "spark.driver.extraClassPath": jar,
        "spark.sql.extensions": EXTENSION,
        "spark.dagopt.planner.python": sys.executable,
        "spark.dagopt.planner.pythonpath": str(ROOT),
    }


def test_the_extension_stands_behind_those_of_the_user() -> None:
    base = {"spark.sql.extensions": "com.example.A, com.example.B"}
    conf = submit_conf("4.0.1", base=base)
    assert conf["spark.sql.extensions"] == f"com.example.A,com.example.B,{EXTENSION}"


def test_there_is_an_extension_wherever_a_function_may_have_a_profile() -> None:
    assert submit_conf("3.5.1")["spark.sql.extensions"] == EXTENSION
    never = submit_conf("4.3.0", options={"boundary": "never"})
    assert never["spark.sql.extensions"] == EXTENSION
    assert "spark.sql.extensions" not in submit_conf("4.3.0", options={"mode": "off"})


def test_options_are_set_under_their_keys() -> None:
    conf = submit_conf("4.3.0", options={"slots_per_core": 2, "planner.timeout": "1s"})
    assert conf["spark.dagopt.slotsPerCore"] == "2"
    assert conf["spark.dagopt.planner.timeout"] == "1s"


def test_lists_of_the_user_are_appended_to(all_jars: Path) -> None:
    base = {
        "spark.plugins": "com.example.One, com.example.Two",
        "spark.jars": "a.jar,b.jar",
        "spark.driver.extraClassPath": "/opt/x.jar:/opt/y",
    }
    conf = submit_conf("4.2.1", base=base)
    jar = str(all_jars / "dagopt-spark-4.2.jar")
    assert conf["spark.plugins"] == f"com.example.One,com.example.Two,{PLUGIN}"
    assert conf["spark.jars"] == f"a.jar,b.jar,{jar}"
    assert conf["spark.driver.extraClassPath"] == f"{jar}:/opt/x.jar:/opt/y"


def test_doing_it_twice_is_doing_it_once() -> None:
    for version, master in (("4.3.0", "yarn"), ("3.5.1", "k8s://h"), ("3.5.1", "yarn")):
        once = submit_conf(version, master=master, cores=2, options={"slots_per_core": 3})
        twice = submit_conf(version, master=master, cores=2, base=once)
        assert {**once, **twice} == once


def test_the_users_own_copy_of_the_jar_is_kept() -> None:
    base = {"spark.jars": "local:///opt/dagopt/dagopt-spark-4.3.jar", "spark.plugins": PLUGIN}
    conf = submit_conf("4.3.0", base=base)
    assert "spark.jars" not in conf
    assert "spark.driver.extraClassPath" not in conf


def test_a_jar_of_another_line_is_replaced(all_jars: Path) -> None:
    base = {
        "spark.jars": "a.jar,dagopt/jvm/jars/dagopt-spark-4.3.jar",
        "spark.driver.extraClassPath": "dagopt/jvm/jars/dagopt-spark-4.3.jar:x",
    }
    conf = submit_conf("4.0.1", base=base)
    jar = str(all_jars / "dagopt-spark-4.0.jar")
    assert conf["spark.jars"] == f"a.jar,{jar}"
    assert conf["spark.driver.extraClassPath"] == f"{jar}:x"


def test_a_planner_python_of_the_user_gets_no_path_of_this_one() -> None:
    conf = submit_conf("4.3.0", base={"spark.dagopt.planner.python": "/opt/python"})
    assert not any(key.startswith("spark.dagopt.planner") for key in conf)


def test_cluster_mode_names_nothing_of_this_machine() -> None:
    yarn = launch_conf("4.3.0", master="yarn", deploy_mode="cluster")
    assert yarn.conf["spark.driver.extraClassPath"] == "dagopt-spark-4.3.jar"
    assert not any(key.startswith("spark.dagopt.") for key in yarn.conf)
    assert yarn.notes == ("cluster mode: the driver's Python there must have dagopt installed",)
    base = {"spark.submit.deployMode": "cluster", "spark.master": "k8s://https://h"}
    assert "spark.driver.extraClassPath" not in submit_conf("4.3.0", base=base)


def test_mode_off_sets_nothing_else() -> None:
    assert submit_conf("3.5.1", options={"mode": "off"}) == {"spark.dagopt.mode": "off"}
    assert submit_conf("3.5.1", base={"spark.dagopt.mode": "off"}) == {}


@pytest.mark.parametrize("version", ["3.4.4", "4.4.0", "5.0.0"])
def test_an_unsupported_spark_sets_nothing_and_says_so(version: str) -> None:
    conf = launch_conf(version, options={"slots_per_core": 2})
    assert conf.conf == {}
    assert conf.notes == (
        f"Spark {version} runs without dagopt, which works with Spark 3.5 to 4.3",
    )


def test_a_missing_jar_says_how_to_build_it(all_jars: Path) -> None:
    (all_jars / "dagopt-spark-4.1.jar").unlink()
    with pytest.raises(UnsupportedError) as caught:
        find_jar("4.1.0")
    assert str(caught.value) == (
        "Spark 4.1.0 runs without dagopt: dagopt-spark-4.1.jar is missing; 'make jars MATRIX=4.1' "
        "builds it, and 'python -m dagopt.spark.jar --spark-home DIR' does for a Spark 4.1 in DIR"
    )


def test_an_installed_wheel_has_no_sources_to_build_from(
    all_jars: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (all_jars / "dagopt-spark-4.1.jar").unlink()
    monkeypatch.setattr(launch, "JVM_DIR", all_jars)
    with pytest.raises(
        UnsupportedError, match=r"missing; install a wheel that 'make wheel MATRIX=4\.1'"
    ):
        find_jar("4.1.0")


@pytest.mark.parametrize("version", ["3.5.1-amzn-0", "4.3.0-SNAPSHOT", "3.5"])
def test_a_vendors_version_is_of_its_line(version: str) -> None:
    assert find_jar(version).name == f"dagopt-spark-{version[:3]}.jar"


@pytest.mark.parametrize("version", ["", "spark", "4", "v4.3"])
def test_a_version_that_is_none_is_refused(version: str) -> None:
    with pytest.raises(InputError, match="Spark version"):
        find_jar(version)


def test_wrong_values_are_refused_wherever_they_come_from() -> None:
    with pytest.raises(ConfError, match=r"spark\.dagopt\.mode is 'onn'"):
        launch_conf("4.3.0", base={"spark.dagopt.mode": "onn"})
    with pytest.raises(ConfError, match=r"spark\.dagopt\.mode is 'onn'"):
        launch_conf("9.9", options={"mode": "onn"})
    with pytest.raises(InputError, match="cores: expected an integer >= 1, got 0"):
        launch_conf("4.3.0", cores=0)


@pytest.mark.parametrize("master", ["", "local[4]", "yarn", "k8s://h", "spark://h:7077"])
def test_from_4_3_on_concurrency_needs_no_setting(master: str) -> None:
    assert not raised(submit_conf("4.3.0", master=master, cores=4))


@pytest.mark.parametrize(
    "options", [{"mode": "explain"}, {"grouping_enabled": False}, {"slots_per_core": 1}]
)
def test_nothing_is_raised_for_nothing(options: Mapping[str, object]) -> None:
    assert not raised(submit_conf("3.5.1", master="k8s://h", options=options))


def test_before_4_3_slots_are_raised() -> None:
    conf = launch_conf("4.2.1", master="k8s://h", cores=4, options={"slots_per_core": 3})
    assert raised(conf.conf) == {"spark.executor.cores": "12", "spark.task.cpus": "3"}
    assert conf.notes == ("executors offer 3 slots a core and still request 4 cores of Kubernetes",)


def raised(conf: Mapping[str, str]) -> dict[str, str]:
    """The settings by which an executor offers more slots."""
    return {key: conf[key] for key in ("spark.executor.cores", "spark.task.cpus") if key in conf}
