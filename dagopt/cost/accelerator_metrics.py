"""What each accelerator of a running job measured, and how far the prior of its synchronisation is off.

A record is one iteration on one accelerator. The last records of each are kept; the ratio of measured
to predicted synchronisation on the placements that they came from corrects predictions for others. An
accelerator that takes far longer for a micro-batch than the job's others is a straggler: all wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from statistics import median, median_low

from dagopt.errors import InputError
from dagopt.model.topology import Accelerator

KEPT = 16
"""Iterations remembered of each accelerator."""

STRAGGLER = 1.5
"""Times the usual one that a micro-batch takes on a straggler at least; what is below is noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationRecord:
    """One iteration of a job on one accelerator."""

    iteration: int
    compute_s: float
    """Seconds of computing, >= 0."""
    sync_s: float
    """Seconds of synchronising, once all were there, >= 0."""
    transfer_bytes: int
    """Bytes that it exchanged."""
    members: frozenset[Accelerator]
    """All accelerators that took part."""
    num_micro_batches: int = 1
    """That it computed, one after another, >= 1."""

    def __post_init__(self) -> None:
        if not (self.compute_s >= 0 and self.sync_s >= 0 and self.transfer_bytes >= 0):
            raise InputError(f"iteration {self.iteration}: a time or size is negative: {self}")
        if self.num_micro_batches < 1:
            raise InputError(f"iteration {self.iteration}: no micro-batch was computed: {self}")


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

    def among(self, accelerators: Collection[Accelerator]) -> AcceleratorMetrics:
        """Without the records of iterations in which others took part."""
        there = frozenset(accelerators)
        kept = {
            each: tuple(record for record in records if record.members <= there)
            for each, records in self.records.items()
        }
        return AcceleratorMetrics(records={each: left for each, left in kept.items() if left})

    def micro_batch_s(self) -> dict[Accelerator, float]:
        """Seconds that each computes for a micro-batch."""
        return {
            accelerator: median(each.compute_s / each.num_micro_batches for each in records)
            for accelerator, records in self.records.items()
        }

    def usual_s(self) -> float:
        """The same on an accelerator like most of the job's; 0 where nothing was measured."""
        return median_low(self.micro_batch_s().values()) if self.records else 0.0

    def slowness(self) -> dict[Accelerator, float]:
        """Of each straggler, how many times as long it computes as is usual."""
        usual_s = self.usual_s()
        return {
            accelerator: each_s / usual_s
            for accelerator, each_s in self.micro_batch_s().items()
            if usual_s > 0 and each_s >= STRAGGLER * usual_s
        }

    def correction(
        self, prior_s: Callable[[frozenset[Accelerator]], float], *, spans_hosts: bool
    ) -> float:
        """Measured over predicted synchronisation, the median of all records; 1 without any.

        Args:
            prior_s: predicted seconds of synchronising among members.
            spans_hosts: whether records of members on several hosts count, or those of one host: what a
                network does beyond its prior says nothing of the links of a host.
        """
        ratios = [
            record.sync_s / predicted_s
            for _, records in sorted(self.records.items())
            for record in records
            if spans_several(record.members) == spans_hosts
            and (predicted_s := prior_s(record.members)) > 0
        ]
        return median(ratios) if ratios else 1.0


def spans_several(members: Collection[Accelerator]) -> bool:
    """Whether accelerators are on several hosts."""
    return len({each.host for each in members}) > 1
