"""What an identity shuffle between a CPU part and a GPU part costs.

The shuffle keeps every row in its partition, so each partition is written by one task and read by
one. A writing task serialises its bytes and shares its host's disk with the others that write
there; a reading task takes them off the disk of the host that wrote them, over the network where
that is another host, and deserialises them. The reading tasks are tasks more than the fused stage
has, so each is launched, and the two stages meet once at a barrier.

    write   = bytes / serialise rate + bytes / (disk rate / writers on a host)
    read    = bytes / serialise rate + bytes / (disk rate / readers on a host)
            + bytes * (1 - local fraction) / (network rate / readers on a host)
    elapsed = waves of writers * write + waves of readers * (read + launch) + stage overhead

Not modelled: compression other than through the measured corrections, spilling, and a penalty for
smaller GPU batches. There is none to model: partitions, their rows and so the batches that a GPU
task makes of them are those of the fused stage.

Source: the effects are ours; the US patent text of the family "cluster GPU sharing by DAG
generation", claim 2, says that shuffle effects are evaluated and is cut before naming them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from dagopt.cost.bandwidth import DISK_BYTES_PER_S, LINK_WEIGHT, MAX_STEP, NETWORK_BYTES_PER_S
from dagopt.errors import InputError
from dagopt.model.pipeline import Slots
from dagopt.units import format_s

Side: TypeAlias = Literal["before", "after"]
"""Whether a shuffle stands before or after the GPU part."""

Measured: TypeAlias = Literal["write", "read", "launch"]
"""What Spark's task metrics show of a shuffle: writing, reading, and all that is neither."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleRates:
    """Priors for the effects of an inserted shuffle, and what was measured of them since."""

    serialise_bytes_per_s: float = 300 * 2**20
    """Of one core, to rows and compressed blocks or back, > 0."""

    disk_bytes_per_s: float = DISK_BYTES_PER_S
    """Of one host, shared by the tasks on it, > 0."""

    reread_bytes_per_s: float | None = None
    """Of one host, of what it wrote moments ago, shared likewise, > 0; None where that is off its disks."""

    network_bytes_per_s: float = NETWORK_BYTES_PER_S
    """Of one host's link, shared by the tasks on it, > 0."""

    launch_s: float = 0.02
    """Seconds from a free slot to a running task, and from its end to a free slot, >= 0."""

    stage_s: float = 0.1
    """Seconds from the end of a stage to the first task of the next, >= 0."""

    local_fraction: float | None = None
    """Share of the bytes that were read on the host that wrote them; None until it was measured:
    then every host with a GPU is taken to read its own, and hosts to share the GPUs evenly."""

    learned: Mapping[Measured, float] = field(default_factory=dict)
    """What measured seconds were over those of the priors, each > 0."""

    def __post_init__(self) -> None:
        for name in ("serialise_bytes_per_s", "disk_bytes_per_s", "network_bytes_per_s"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} is {getattr(self, name)}, must be > 0")
        if self.reread_bytes_per_s is not None and not self.reread_bytes_per_s > 0:
            raise InputError(f"reread_bytes_per_s is {self.reread_bytes_per_s}, must be > 0")
        for name in ("launch_s", "stage_s"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(f"{name} is {getattr(self, name)}, must be >= 0 and finite")
        if self.local_fraction is not None and not 0 <= self.local_fraction <= 1:
            raise InputError(f"local_fraction is {self.local_fraction}, must be 0 to 1")

    def observed(self, what: Measured, predicted_s: float, measured_s: float) -> ShuffleRates:
        """Rates after a stage that wrote or read an inserted shuffle.

        The first observation replaces the prior outright, later ones are a moving average with
        bounded steps, as for :class:`dagopt.cost.bandwidth.Bandwidths`.

        Args:
            what: the part of a task that was measured.
            predicted_s: mean seconds that these rates said it would take.
            measured_s: mean seconds that it took.
        """
        if not (0 < predicted_s < math.inf and 0 < measured_s < math.inf):
            return self
        factor = measured_s / predicted_s
        known = self.learned.get(what)
        if known is None:
            factor_now = factor
        else:
            step = 1 + LINK_WEIGHT * (factor - 1)
            factor_now = known * min(max(step, 1 / MAX_STEP), MAX_STEP)
        return replace(self, learned={**self.learned, what: factor_now})

    def observed_locality(self, local_bytes: float, all_bytes: float) -> ShuffleRates:
        """Rates after a stage that read ``local_bytes`` of ``all_bytes`` on the writing host."""
        if not 0 <= local_bytes <= all_bytes or all_bytes == 0:
            return self
        seen = local_bytes / all_bytes
        if self.local_fraction is not None:
            seen = self.local_fraction + LINK_WEIGHT * (seen - self.local_fraction)
        return replace(self, local_fraction=seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleCost:
    """One inserted shuffle: what it adds to each task, and what that comes to in a whole stage."""

    write_s: float
    """Seconds that each task in front of it takes longer."""

    read_s: float
    """Seconds that each task behind it reads."""

    launch_s: float
    """Seconds that the launch of each task behind it takes."""

    serialise_s: float
    """Seconds that the two stages take longer, one after the other, by serialisation."""

    disk_s: float
    """... by the disks of the hosts."""

    network_s: float
    """... by partitions that are read on another host."""

    launches_s: float
    """... by the launches of the tasks behind it."""

    stage_s: float
    """... by the barrier between them."""

    @property
    def reading_task_s(self) -> float:
        """Seconds of each task behind the shuffle before its first operator runs."""
        return self.read_s + self.launch_s

    @property
    def total_s(self) -> float:
        """Seconds that the shuffle adds when one stage runs after the other."""
        return self.serialise_s + self.disk_s + self.network_s + self.launches_s + self.stage_s

    def __str__(self) -> str:
        return (
            f"{format_s(self.total_s)} (serialising {format_s(self.serialise_s)},"
            f" disk {format_s(self.disk_s)}, network {format_s(self.network_s)},"
            f" launches {format_s(self.launches_s)}, barrier {format_s(self.stage_s)})"
        )


def shuffle_cost(
    side: Side, num_partitions: int, partition_bytes: float, slots: Slots, rates: ShuffleRates
) -> ShuffleCost:
    """Cost of one inserted identity shuffle.

    Args:
        side: CPU tasks write and GPU tasks read a shuffle ``before`` the GPU part; ``after`` it is
            the other way round.
        num_partitions: N, >= 0.
        partition_bytes: mean bytes of a partition, >= 0.
        slots: what both stages run on.
        rates: as known now.

    Raises:
        InputError: a number is negative or not finite.
    """
    if num_partitions < 0 or not 0 <= partition_bytes < math.inf:
        raise InputError(
            f"num_partitions {num_partitions} and partition_bytes {partition_bytes}"
            " must be >= 0 and finite"
        )
    cpu_tasks, gpu_tasks = slots.cores, slots.gpu_tasks
    writers, readers = (cpu_tasks, gpu_tasks) if side == "before" else (gpu_tasks, cpu_tasks)
    write_factor = rates.learned.get("write", 1.0)
    read_factor = rates.learned.get("read", 1.0)
    launch_s = rates.launch_s * rates.learned.get("launch", 1.0)
    serialise_s = partition_bytes / rates.serialise_bytes_per_s
    disk_s = partition_bytes / rates.disk_bytes_per_s
    remote_bytes = partition_bytes * (1 - _local_fraction(slots, rates))
    network_s = remote_bytes / rates.network_bytes_per_s

    readers_on_host = _on_one_host(readers, num_partitions, slots)
    write_disk_s = disk_s * _on_one_host(writers, num_partitions, slots)
    reread_s = partition_bytes / (rates.reread_bytes_per_s or rates.disk_bytes_per_s)
    read_disk_s, read_network_s = reread_s * readers_on_host, network_s * readers_on_host
    write_waves = write_factor * math.ceil(num_partitions / writers)
    read_waves = math.ceil(num_partitions / readers)
    return ShuffleCost(
        write_s=write_factor * (serialise_s + write_disk_s),
        read_s=read_factor * (serialise_s + read_disk_s + read_network_s),
        launch_s=launch_s,
        serialise_s=(write_waves + read_factor * read_waves) * serialise_s,
        disk_s=write_waves * write_disk_s + read_factor * read_waves * read_disk_s,
        network_s=read_factor * read_waves * read_network_s,
        launches_s=read_waves * launch_s,
        stage_s=rates.stage_s,
    )


def _local_fraction(slots: Slots, rates: ShuffleRates) -> float:
    if rates.local_fraction is not None:
        return rates.local_fraction
    return min(slots.gpus, slots.num_hosts) / slots.num_hosts


def _on_one_host(tasks: int, num_partitions: int, slots: Slots) -> float:
    """Tasks of a stage that share a host's disk or link."""
    return max(1.0, min(tasks, num_partitions) / slots.num_hosts)
