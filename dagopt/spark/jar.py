"""The jar of dagopt's JVM part: where it is, and how it is compiled for one Spark.

A Spark distribution holds the Scala compiler that it was built with, so compiling needs Java 17 (a
runtime suffices), nothing else, and no network:

    python -m dagopt.spark.jar                          # for the installed pyspark
    python -m dagopt.spark.jar --spark-home /opt/spark  # for another one

One jar per minor version, since members of Spark move between them. Sources are
``dagopt/jvm/src/main/scala`` and those folders ``dagopt/jvm/src/spark-A-to-B`` whose range holds the
version. The same sources and Spark give the same bytes.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import click

from dagopt import __version__
from dagopt.errors import DagoptError, InputError

JVM_DIR = Path(__file__).resolve().parent.parent / "jvm"
PROPERTIES = "META-INF/dagopt.properties"
"""The entry that says what a jar was built from; the plugin reads it too (BuildInfo.scala)."""

FORMAT = 1
"""Raised when the way of building changes, so that jars built the old way are built anew."""


class JarError(DagoptError):
    """The jar cannot be compiled; the message holds what the compiler said."""


class Spark(NamedTuple):
    """A Spark distribution."""

    home: Path
    """The directory that holds ``jars/``."""
    version: str
    """Such as ``4.3.0``."""

    @property
    def minor(self) -> str:
        """Such as ``4.3``."""
        return minor_of(self.version)


def minor_of(version: str) -> str:
    """``4.3`` of ``4.3.0``.

    Raises:
        InputError: it does not begin with two numbers.
    """
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None:
        raise InputError(f"Spark version: expected one such as 4.3.0, got {version!r}")
    return f"{match[1]}.{match[2]}"


def jar_path(spark_version: str) -> Path:
    """Where the jar for a Spark version is, or would be: it need not exist."""
    return JVM_DIR / "jars" / f"dagopt-spark-{minor_of(spark_version)}.jar"


def find_spark(home: Path | None = None) -> Spark:
    """The Spark in ``home``, or the installed pyspark's.

    Raises:
        InputError: there is none.
    """
    if home is None:
        try:
            import pyspark  # noqa: PLC0415 - not needed with --spark-home
        except ImportError as e:
            raise InputError(
                "no pyspark is installed: install it, or name a Spark by --spark-home"
            ) from e
        home = Path(pyspark.__file__).parent
    home = home.resolve()
    names = sorted((home / "jars").glob("spark-core_*.jar"))
    match = re.search(r"spark-core_[\d.]+-(.+)\.jar$", names[0].name) if len(names) == 1 else None
    if match is None:
        raise InputError(
            f"{home}: expected a Spark with jars/spark-core_*.jar, got {len(names)} of them"
        )
    return Spark(home, match[1])


def sources(minor: str, root: Path = JVM_DIR) -> list[Path]:
    """The Scala files for one minor version, sorted.

    Raises:
        InputError: no folder is for that version.
    """
    wanted = numbers_of(minor)
    folders = [root / "src/main/scala"]
    for folder in sorted((root / "src").glob("spark-*-to-*")):
        low, high = folder.name[len("spark-") :].split("-to-")
        if numbers_of(low) <= wanted <= numbers_of(high):
            folders.append(folder)
    if len(folders) == 1:
        raise InputError(f"Spark {minor}: dagopt has no JVM part for it, see {root / 'src'}")
    return sorted(path for folder in folders for path in folder.rglob("*.scala"))


def is_current(jar: Path, spark: Spark) -> bool:
    """Whether ``jar`` was built from the present sources for this Spark."""
    try:
        with zipfile.ZipFile(jar) as z:
            return z.read(PROPERTIES).decode() == _properties(spark)
    except (OSError, KeyError, zipfile.BadZipFile):
        return False


def build(spark: Spark, *, force: bool = False) -> bool:
    """Compiles the jar for one Spark; does nothing if it is current, unless ``force``.

    The file appears whole or not at all, so builds may run at the same time.

    Returns:
        Whether it was compiled.

    Raises:
        JarError: Java is missing, or the compiler found an error.
    """
    jar = jar_path(spark.version)
    if not force and is_current(jar, spark):
        return False
    # Read before the sources are compiled: if they change meanwhile, the jar is not current.
    properties = _properties(spark)
    jar.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dagopt-jar-") as tmp:
        classes = Path(tmp, "classes")
        classes.mkdir()
        _compile(spark, classes)
        handle, name = tempfile.mkstemp(prefix=f".{jar.name}.", dir=jar.parent)
        os.close(handle)
        partial = Path(name)
        try:
            _pack(classes, properties, partial)
            partial.chmod(0o644)
            partial.replace(jar)
        except BaseException:
            partial.unlink()
            raise
    return True


def _compile(spark: Spark, classes: Path) -> None:
    command = [
        _java(),
        "-Xss8m",
        "-cp",
        f"{spark.home / 'jars'}{os.sep}*",
        "scala.tools.nsc.Main",
        "-usejavacp",
        "-feature",
        "-d",
        str(classes),
        *(str(path) for path in sources(spark.minor)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        raise JarError(
            f"compiling for Spark {spark.version} failed:\n{done.stdout}{done.stderr}".rstrip()
        )


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    candidate = Path(home, "bin", "java") if home else None
    if candidate is not None and candidate.exists():
        return str(candidate)
    found = shutil.which("java")
    if found is None:
        raise JarError("no java in JAVA_HOME or on the PATH: install Java 17 (a runtime suffices)")
    return found


def _pack(classes: Path, properties: str, jar: Path) -> None:
    """Entries sorted and with a fixed date, so that the same classes give the same bytes."""
    entries = {
        path.relative_to(classes).as_posix(): path.read_bytes() for path in classes.rglob("*.class")
    }
    entries["META-INF/MANIFEST.MF"] = b"Manifest-Version: 1.0\r\n\r\n"
    entries[PROPERTIES] = properties.encode()
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as z:
        for name in sorted(entries):
            info = zipfile.ZipInfo(name, date_time=(2020, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            z.writestr(info, entries[name])


def _properties(spark: Spark) -> str:
    digest = hashlib.sha256(f"{FORMAT} {spark.version}".encode())
    for path in sources(spark.minor):
        digest.update(path.relative_to(JVM_DIR).as_posix().encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return (
        f"dagopt.version={__version__}\nspark.minor={spark.minor}\n"
        f"spark.version={spark.version}\nsources={digest.hexdigest()}\n"
    )


def numbers_of(minor: str) -> tuple[int, ...]:
    """``(4, 3)`` of ``4.3``."""
    return tuple(int(part) for part in minor.split("."))


@click.command()
@click.option(
    "--spark-home",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The Spark to compile for. [default: the installed pyspark]",
)
@click.option("--force", is_flag=True, help="Compile even if the jar is current.")
def main(*, spark_home: Path | None, force: bool) -> None:
    """Compile dagopt's JVM part for one Spark."""
    try:
        spark = find_spark(spark_home)
        if force or not is_current(jar_path(spark.version), spark):
            click.echo(f"Compiling the plugin for Spark {spark.version}: half a minute", err=True)
        built = build(spark, force=force)
    except DagoptError as e:
        click.echo(f"dagopt: {e}", err=True)
        raise SystemExit(e.exit_code) from e
    click.echo(f"{'Wrote' if built else 'Current:'} {jar_path(spark.version)}")


if __name__ == "__main__":
    main()
