"""How long one training step takes, by local batch, number of replicas and hosts.

Computing grows linearly with the local batch. The network's time grows linearly with the replicas, and
with the hosts where there are several: within a host and between hosts it has coefficients of its own.
Both overlap to some degree: the step takes their ``overlap``-norm, from a sum at 1 to a maximum at large
values. Accumulated batches compute and do not synchronise.

The first coefficients come from :func:`prior`, the links' all-reduce time; measured steps replace them
(:mod:`dagopt.cost.fit_steps`). Arrays of jobs go through in one call, since a scheduler asks for all of
them at once. Stragglers and contention between jobs are not modelled.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dagopt.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Coefficients of one job's step time; all in seconds but the last, and all >= 0."""

    compute_s: float
    """Part of a step that does not depend on the batch."""
    example_s: float
    """More, for each example of the local batch."""
    local_s: float = 0.0
    """Network time of two replicas on one host."""
    local_replica_s: float = 0.0
    """More, for each replica beyond two."""
    remote_s: float = 0.0
    """Network time of two replicas on two hosts."""
    remote_replica_s: float = 0.0
    """More, for each replica beyond two."""
    remote_host_s: float = 0.0
    """More, for each host beyond two."""
    overlap: float = 1.0
    """At least 1: how much computing and synchronising go on at the same time."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            least = 1.0 if each.name == "overlap" else 0.0
            if not least <= value < float("inf"):
                raise InputError(f"{each.name} is {value}, must be >= {least:g}")

    def row(self) -> tuple[float, ...]:
        """The coefficients in the order of :data:`COLUMNS`."""
        return astuple(self)


COLUMNS = tuple(each.name for each in fields(StepTime))
"""Order of the last axis of arrays of coefficients."""


def network_s(
    coefficients: NDArray[np.float64], num_hosts: ArrayLike, num_replicas: ArrayLike
) -> NDArray[np.float64]:
    """Seconds of synchronising once, before anything of it is hidden behind computing.

    Args:
        coefficients: ``(..., 8)``, columns as in :data:`COLUMNS`.
        num_hosts: hosts that the replicas are on, broadcast against the leading axes.
        num_replicas: replicas, >= hosts >= 1.
    """
    hosts, replicas = np.asarray(num_hosts), np.asarray(num_replicas)
    beyond = np.maximum(replicas - 2, 0)
    local = coefficients[..., 2] + coefficients[..., 3] * beyond
    remote = (
        coefficients[..., 4]
        + coefficients[..., 5] * beyond
        + coefficients[..., 6] * np.maximum(hosts - 2, 0)
    )
    found: NDArray[np.float64] = np.where(hosts > 1, remote, np.where(replicas > 1, local, 0.0))
    return found


def compute_s(coefficients: NDArray[np.float64], local_batch: ArrayLike) -> NDArray[np.float64]:
    """Seconds of computing on one local batch; shapes as for :func:`network_s`."""
    found: NDArray[np.float64] = coefficients[..., 0] + coefficients[..., 1] * np.asarray(
        local_batch
    )
    return found


def step_s(
    coefficients: NDArray[np.float64],
    num_hosts: ArrayLike,
    num_replicas: ArrayLike,
    local_batch: ArrayLike,
    num_accumulated: ArrayLike = 0,
) -> NDArray[np.float64]:
    """Seconds of one step: accumulated batches, then one that is synchronised.

    Args:
        coefficients: ``(..., 8)``, columns as in :data:`COLUMNS`.
        num_hosts: broadcast against the leading axes, as are all that follow.
        num_replicas: >= hosts >= 1.
        local_batch: examples that a replica computes at a time.
        num_accumulated: batches computed before the one that is synchronised, >= 0.

    Source:
        The shape of the model is that of A. Qiao et al., "Pollux", OSDI 2021, section 3.2; the term
        for hosts is ours.
    """
    computing = compute_s(coefficients, local_batch)
    network = network_s(coefficients, num_hosts, num_replicas)
    power = coefficients[..., 7]
    larger = np.maximum(computing, network)
    # Scaled by the larger of both, or high powers of small times would vanish.
    safe = np.where(larger > 0, larger, 1.0)
    joined = larger * ((computing / safe) ** power + (network / safe) ** power) ** (1 / power)
    found: NDArray[np.float64] = joined + computing * np.asarray(num_accumulated)
    return found


def prior(
    *,
    compute_s: float,
    example_s: float,
    gradient_bytes: float,
    local_bandwidth_bytes_per_s: float,
    remote_bandwidth_bytes_per_s: float,
    local_latency_s: float = 0.0,
    remote_latency_s: float = 0.0,
    max_replicas: int = 16,
) -> StepTime:
    """What to believe of a job of which only computing was measured: a ring over the slowest link.

    The ring's time, ``2(n-1)/n`` times bytes over bandwidth, is drawn as a line through its values at 2
    and at ``max_replicas`` replicas, without overlap.
    """

    def line(bandwidth: float, latency: float) -> tuple[float, float]:
        def ring(n: int) -> float:
            return 2 * (n - 1) / n * gradient_bytes / bandwidth + 2 * (n - 1) * latency

        return ring(2), (ring(max_replicas) - ring(2)) / max(1, max_replicas - 2)

    local_s, local_replica_s = line(local_bandwidth_bytes_per_s, local_latency_s)
    remote_s, remote_replica_s = line(remote_bandwidth_bytes_per_s, remote_latency_s)
    return StepTime(
        compute_s=compute_s,
        example_s=example_s,
        local_s=local_s,
        local_replica_s=local_replica_s,
        remote_s=remote_s,
        remote_replica_s=remote_replica_s,
    )
