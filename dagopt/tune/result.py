"""What a sweep found: trials, metrics of each iteration, the best one, and its timeline."""

from __future__ import annotations

import pickle
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dagopt.errors import InputError
from dagopt.model.trial import IterationMetrics
from dagopt.tune.checkpoint import Store
from dagopt.tune.page import sweep_page
from dagopt.tune.progress import html_table
from dagopt.tune.records import PhaseRecord, Records, TrialRecord, TrialResult
from dagopt.tune.search import Search
from dagopt.units import format_bytes, format_s


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """A sweep that has ended."""

    trials: tuple[TrialResult, ...]
    phases: tuple[PhaseRecord, ...]
    """Each group in each phase."""
    best: TrialResult | None
    """With the best last loss; None where no trial completed."""
    best_state: Any
    """Its state after the last iteration."""
    elapsed_s: float
    not_stackable: str
    """Why nothing was stacked, where a stacked step was found to be wrong."""
    records: tuple[TrialRecord, ...]
    minimizes: bool
    """Whether a lower loss is better."""
    metric: str
    """Which of the step's metrics the losses are."""

    @classmethod
    def of(
        cls, records: Records, search: Search, store: Store, *, elapsed_s: float, metric: str
    ) -> SweepResult:
        """From what is known at the end."""
        best = records.best(minimizes=search.minimizes)
        state = None
        if best is not None:
            state = pickle.loads(store.read(best.file))[best.number]  # noqa: S301  ours
        every = tuple(one for _, one in sorted(records.trials.items()))
        return cls(
            trials=tuple(map(_result, every)),
            phases=tuple(records.phases),
            best=None if best is None else _result(best),
            best_state=state,
            elapsed_s=elapsed_s,
            not_stackable="; ".join(sorted(set(records.not_stackable.values()))),
            records=every,
            minimizes=search.minimizes,
            metric=metric,
        )

    @property
    def merged_fraction(self) -> float:
        """Share of all iterations that ran in groups of several, 0 to 1."""
        done = sum(len(one.losses) for one in self.trials)
        return sum(one.num_merged for one in self.trials) / done if done else 0.0

    def metrics(self) -> list[IterationMetrics]:
        """Of every trial and iteration, in order."""
        return [each for record in self.records for each in record.metrics()]

    def to_dict(self) -> dict[str, Any]:
        """Trials and phases, as JSON takes them."""
        return {
            "trials": [asdict(one) for one in self.trials],
            "phases": [asdict(one) for one in self.phases],
            "best": None if self.best is None else self.best.number,
            "elapsed_s": self.elapsed_s,
            "merged_fraction": self.merged_fraction,
        }

    def summary(self) -> str:
        """One sentence."""
        ends = {
            status: sum(one.status == status for one in self.trials)
            for status in ("complete", "pruned", "failed")
        }
        told = ", ".join(f"{count} {status}" for status, count in ends.items() if count)
        best = (
            "no trial completed"
            if self.best is None
            else f"best is trial {self.best.number} with {self.metric} {self.best.losses[-1]:.6g}"
        )
        return (
            f"{told} in {format_s(self.elapsed_s)}; {best};"
            f" {self.merged_fraction:.0%} of the iterations merged"
        )

    def to_html(self, path: str | Path, *, force: bool = False) -> Path:
        """Write a page that opens offline: the timeline of the groups, their modes and why, all trials.

        Raises:
            InputError: the file exists, and ``force`` is not given.
        """
        target = Path(path)
        if target.exists() and not force:
            raise InputError(f"{target} exists; force=True overwrites")
        target.write_text(sweep_page(self.summary(), self.phases, self.trials), encoding="utf-8")
        return target

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        rows = [
            (one.number, one.status, "" if one.loss is None else f"{one.loss:.6g}", one.params)
            for one in sorted(self.trials, key=self._rank)[:20]
        ]
        groups = [
            (one.phase, one.mode, len(one.trials), format_bytes(one.peak_bytes), one.reason)
            for one in self.phases
        ]
        return (
            html_table([(self.summary(),)])
            + html_table(rows, ("trial", "status", self.metric, "parameters"))
            + html_table(groups, ("phase", "mode", "trials", "peak", "why"))
        )

    def _rank(self, one: TrialResult) -> tuple[bool, float, int]:
        broken = one.status != "complete"
        sign = 1 if self.minimizes else -1
        return broken, 0.0 if broken else sign * one.losses[-1], one.number


def _result(record: TrialRecord) -> TrialResult:
    return TrialResult(
        number=record.number,
        params=record.params,
        status=record.status,
        losses=tuple(record.losses),
        error=record.error,
        num_merged=record.num_merged,
    )
