"""Timelines as a trace for ui.perfetto.dev: executors are processes, their slots threads, tasks slices.

The format is Chrome's trace events in JSON, which Perfetto reads, and which can be written event by
event, so 100,000 tasks take no memory.

Source: "Trace Event Format", Google, 2016, complete (X), counter (C) and metadata (M) events.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from dagopt.reporting.figure import slots_of, utilisation

if TYPE_CHECKING:
    from typing import TextIO

    from dagopt.reporting.figure import Panel

_US: Final = 1e6


def write_perfetto(panels: Sequence[Panel], out: TextIO) -> None:
    """Write all panels, each with processes of its own, from second 0 on."""
    out.write('{"displayTimeUnit":"ms","traceEvents":[')
    separator = "\n"
    for event in trace_events(panels):
        out.write(separator)
        out.write(json.dumps(event, separators=(",", ":"), allow_nan=False))
        separator = ",\n"
    out.write("\n]}\n")


def trace_events(panels: Sequence[Panel]) -> Iterator[dict[str, Any]]:
    """The trace's events; times in microseconds."""
    process = 0
    for panel in panels:
        process += 1
        yield _named("process_name", process, 0, f"{panel.heading}: cores in use")
        for time_s, waiting, rest in zip(*utilisation(panel), strict=True):
            shares = {"waiting for I/O": waiting, "CPU and other": rest}
            cores = {name: round(share * panel.num_cores, 3) for name, share in shares.items()}
            yield {"ph": "C", "name": "cores", "pid": process, "ts": time_s * _US, "args": cores}
        processes: dict[str, int] = {}
        threads: dict[str, int] = {}
        for row, bar in slots_of(panel.bars):
            if bar.executor not in processes:
                process += 1
                processes[bar.executor] = process
                yield _named(
                    "process_name", process, 0, f"{panel.heading}: executor {bar.executor}"
                )
            own = processes[bar.executor]
            if row not in threads:
                threads[row] = len(threads) + 1
                yield _named("thread_name", own, threads[row], f"slot {row.rpartition('/')[2]}")
            place = {"ph": "X", "pid": own, "tid": threads[row], "ts": round(bar.start_s * _US)}
            name = " ".join(panel.stage_names[bar.stage].split())
            yield {**place, "name": name, "dur": round((bar.end_s - bar.start_s) * _US)}
            if bar.read_s > bar.start_s:
                waited_us = round((bar.read_s - bar.start_s) * _US)
                yield {**place, "name": "waits for input", "dur": waited_us}


# Private functions


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}
