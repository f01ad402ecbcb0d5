"""What all tests share: hypothesis without chance and clock, and ways to run Spark.

Spark runs in processes of their own, one a script, so that no test sees another's session, JVM or
environment. ``run_spark_script`` is the one way to start them.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]

settings.register_profile(
    "dagopt", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("dagopt")

#: For JVMs that live for a minute: to compile their code well would take longer than it saves.
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

#: Small and quiet: no UI, no progress bar, no waiting for locality on a single host.
BASE_CONF: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": QUICK_START,
    "spark.executor.extraJavaOptions": QUICK_START,
    "spark.master": "local-cluster[1,2,640]",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptResult:
    """How a script ended."""

    exit_code: int
    stdout: str
    stderr: str
    """With the driver's log in it."""

    def ok(self) -> ScriptResult:
        """This result, after checking that the script ended well."""
        assert self.exit_code == 0, f"exit code {self.exit_code}\n{self.tail()}"
        return self

    def tail(self, num_lines: int = 60) -> str:
        """The end of what it said, for the message of a failed test."""
        log = "\n".join(self.stderr.splitlines()[-num_lines:])
        return f"{self.stdout[-4000:]}\n{log}"


RunSparkScript = Callable[..., ScriptResult]


@pytest.fixture(scope="session")
def spark_jar() -> Path:
    """The jar for the installed pyspark, built if it is not current."""
    from dagopt.spark.jar import build, find_spark, jar_path

    spark = find_spark()
    build(spark)
    return jar_path(spark.version)


@pytest.fixture
def run_spark_script(spark_jar: Path, tmp_path: Path) -> RunSparkScript:
    """Runs a PySpark script by spark-submit and gives its output and exit code: :func:`run_spark`."""
    assert spark_jar.is_file()
    return functools.partial(run_spark, tmp_path)


def run_spark(
    directory: Path,
    script: str | Path,
    *arguments: str,
    conf: Mapping[str, str | None] | None = None,
    dagopt: bool = True,
    submit_arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    timeout_s: float = 600,
) -> ScriptResult:
    """Run a PySpark script by spark-submit, in ``directory``.

    ``script`` is a path, or source text. With ``dagopt`` the script runs through ``dagopt submit``,
    else through plain spark-submit. Keys of ``conf`` win over :data:`BASE_CONF`; a value of None
    takes a key away.
    """
    path = script if isinstance(script, Path) else directory / "script.py"
    if isinstance(script, str):
        path.write_text(textwrap.dedent(script), encoding="utf-8")
    settings = {**BASE_CONF, "spark.local.dir": str(directory / "spark"), **(conf or {})}
    arguments_of_conf = [
        part
        for key, value in settings.items()
        if value is not None
        for part in ("--conf", f"{key}={value}")
    ]
    command = [sys.executable, "-m", "dagopt.cli", "submit"] if dagopt else [str(spark_submit())]
    return run_process(
        [*command, *submit_arguments, *arguments_of_conf, str(path), *arguments],
        cwd=directory,
        environment=environment,
        timeout_s=timeout_s,
    )


def spark_submit() -> Path:
    """spark-submit of the installed pyspark."""
    import pyspark

    return Path(pyspark.__file__).parent / "bin" / "spark-submit"


def run_process(
    command: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = 600,
) -> ScriptResult:
    """Run a command with the tests' own Python for Spark and for what it imports.

    Spark's own variables of the environment are left out. On a timeout the whole process group is
    killed, since Spark's executors would live on.
    """
    left_out = ("SPARK_", "PYSPARK_")
    own = {key: value for key, value in os.environ.items() if not key.startswith(left_out)}
    own |= {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_HOME": str(spark_submit().parents[1]),
        "SPARK_LAUNCHER_OPTS": QUICK_START,
        "SPARK_LOCAL_IP": "127.0.0.1",
        **(environment or {}),
    }
    with subprocess.Popen(
        command,
        cwd=cwd,
        env=own,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            stdout, stderr = process.communicate()
            killed = ScriptResult(exit_code=-9, stdout=stdout, stderr=stderr)
            pytest.fail(f"no end after {timeout_s} s: {command}\n{killed.tail()}", pytrace=False)
    return ScriptResult(exit_code=process.returncode, stdout=stdout, stderr=stderr)
