"""What each accelerator of a running job measured, and how far the prior of its synchronisation is off.

A record is one iteration on one accelerator. The last records of each are kept; the ratio of measured
to predicted synchronisation on the placements that they came from corrects predictions for others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median

from dagopt.errors import InputError
from dagopt.model.topology import Accelerator

KEPT = 16
"""Iterations remembered of each accelerator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationRecord:
    """One iteration of a job on one accelerator."""

    iteration: int
    compute_s: float
    """Seconds of computing, >= 0."""
    sync_s: float
    """Seconds of synchronising with the others, >= 0."""
    transfer_bytes: int
    """Bytes that it exchanged."""
    members: frozenset[Accelerator]
    """All accelerators that took part."""

    def __post_init__(self) -> None:
        if not (self.compute_s >= 0 and self.sync_s >= 0 and self.transfer_bytes >= 0):
            raise InputError(f"iteration {self.iteration}: a time or size is negative: {self}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorMetrics:
    """The last records of each accelerator of a job."""

    records: Mapping[Accelerator, tuple[IterationRecord, ...]] = field(default_factory=dict)

    def recorded(self, accelerator: Accelerator, record: IterationRecord) -> AcceleratorMetrics:
        """These metrics with one record more.

        Raises:
            InputError: the accelerator is not among the record's members.
        """
        if accelerator not in record.members:
            raise InputError(f"{accelerator} took no part in iteration {record.iteration}")
        kept = (*self.records.get(accelerator, ()), record)[-KEPT:]
        return AcceleratorMetrics(records={**self.records, accelerator: kept})

    def correction(self, prior_s: Callable[[frozenset[Accelerator]], float]) -> float:
        """Measured over predicted synchronisation, the median of all records; 1 without any.

        Args:
            prior_s: predicted seconds of synchronising among members.
        """
        ratios = [
            record.sync_s / predicted_s
            for _, records in sorted(self.records.items())
            for record in records
            if (predicted_s := prior_s(record.members)) > 0
        ]
        return median(ratios) if ratios else 1.0
