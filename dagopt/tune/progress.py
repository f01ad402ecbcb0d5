"""The display of a running sweep: on a terminal, and as a notebook shows it."""

from __future__ import annotations

import html
import math
import sys
import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from dagopt.model.trial import TrialGroup
from dagopt.tune.records import Records
from dagopt.units import format_s


class Display:
    """Trials, groups, best so far, merged share and predicted end; shown while it is entered.

    Args:
        records: of the sweep.
        num_trials: of the sweep.
        max_iterations: of a trial.
        minimizes: whether a lower loss is better.
        wanted: whether to show it on the terminal; None: if stderr is one.
    """

    def __init__(
        self,
        records: Records,
        num_trials: int,
        max_iterations: int,
        *,
        minimizes: bool,
        wanted: bool | None,
    ) -> None:
        self._records = records
        self._num_trials = num_trials
        self._max_iterations = max_iterations
        self._minimizes = minimizes
        self._groups: Sequence[TrialGroup] = ()
        self._began_s = time.monotonic()
        shown = sys.stderr.isatty() if wanted is None else wanted
        self._live = Live(console=Console(stderr=True), auto_refresh=False) if shown else None

    def __enter__(self) -> Display:  # noqa: PYI034  typing has Self from Python 3.11 on
        self._began_s = time.monotonic()
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, groups: Sequence[TrialGroup]) -> None:
        """Show how it stands after a phase of these groups."""
        self._groups = groups
        if self._live is not None:
            self._live.update(self.table(), refresh=True)

    def lines(self) -> list[tuple[str, str]]:
        """Names and values of what is shown."""
        trials = self._records.trials.values()
        ended = {
            status: sum(one.status == status for one in trials)
            for status in ("running", "complete", "pruned", "failed")
        }
        finite = [one for one in trials if one.loss is not None and math.isfinite(one.loss)]
        sign = 1 if self._minimizes else -1
        best = min(finite, key=lambda one: (sign * (one.loss or 0.0), one.number), default=None)
        done = sum(one.position for one in trials)
        merged = sum(one.num_merged for one in trials)
        told = ", ".join(f"{count} {status}" for status, count in ended.items() if count)
        lines = [
            ("trials", f"{told or 'none'} of {self._num_trials}"),
            ("groups", _groups_told(self._groups)),
            (
                "lowest loss" if self._minimizes else "highest loss",
                "none yet" if best is None else f"{best.loss:.6g}, trial {best.number}",
            ),
            ("merged", f"{merged / done:.0%} of {done} iterations" if done else "nothing yet"),
        ]
        left_s = self._left_s(done)
        if left_s is not None:
            lines.append(("ends in", format_s(left_s)))
        return lines

    def table(self) -> Table:
        """For a terminal."""
        table = Table(box=None, show_header=False)
        for name, value in self.lines():
            table.add_row(name, value)
        return table

    def html(self) -> str:
        """For a notebook."""
        return html_table(self.lines())

    def _left_s(self, done: int) -> float | None:
        running = self._records.running()
        asked = len(self._records.trials)
        left = sum(self._max_iterations - one.position for one in running)
        left += (self._num_trials - asked) * self._max_iterations
        if not done or not left:
            return None
        return (time.monotonic() - self._began_s) * left / done


def html_table(lines: Sequence[tuple[Any, ...]], header: Sequence[str] = ()) -> str:
    """A table with everything in it escaped."""

    def row(cells: Sequence[Any], tag: str) -> str:
        return (
            "<tr>" + "".join(f"<{tag}>{html.escape(str(one))}</{tag}>" for one in cells) + "</tr>"
        )

    head = row(header, "th") if header else ""
    return f"<table>{head}{''.join(row(line, 'td') for line in lines)}</table>"


def _groups_told(groups: Sequence[TrialGroup]) -> str:
    if not groups:
        return "trials are measured alone"
    modes: dict[str, int] = {}
    for group in groups:
        modes[group.request.mode] = modes.get(group.request.mode, 0) + 1
    return ", ".join(f"{count} {mode}" for mode, count in sorted(modes.items()))
