"""What dagopt decided in a live session, as text, JSON and HTML.

The planner sends one JSON object with the driver's counters in it. A planner may know more or less
than this release, so a missing field is shown as "-", and fields not known here still are in
:meth:`Report.to_dict`. The fields of the object:

================  =================================================================================
``mode``          ``off``, ``explain`` or ``on``
``decisions``     the last 1,000, each with the fields of :class:`dagopt.model.decision.Decision`; a
                  line of ``spark.dagopt.decisionLog`` is one of them
``gpu_stages``    the last 1,000 forms of GPU operators, each with the fields of
                  :class:`dagopt.model.decision.FormDecision`
``gpu_use``       what their stages did with the GPUs: ``id`` of the form's decision, ``slice``,
                  ``num_tasks``, ``gpu_allocated_s``, ``gpu_busy_s``, ``gpu_idle_s``, ``cpu_s``,
                  ``bytes_across``
``gpu_shifts``    the last 1,000 slices that went to their CPU-only form or were taken back, each with
                  the fields of :class:`dagopt.controller.slices.ShiftDecision`
``task_sets``     task sets that the planner was told of
``idle_hold_s``   core-seconds in which a core had nothing to run while a task was held
``recalculations``  how often launches were planned anew
``executors``     ``executor``, ``host``, ``network`` and physical ``cores`` of each
``host_records``  for each live stage, host and input host set: ``num_tasks``, ``min_io_s``,
                  ``total_io_s``
``bandwidths``    what was measured: ``reader``, ``source`` (networks), ``bytes_per_s``
``gate``          the driver's counters (Counters.scala): ``task_sets_seen``, ``task_sets_held``,
                  ``groups_launched``, ``fallbacks`` (released without an answer), ..., and
                  ``off_reason``, empty while dagopt is on
================  =================================================================================
"""

from __future__ import annotations

import html
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from dagopt.errors import BridgeError
from dagopt.units import format_s

