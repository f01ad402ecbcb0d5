"""Runs modes in processes of their own, one at a time, and watches the memory of their trees."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.overlap.modes import REPOSITORY

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class RunError(Exception):
    """A mode's process failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One run of one case."""

    case: str
    mode: str
    elapsed_s: float
    trial_iterations_per_s: float
    peak_rss_bytes: int
    groups: list[dict[str, Any]]

    def row(self) -> dict[str, Any]:
        """For merge.json."""
        return {
            "case": self.case,
            "mode": self.mode,
            "elapsed_s": round(self.elapsed_s, 3),
            "trial_iterations_per_s": round(self.trial_iterations_per_s),
            "peak_rss_bytes": self.peak_rss_bytes,
        }


def run_mode(mode: str, cases: Sequence[str], scale: float, folder: Path) -> list[Measurement]:
    """Run cases in a mode; losses go to ``folder``.

    Raises:
        RunError: its process failed.
    """
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("SPARK_", "PYSPARK_"))
    }
    environment |= {
        "PYTHONPATH": str(REPOSITORY),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "RAY_USAGE_STATS_ENABLED": "0",
        # One core a trial: threads of the numerical library would take those of the others.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    log = folder / f"{mode}.log"
    command = [sys.executable, "-m", "jobs.merge_bench.modes", mode, str(scale), str(folder)]
    found = []
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [*command, *cases],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        ) as process,
    ):
        assert process.stdout is not None  # noqa: S101  it is a pipe
        memory = _Memory(process.pid)
        try:
            for line in process.stdout:
                told = json.loads(line)
                if "begins" in told:
                    memory.reset()
                    continue
                found.append(
                    Measurement(
                        case=told["case"],
                        mode=mode,
                        elapsed_s=told["elapsed_s"],
                        trial_iterations_per_s=told["trial_iterations"] / told["elapsed_s"],
                        peak_rss_bytes=memory.peak_bytes,
                        groups=told["groups"],
                    )
                )
            process.wait()
        finally:
            memory.stop()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        tail = log.read_text(errors="replace").strip().rpartition("\n")[2]
        raise RunError(f"{mode}: exit code {process.returncode}: {tail} ({log})")
    return found


class _Memory:
    """Samples the resident memory of a process and all that it started."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ends = threading.Event()
        self.peak_bytes = 0
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def reset(self) -> None:
        """Forget the peak so far."""
        self.peak_bytes = 0

    def stop(self) -> None:
        """End sampling."""
        self._ends.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._ends.wait(0.2):
            self.peak_bytes = max(self.peak_bytes, tree_bytes(self._pid))


def tree_bytes(pid: int) -> int:
    """Resident memory of a process and its descendants; pages that they share count more than once."""
    parents: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        number = int(stat.parent.name)
        parents[number], sizes[number] = int(fields[1]), int(fields[21]) * PAGE_BYTES
    total = 0
    for number, size_bytes in sizes.items():
        one = number
        while one not in (0, pid):
            one = parents.get(one, 0)
        total += size_bytes if one == pid else 0
    return total
