"""What was decided in a running application, as lines and tables of plain text.

The same for ``dagopt.report``, its page in a notebook, and the tab of Spark's user interface. All come
from the body of a report (``dagopt/spark/report.py`` lists its fields), which may be of another
release: what is missing there, or is of another type, is shown as "-".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dagopt.reporting.table import PageTable
from dagopt.units import format_s

Entry = Mapping[str, Any]

MAX_ROWS: Final = 100
"""Rows of one table, the newest of what there is."""

DECISION_COLUMNS: Final = (
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
"""Of the table of decisions: heading, field, whether it is seconds."""


def live_lines(body: Entry) -> list[str]:
    """What happened in all, or why dagopt is off, and what GPUs did."""
    uses = entries(body, "gpu_use")
    return [*summary(body), *([f"GPUs: {gpu_use(uses)}"] if uses else [])]


def live_tables(body: Entry) -> list[PageTable]:
    """What is held now, then groups, decisions and GPU operators, the newest of each first."""
    tables = (_held(body), _groups(body), _decisions(body), _gpu_operators(body))
    return [tables[0], *(table for table in tables[1:] if table.rows)]


def summary(body: Entry) -> list[str]:
    """Counts of decisions, task sets and holds; why it is off where it is."""
    gate = body.get("gate")
    counters = gate if isinstance(gate, dict) else {}
    if counters.get("off_reason"):
        return [f"dagopt is off: {counters['off_reason']}"]
    if body.get("error"):
        return [f"The planner could not make this report: {body['error']}"]
    seen, told = counters.get("task_sets_seen"), body.get("task_sets")
    untold = max(0, seen - told) if isinstance(seen, int) and isinstance(told, int) else "-"
    parts = [
        f"task sets: {cell(counters, 'task_sets_seen')} seen",
        f"{untold} too small or not eligible",
        f"{cell(body, 'task_sets')} told to the planner",
        f"{cell(counters, 'task_sets_held')} held",
    ]
    launched = [
        f"{cell(counters, 'groups_launched')} groups launched",
        f"{cell(counters, 'fallbacks')} task sets released without an answer",
        f"idle because of a hold: {cell(body, 'idle_hold_s', is_time=True)}",
    ]
    mode = (
        f"dagopt, mode {cell(body, 'mode')}: {_total(body, 'decisions')} grouping decisions,"
        f" {_total(body, 'gpu_stages')} forms of GPU operators"
    )
    lines = [mode, ", ".join(parts), ", ".join(launched)]
    if body.get("no_extension"):
        lines.append(f"GPU operators are left to Spark: {body['no_extension']}")
    return lines


def gpu_use(uses: Sequence[Entry]) -> str:
    """``allocated 4.0 s; busy 3.6 s, idle 0.4 s of 4.0 s in stages whose CPU operators ran apart``."""
    allocated_s, _ = _gpu_sums(uses)
    known = _known(uses)
    if not known:
        return f"allocated {format_s(allocated_s)}"
    known_s, busy_s = _gpu_sums(known)
    return (
        f"allocated {format_s(allocated_s)}; busy {format_s(busy_s)}, idle"
        f" {format_s(max(0.0, known_s - busy_s))} of {format_s(known_s)} in stages whose CPU"
        " operators ran apart"
    )


def shifted(shifts: Sequence[Entry]) -> str:
    """``12 slices shifted to their CPU-only form, 1 taken back``."""
    actions = [shift.get("action") for shift in shifts]
    return (
        f"{actions.count('shift')} slices shifted to their CPU-only form,"
        f" {actions.count('take_back')} taken back"
    )


def of_operator(found: Sequence[Entry], operator: Entry) -> list[Entry]:
    """Those of the entries that belong to one GPU operator."""
    return [one for one in found if one.get("id") == operator.get("id")]


def entries(body: Entry, field: str) -> Sequence[Entry]:
    """The objects of a list, none where it is no list."""
    found = body.get(field)
    if not isinstance(found, list):
        return ()
    return [entry for entry in found if isinstance(entry, dict)]


def stage_cell(entry: Entry) -> str:
    """``7`` or, where the stage was tried again, ``7.1``."""
    attempt = entry.get("attempt")
    stage = cell(entry, "stage")
    return f"{stage}.{attempt}" if attempt else stage


def cell(values: Entry, field: str, *, is_time: bool = False) -> str:
    """A field as text."""
    value = values.get(field)
    if value is None:
        return "-"
    if is_time and (seconds := number(value)) is not None:
        return format_s(seconds)
    return str(value)


def number(value: Any) -> float | None:
    """The value, if it is a number."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number else None


# Private functions


