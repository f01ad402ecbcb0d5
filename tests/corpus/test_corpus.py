"""Public event logs, which are not part of this repository: their sums, and how well replays fit.

``make test-corpus CORPUS=DIR`` reads them. DIR holds ``INDEX.tsv``, whose ``relative_path`` names the logs,
one in a zip file as ``ZIP!NAME``, and ``IO_CPU.tsv`` with their sums, which another program computed.
"""

from __future__ import annotations

import csv
import os
import statistics
from pathlib import Path

import numpy as np
import pytest

from dagopt.app.advise import Gain, advise
from dagopt.events.log_paths import log_path
from dagopt.events.read import find_event_logs, read_trace

CORPUS = Path(os.environ.get("CORPUS", "eventlogs"))

pytestmark = pytest.mark.skipif(
    not (CORPUS / "INDEX.tsv").is_file(), reason=f"no public event logs in {CORPUS}"
)

STAGE_ERROR = 0.10
APPLICATION_ERROR = 0.05
"""Medians of the relative errors of replayed times that must not be exceeded."""


def rows_of(name: str) -> list[dict[str, str]]:
    path = CORPUS / name
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def replayed_s(gain: Gain) -> list[float]:
    run = gain.outcome.replay.run
    return [end_s - start_s for start_s, end_s in zip(run.start_s, run.end_s, strict=True)]


def place(relative: str) -> str:
    """Where a log lies; of a rolling log's part the folder."""
    path = CORPUS / relative.replace("!", "/")
    return str(path.parent if path.name.startswith("events_") else path)


LOGS = [row["relative_path"] for row in rows_of("INDEX.tsv")]
SUMS = [row for row in rows_of("IO_CPU.tsv") if row["task_ends"]]


@pytest.mark.parametrize("row", SUMS, ids=lambda row: row["log"])
def test_sums_equal_those_of_another_program(row: dict[str, str]) -> None:
    (log,) = find_event_logs(log_path(place(row["log"])))
    trace, _ = read_trace(log)
    tasks = [stage.tasks for stage in trace.stages]
    with_metrics = sum(int(np.isfinite(each.run_s).sum()) for each in tasks)
    assert with_metrics == int(row["task_ends"])
    for column, name, unit_s in (
        ("run_s", "run_ms", 1e-3),
        ("cpu_s", "cpu_ms", 1e-3),
        ("fetch_wait_s", "fetch_wait_ms", 1e-3),
        ("gc_s", "gc_ms", 1e-3),
        ("shuffle_write_s", "shuffle_write_ms", 1e-3),
        ("input_bytes", "input_bytes", 1),
        ("remote_read_bytes", "shuffle_remote_bytes", 1),
        ("local_read_bytes", "shuffle_local_bytes", 1),
        ("output_bytes", "output_bytes", 1),
    ):
        found = sum(float(np.nansum(getattr(each, column))) for each in tasks)
        assert found == pytest.approx(float(row[name]) * unit_s, abs=unit_s), column


@pytest.mark.parametrize("relative", LOGS)
def test_every_log_is_read_and_no_time_is_negative(relative: str) -> None:
    advice = advise(log_path(place(relative)))
    assert (advice.gain is None) == bool(advice.missing)
    for stage in advice.stages:
        for seconds in (stage.recorded_s, stage.baseline_s, stage.predicted_s, stage.bound_s):
            assert seconds is None or 0 <= seconds < float("inf")
        if stage.split is not None:
            parts = (stage.split.fetch_wait_s, stage.split.cpu_s, stage.split.unexplained_s)
            assert all(0 <= part <= stage.split.elapsed_s + 1e-6 for part in parts)


def test_replays_take_as_long_as_what_was_recorded() -> None:
    gains = [gain for relative in LOGS if (gain := advise(log_path(place(relative))).gain)]
    stages = [
        abs(simulated - recorded) / recorded
        for gain in gains
        for simulated, recorded in zip(replayed_s(gain), gain.outcome.recorded_s, strict=True)
        if recorded > 0
    ]
    applications = [gain.outcome.elapsed_error_fraction for gain in gains]
    assert len(applications) > len(LOGS) / 2
    assert statistics.median(stages) <= STAGE_ERROR
    assert statistics.median(applications) <= APPLICATION_ERROR
