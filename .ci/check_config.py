"""Checks the files that no other tool reads: spark_conf/, the wire's schema, shell scripts, README.

``python .ci/check_config.py`` prints one line a problem and ends with 1 if there is any;
``python .ci/check_config.py --fix`` writes the README's table of keys anew first.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dagopt.errors import InputError
from dagopt.spark.conf import KEYS, check_conf
from dagopt.spark.properties import read_properties

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
TABLE = re.compile(
    r"(?<=<!-- keys: made by \.ci/check_config\.py --fix -->\n).*?(?=<!-- end -->)", re.DOTALL
)


def main(arguments: list[str]) -> int:
    """Check everything; 1 if something is wrong."""
    if "--fix" in arguments:
        fixed = TABLE.sub(lambda _: table_of_keys(), README.read_text(encoding="utf-8"))
        README.write_text(fixed, encoding="utf-8")
    found = list(problems())
    for problem in found:
        print(problem)
    return 1 if found else 0


def problems() -> Iterator[str]:
    """One line each."""
    for path in sorted((ROOT / "spark_conf").glob("*.conf")):
        with naming(path) as found:
            check_conf(read_properties(path))
        yield from found
    for path in sorted((ROOT / "dagopt").rglob("*.json")):
        with naming(path) as found:
            json.loads(path.read_text(encoding="utf-8"))
        yield from found
    scripts = [*(ROOT / ".ci").iterdir(), *(ROOT / "spark_conf").glob("*.sh")]
    for path in sorted(scripts):
        if path.is_file() and path.read_bytes().startswith(b"#!/usr/bin/env bash"):
            said = subprocess.run(  # noqa: S603  a script of ours, only parsed
                ["bash", "-n", str(path)],  # noqa: S607  wherever bash is
                capture_output=True,
                text=True,
                check=False,
            )
            if said.returncode:
                yield said.stderr.strip()
    shown = TABLE.search(README.read_text(encoding="utf-8"))
    if shown is None or shown[0] != table_of_keys():
        yield "README.md: the table of keys is out of date: python .ci/check_config.py --fix"


@contextmanager
def naming(path: Path) -> Iterator[list[str]]:
    """A list that gets the error of the block, with the file that it is about."""
    found: list[str] = []
    try:
        yield found
    except (InputError, ValueError) as error:
        found.append(f"{path.relative_to(ROOT)}: {error}")


def table_of_keys() -> str:
    """The README's table, from the one in dagopt/spark/conf.py."""
    rows = ["| key | default | allowed | what it does |", "|---|---|---|---|"]
    for key in KEYS:
        if not key.is_internal:
            default = "none" if key.default is None else f"`{key.default}`"
            rows.append(f"| `{key.key}` | {default} | {key.allowed} | {key.doc} |")
    return "".join(f"{row}\n" for row in rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
