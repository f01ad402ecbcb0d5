"""The processes of this machine, as tests and the scripts that they run look for them."""

from __future__ import annotations

import os
from pathlib import Path


def processes(*words: str) -> dict[int, int]:
    """Processes whose command line has all these words, this one left out: number to parent's number."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        pid = int(stat.parent.name)
        try:
            command = (stat.parent / "cmdline").read_text(errors="replace")
            if pid != os.getpid() and all(word in command for word in words):
                found[pid] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
    return found


def children(parent: int, *words: str) -> list[int]:
    """Those of :func:`processes` that this process started."""
    return sorted(pid for pid, its_parent in processes(*words).items() if its_parent == parent)
