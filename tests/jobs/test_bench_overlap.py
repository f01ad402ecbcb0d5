"""What ``bench_overlap.py`` says of itself; that it measures is tested in tests/net."""

from __future__ import annotations

from click.testing import CliRunner

from jobs.bench_overlap import main


def test_each_example_of_the_help_has_a_line() -> None:
    lines = CliRunner().invoke(main, ["--help"]).output.splitlines()
    examples = [line.strip() for line in lines if line.strip().startswith("sudo ")]
    assert len(examples) == 2
    assert all(line.endswith(".venv/bin/python jobs/bench_overlap.py") for line in examples)