def _by_operator(found: Sequence[Entry]) -> Mapping[str, Sequence[Entry]]:
    by_id: dict[str, list[Entry]] = {}
    for entry in found:
        by_id.setdefault(cell(entry, "id"), []).append(entry)
    return by_id


def _known(uses: Sequence[Entry]) -> list[Entry]:
    return [use for use in uses if use.get("gpu_busy_s") is not None]


def _gpu_sums(uses: Sequence[Entry]) -> tuple[float, float]:
    """Seconds that GPUs were allocated, and busy."""
    return (
        sum(number(use.get("gpu_allocated_s")) or 0.0 for use in uses),
        sum(number(use.get("gpu_busy_s")) or 0.0 for use in uses),
    )


def _newest(found: Sequence[Entry]) -> Sequence[Entry]:
    return list(reversed(found[-MAX_ROWS:]))


def _total(body: Entry, field: str) -> int:
    """How many there are of which the list holds the newest."""
    totals = body.get("totals")
    total = totals.get(field) if isinstance(totals, dict) else None
    return total if isinstance(total, int) else len(entries(body, field))


def _note(body: Entry, field: str, what: str) -> str:
    total = _total(body, field)
    return f"The last {MAX_ROWS} of {total} {what}." if total > MAX_ROWS else ""


def _span(entry: Entry, since: str, until: str) -> str:
    """Seconds between two fields."""
    start_s, end_s = number(entry.get(since)), number(entry.get(until))
    return "-" if start_s is None or end_s is None else format_s(max(0.0, end_s - start_s))


def _held(body: Entry) -> PageTable:
    found = entries(body, "held")[-MAX_ROWS:]
    rows = tuple(
        (
            stage_cell(entry),
            cell(entry, "name"),
            cell(entry, "num_tasks"),
            cell(entry, "num_held"),
            cell(entry, "num_delayed_groups"),
            _span({**entry, "now": body.get("time_s")}, "now", "next_launch_s"),
        )
        for entry in found
    )
    return PageTable(
        heading="Held now",
        columns=("stage", "name", "tasks", "held", "groups under a delay", "next launch in"),
        rows=rows,
        note=_note(body, "held", "stages") if rows else "No task is held.",
    )


def _groups(body: Entry) -> PageTable:
    found = entries(body, "groups")
    return PageTable(
        heading="Task groups",
        columns=("stage", "group", "executor", "host", "tasks", "reads from", "delay"),
        rows=tuple(
            (
                stage_cell(entry),
                cell(entry, "group"),
                cell(entry, "executor"),
                cell(entry, "host"),
                cell(entry, "num_tasks"),
                cell(entry, "input_host_set"),
                _span(entry, "formed_s", "launch_s"),
            )
            for entry in _newest(found)
        ),
        note=_note(body, "groups", "groups"),
    )


def _decisions(body: Entry) -> PageTable:
    found = entries(body, "decisions")
    return PageTable(
        heading="Decisions",
        columns=(*(heading for heading, *_ in DECISION_COLUMNS), "reason"),
        rows=tuple(
            (
                stage_cell(entry),
                *(
                    cell(entry, field, is_time=is_time)
                    for _, field, is_time in DECISION_COLUMNS[1:]
                ),
                cell(entry, "reason"),
            )
            for entry in _newest(found)
        ),
        note=_note(body, "decisions", "decisions"),
    )


def _gpu_operators(body: Entry) -> PageTable:
    found, uses = entries(body, "gpu_stages"), _by_operator(entries(body, "gpu_use"))
    shifts = _by_operator(entries(body, "gpu_shifts"))
    rows = []
    for entry in _newest(found):
        own = uses.get(cell(entry, "id"), ())
        allocated_s, _ = _gpu_sums(own)
        known_s, busy_s = _gpu_sums(_known(own))
        is_known = bool(_known(own))
        own_shifts = shifts.get(cell(entry, "id"), ())
        reason = cell(entry, "reason")
        rows.append(
            (
                cell(entry, "id"),
                cell(entry, "name"),
                cell(entry, "num_partitions"),
                cell(entry, "form"),
                format_s(allocated_s) if own else "-",
                format_s(busy_s) if is_known else "-",
                format_s(max(0.0, known_s - busy_s)) if is_known else "-",
                f"{reason}; {shifted(own_shifts)}" if own_shifts else reason,
            )
        )
    return PageTable(
        heading="GPU operators",
        columns=(
            "operator", "name", "partitions", "form", "GPU allocated", "GPU busy", "GPU idle", "reason",
        ),
        rows=tuple(rows),
        note=_note(body, "gpu_stages", "operators"),
    )  # fmt: skip
