"""The one build step that pyproject.toml cannot say: a wheel without its jars is refused.

Metadata stays in pyproject.toml.
"""

from __future__ import annotations

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

JARS = Path("dagopt/jvm/jars")


class BuildWithJars(build_py):
    """Copies the package, once the jars that belong in it are there."""

    def run(self) -> None:
        """Refuse a real build with no jar; an editable install finds jars built later."""
        if not self.editable_mode and not list(JARS.glob("dagopt-spark-*.jar")):
            message = f"{JARS}/dagopt-spark-*.jar is missing: run 'make jar' first (needs Java 17 and pyspark)"
            raise SystemExit(message)
        super().run()


setup(cmdclass={"build_py": BuildWithJars})
