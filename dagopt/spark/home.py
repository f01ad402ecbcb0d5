"""Finding a Spark installation, its version and its defaults.

The order is that of Spark's users: ``SPARK_HOME``, then ``spark-submit`` on the ``PATH``, then the
pyspark that is installed beside dagopt.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dagopt.errors import InputError
from dagopt.spark.jar import find_spark as find_jars
from dagopt.spark.properties import read_properties

_VERSION = re.compile(r"version (\d+\.\d+\S*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkHome:
    """One Spark installation."""

    submit: Path
    """Its ``spark-submit``."""

    home: Path | None
    """The folder with ``jars/`` and ``conf/``; None where only ``spark-submit`` knows it."""

    def version(self) -> str:
        """Spark's version, such as ``4.3.0``.

        Raises:
            InputError: its jars do not say it, or ``spark-submit --version`` does not.
        """
        return self._asked_version() if self.home is None else find_jars(self.home).version

    def defaults(self, environment: Mapping[str, str]) -> dict[str, str]:
        """What its spark-defaults.conf sets; empty where there is none.

        Raises:
            InputError: the file is there and cannot be read.
        """
        folder = environment.get("SPARK_CONF_DIR")
        if folder is None and self.home is not None:
            folder = str(self.home / "conf")
        if folder is None or not (path := Path(folder) / "spark-defaults.conf").is_file():
            return {}
        return read_properties(path)

    def _asked_version(self) -> str:
        try:
            said = subprocess.run(  # noqa: S603  the very program that will be started
                [str(self.submit), "--version"], capture_output=True, text=True, check=False
            )
        except OSError as error:
            raise InputError(f"{self.submit}: cannot be started: {error}") from error
        match = _VERSION.search(said.stderr + said.stdout)
        if match is None:
            raise InputError(f"{self.submit} --version does not say which Spark it is")
        return match[1]


def find_spark(environment: Mapping[str, str]) -> SparkHome:
    """The Spark that a command started from here should use.

    Raises:
        InputError: there is none, or SPARK_HOME names a folder without ``bin/spark-submit``.
    """
    on_path = shutil.which("spark-submit", path=environment.get("PATH"))
    if not environment.get("SPARK_HOME") and on_path is not None:
        return SparkHome(submit=Path(on_path), home=_home_around(Path(on_path)))
    return pyspark_home(environment)


def pyspark_home(environment: Mapping[str, str]) -> SparkHome:
    """The Spark whose JVM pyspark starts: that of SPARK_HOME, else its own.

    Raises:
        InputError: there is none, or SPARK_HOME names a folder without ``bin/spark-submit``.
    """
    named = environment.get("SPARK_HOME")
    if named:
        submit = Path(named) / "bin" / "spark-submit"
        if not submit.is_file():
            raise InputError(f"SPARK_HOME is {named}, but {submit} does not exist")
        return SparkHome(submit=submit, home=Path(named))
    spec = importlib.util.find_spec("pyspark")
    home = Path(spec.origin).parent if spec is not None and spec.origin is not None else None
    if home is None or not (home / "jars").is_dir():
        raise InputError(
            "no Spark found: set SPARK_HOME, or install it with pip install 'dagopt[spark]'"
        )
    return SparkHome(submit=home / "bin" / "spark-submit", home=home)


def _home_around(submit: Path) -> Path | None:
    """The installation that a ``spark-submit`` stands in.

    pip puts a copy of the script into ``bin``, away from pyspark's own folder.
    """
    real = submit.resolve()
    near = [real.parents[1], *sorted(submit.parents[1].glob("lib/python3*/site-packages/pyspark"))]
    return next((home for home in near if (home / "jars").is_dir()), None)