#: Columns of the table of decisions: heading, field, whether it is seconds.
_COLUMNS = (
    ("stage", "stage", False),
    ("name", "name", False),
    ("tasks", "num_tasks", False),
    ("action", "action", False),
    ("tasks/core", "tasks_per_core", False),
    ("I/O a task", "io_s", True),
    ("CPU a task", "cpu_s", True),
    ("predicted", "predicted_s", True),
    ("Spark alone", "stock_s", True),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Report:
    """The decisions of one session so far, each with its reason."""

    body: Mapping[str, Any]
    """What the planner and the driver said, as JSON gives it."""

    @property
    def decisions(self) -> Sequence[Mapping[str, Any]]:
        """One entry a decision, in the order in which they were taken."""
        return self._entries("decisions")

    @property
    def gpu_stages(self) -> Sequence[Mapping[str, Any]]:
        """The form of each GPU stage, in the order in which they were asked for."""
        return self._entries("gpu_stages")

    def _entries(self, field: str) -> Sequence[Mapping[str, Any]]:
        entries = self.body.get(field)
        if not isinstance(entries, list):
            return ()
        return [entry for entry in entries if isinstance(entry, dict)]

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values; changing them changes no report."""
        copied: dict[str, Any] = json.loads(self.to_json())
        return copied

    def to_json(self) -> str:
        """Everything, as one line of JSON with sorted keys."""
        return json.dumps(self.body, sort_keys=True)

    def __str__(self) -> str:
        return self.render(width=120)

    def render(self, *, width: int) -> str:
        """The report as plain text of that many columns."""
        console = Console(
            file=io.StringIO(), width=width, color_system=None, highlight=False, markup=False
        )
        console.print(self._summary(), soft_wrap=True)
        if self.decisions:
            console.print(self._table())
            for decision in self.decisions:
                console.print(f"{_stage(decision)}: {_cell(decision, 'reason')}", soft_wrap=True)
        for line in self._gpu_lines():
            console.print(line, soft_wrap=True)
        text = console.file.getvalue() if isinstance(console.file, io.StringIO) else ""
        return "\n".join(line.rstrip() for line in text.splitlines())

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return f"<pre>{html.escape(str(self))}</pre>"

    def _summary(self) -> str:
        gate = self.body.get("gate")
        counters = gate if isinstance(gate, dict) else {}
        if counters.get("off_reason"):
            return f"dagopt is off: {counters['off_reason']}"
        seen, told = counters.get("task_sets_seen"), self.body.get("task_sets")
        untold = max(0, seen - told) if isinstance(seen, int) and isinstance(told, int) else "-"
        parts = [
            f"task sets: {_cell(counters, 'task_sets_seen')} seen",
            f"{untold} too small or not eligible",
            f"{_cell(self.body, 'task_sets')} told to the planner",
            f"{_cell(counters, 'task_sets_held')} held",
        ]
        launched = [
            f"{_cell(counters, 'groups_launched')} groups launched",
            f"{_cell(counters, 'fallbacks')} task sets released without an answer",
            f"idle because of a hold: {_cell(self.body, 'idle_hold_s', is_time=True)}",
        ]
        mode = (
            f"dagopt, mode {_cell(self.body, 'mode')}: {len(self.decisions)} grouping decisions,"
            f" {len(self.gpu_stages)} forms of GPU operators"
        )
        return "\n".join([mode, ", ".join(parts), ", ".join(launched)])

    def _gpu_lines(self) -> list[str]:
        """One a GPU operator, with what the GPUs did in it, and what they did in all of them."""
        uses, shifts = self._entries("gpu_use"), self._entries("gpu_shifts")
        lines = []
        for one in self.gpu_stages:
            line = (
                f"GPU operator {_cell(one, 'id')}, {_cell(one, 'name')} of"
                f" {_cell(one, 'num_partitions')} partitions: {_cell(one, 'form')};"
                f" {_cell(one, 'reason')}"
            )
            shifted = [shift for shift in shifts if shift.get("id") == one.get("id")]
            if shifted:
                line += f"; {_shifts(shifted)}"
            own = [use for use in uses if use.get("id") == one.get("id")]
            lines.append(f"{line}; GPUs {_gpu_use(own)}" if own else line)
        if uses:
            lines.append(f"GPUs: {_gpu_use(uses)}")
        return lines

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False)
        for heading, field, is_time in _COLUMNS:
            numeric = is_time or field in {"num_tasks", "tasks_per_core"}
            table.add_column(
                heading,
                justify="right" if numeric else "left",
                overflow="ellipsis",
                no_wrap=True,
                max_width=40,
            )
        for decision in self.decisions:
            cells = [_stage(decision)]
            cells += [_cell(decision, field, is_time=is_time) for _, field, is_time in _COLUMNS[1:]]
            table.add_row(*cells)
        return table


def parse_report(text: str) -> Report:
    """The report that the driver's JVM answered with.

    Raises:
        BridgeError: the text is no JSON object.
    """
    try:
        body = json.loads(text)
    except ValueError as error:
        raise BridgeError(f"report of the driver: expected JSON, got {text[:80]!r}") from error
    if not isinstance(body, dict):
        raise BridgeError(f"report of the driver: expected a JSON object, got {text[:80]!r}")
    return Report(body=body)


def off_report(reason: str) -> Report:
    """The report of a session that dagopt was switched off for."""
    return Report(body={"mode": "off", "gate": {"off_reason": reason}})


def _stage(decision: Mapping[str, Any]) -> str:
    """``7`` or, where the stage was tried again, ``7.1``."""
    attempt = decision.get("attempt")
    stage = _cell(decision, "stage")
    return f"{stage}.{attempt}" if attempt else stage


def _gpu_use(uses: Sequence[Mapping[str, Any]]) -> str:
    """``allocated 4.0 s; busy 3.6 s, idle 0.4 s of 4.0 s in stages whose CPU operators ran apart``."""
    allocated_s, _ = _sums(uses)
    known = [use for use in uses if use.get("gpu_busy_s") is not None]
    if not known:
        return f"allocated {format_s(allocated_s)}"
    known_s, busy_s = _sums(known)
    return (
        f"allocated {format_s(allocated_s)}; busy {format_s(busy_s)}, idle"
        f" {format_s(max(0.0, known_s - busy_s))} of {format_s(known_s)} in stages whose CPU"
        " operators ran apart"
    )


def _shifts(shifts: Sequence[Mapping[str, Any]]) -> str:
    """``12 slices shifted to their CPU-only form, 1 taken back``."""
    actions = [shift.get("action") for shift in shifts]
    return (
        f"{actions.count('shift')} slices shifted to their CPU-only form,"
        f" {actions.count('take_back')} taken back"
    )


def _sums(uses: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Seconds that GPUs were allocated, and busy."""
    return (
        sum(float(use.get("gpu_allocated_s") or 0) for use in uses),
        sum(float(use.get("gpu_busy_s") or 0) for use in uses),
    )


def _cell(values: Mapping[str, Any], field: str, *, is_time: bool = False) -> str:
    value = values.get(field)
    if value is None:
        return "-"
    if is_time and isinstance(value, (int, float)) and not isinstance(value, bool):
        return format_s(value)
    return str(value)
