"""Which trials may be merged: those whose metrics of several iterations say how much they need.

Source: US patent text of the family "job merging for hyperparameter tuning", claim 1 (candidates by
the footprint of each current and previous iteration). The thresholds are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dagopt.errors import InputError
from dagopt.model.trial import IterationMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateRules:
    """When a trial is a candidate."""

    min_iterations: int = 3
    """Iterations that must have been measured, >= 1: before that nothing is merged."""

    max_spread_fraction: float = 0.05
    """Largest difference of the footprints of these iterations, as a share of the largest."""

    min_spread_bytes: int = 2**16
    """A smaller difference is what an interpreter allocates now and then."""

    max_utilisation_fraction: float = 1.0
    """Above this its accelerator has no time for others, 0 to 1. The default lets all in: a CPU
    slot is always busy, and stacking saves calls there."""

    def __post_init__(self) -> None:
        if self.min_iterations < 1:
            raise InputError(f"min_iterations is {self.min_iterations}, must be >= 1")
        for name in ("max_spread_fraction", "max_utilisation_fraction"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} is {getattr(self, name)}, must be 0 to 1")


def not_yet(
    metrics: Sequence[IterationMetrics], peaks_bytes: Sequence[int], rules: CandidateRules
) -> str:
    """Why a trial may not be merged now; empty where it may.

    Args:
        metrics: of its last iterations, the oldest first.
        peaks_bytes: its footprint at the current and at previous iterations, the oldest first.
        rules: the thresholds.
    """
    last = metrics[-rules.min_iterations :]
    if len(last) < rules.min_iterations:
        return f"{len(last)} of {rules.min_iterations} iterations measured"
    peaks = peaks_bytes[-rules.min_iterations :]
    spread_bytes = max(peaks, default=0) - min(peaks, default=0)
    allowed_bytes = rules.max_spread_fraction * max(peaks, default=0)
    if spread_bytes > max(allowed_bytes, rules.min_spread_bytes):
        return f"its footprint still moves by {spread_bytes / max(peaks):.0%}"
    busy = sum(each.utilisation_fraction for each in last) / len(last)
    if busy > rules.max_utilisation_fraction:
        return f"it uses {busy:.0%} of its accelerator by itself"
    return ""


def candidates(
    cache: Mapping[int, Sequence[IterationMetrics]], rules: CandidateRules
) -> tuple[int, ...]:
    """Numbers of the trials in a cache of metrics that may be merged, in order."""
    return tuple(
        trial
        for trial, metrics in sorted(cache.items())
        if not not_yet(metrics, [each.peak_bytes for each in metrics], rules)
    )
