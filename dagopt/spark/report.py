"""What dagopt decided in a live session, as text, JSON and HTML.

The planner sends one JSON object with the driver's counters in it. A planner may know more or less
than this release, so a missing field is shown as "-", and fields not known here still are in
:meth:`Report.to_dict`. The fields of the object:

================  =================================================================================
``mode``          ``off``, ``explain`` or ``on``
``conf``          the ``spark.dagopt.*`` keys that are set
``error``         why the planner could not make the report, where it could not
``time_s``        when it was asked for, in seconds since 1970
``totals``        how many ``decisions``, ``held``, ``groups`` and ``gpu_stages`` there are, where the lists
                  have only the newest
``decisions``     the last 1,000, each with the fields of :class:`dagopt.model.decision.Decision`; a
                  line of ``spark.dagopt.decisionLog`` is one of them
``held``          stages of which tasks are held now: ``num_tasks``, ``num_held``, ``num_delayed_groups``,
                  and ``next_launch_s``, when the first of these delays ends
``groups``        the last 1,000 task groups: ``stage``, ``attempt``, ``group``, ``executor``, ``host``,
                  ``input_host_set``, ``num_tasks``, ``tasks`` (indexes in the stage), ``formed_s`` and ``launch_s``, between which
                  they are delayed, in seconds since 1970
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
``no_extension``  why GPU operators are left to Spark where ``spark.sql.extensions`` lacks dagopt's
================  =================================================================================
"""

from __future__ import annotations

import html
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from dagopt.errors import BridgeError
from dagopt.reporting.live import (
    DECISION_COLUMNS,
    cell,
    entries,
    gpu_use,
    of_operator,
    shifted,
    stage_cell,
    summary,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Report:
    """The decisions of one session so far, each with its reason."""

    body: Mapping[str, Any]
    """What the planner and the driver said, as JSON gives it."""

    take_timeline: Callable[[], Mapping[str, Any]] = dict
    """Gives :attr:`timeline`."""

    @property
    def timeline(self) -> Mapping[str, Any]:
        """When and where tasks ran, as Timeline.scala tells it; for the page, and not in the JSON.

        It is asked for when it is first needed, and empty once the session was stopped.
        """
        return self.take_timeline()

    @property
    def decisions(self) -> Sequence[Mapping[str, Any]]:
        """One entry a decision, in the order in which they were taken."""
        return entries(self.body, "decisions")

    @property
    def gpu_stages(self) -> Sequence[Mapping[str, Any]]:
        """The form of each GPU stage, in the order in which they were asked for."""
        return entries(self.body, "gpu_stages")

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values; changing them changes no report."""
        copied: dict[str, Any] = json.loads(self.to_json())
        return copied

    def to_json(self) -> str:
        """Everything, as one line of JSON with sorted keys."""
        return json.dumps(self.body, sort_keys=True)

    def to_html(self) -> str:
        """A page of its own that opens offline: timeline, holds, groups, decisions, GPUs; some MB."""
        # jinja2 and plotly are slow to import, and the text needs neither.
        from dagopt.reporting.page import render  # noqa: PLC0415
        from dagopt.spark.live_page import live_page  # noqa: PLC0415

        return render(live_page(self.body, self.timeline))

    def __str__(self) -> str:
        return self.render(width=120)

    def __repr__(self) -> str:
        return str(self)

    def render(self, *, width: int) -> str:
        """The report as plain text of that many columns."""
        console = Console(
            file=io.StringIO(), width=width, color_system=None, highlight=False, markup=False
        )
        for line in summary(self.body):
            console.print(line, soft_wrap=True)
        if self.decisions:
            console.print(self._table())
            for decision in self.decisions:
                console.print(f"{stage_cell(decision)}: {cell(decision, 'reason')}", soft_wrap=True)
        for line in self._gpu_lines():
            console.print(line, soft_wrap=True)
        text = console.file.getvalue() if isinstance(console.file, io.StringIO) else ""
        return "\n".join(line.rstrip() for line in text.splitlines())

    def _repr_html_(self) -> str:
        """What a notebook shows: the page in a frame, so that neither can harm the other, and the text."""
        # Without allow-same-origin the frame cannot reach the notebook, whatever is in it.
        return (
            f'<iframe sandbox="allow-scripts" srcdoc="{html.escape(self.to_html())}"'
            ' style="width: 100%; height: 50rem; border: 0"></iframe>'
            f"<details><summary>as text</summary><pre>{html.escape(str(self))}</pre></details>"
        )

    def _gpu_lines(self) -> list[str]:
        """One a GPU operator, with what the GPUs did in it, and what they did in all of them."""
        uses, shifts = entries(self.body, "gpu_use"), entries(self.body, "gpu_shifts")
        lines = []
        for one in self.gpu_stages:
            line = (
                f"GPU operator {cell(one, 'id')}, {cell(one, 'name')} of"
                f" {cell(one, 'num_partitions')} partitions: {cell(one, 'form')};"
                f" {cell(one, 'reason')}"
            )
            if own_shifts := of_operator(shifts, one):
                line += f"; {shifted(own_shifts)}"
            own = of_operator(uses, one)
            lines.append(f"{line}; GPUs {gpu_use(own)}" if own else line)
        if uses:
            lines.append(f"GPUs: {gpu_use(uses)}")
        return lines

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False)
        for heading, name, is_time in DECISION_COLUMNS:
            numeric = is_time or name in {"num_tasks", "tasks_per_core"}
            table.add_column(
                heading,
                justify="right" if numeric else "left",
                overflow="ellipsis",
                no_wrap=True,
                max_width=40,
            )
        for decision in self.decisions:
            cells = [stage_cell(decision)]
            cells += [
                cell(decision, name, is_time=is_time) for _, name, is_time in DECISION_COLUMNS[1:]
            ]
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
