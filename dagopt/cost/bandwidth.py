"""How fast a host reads from its own disks and over the network.

Priors come from the configuration. What finished task groups show replaces them: the first
observation of a pair of networks outright, later ones as a moving average, so that a wrong prior
costs one group and a noisy link does not swing the plan. Not modelled: several links between two
networks, and traffic of other applications other than by what it does to the observations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from dagopt.errors import InputError
from dagopt.model.network import NetworkId

NETWORK_BYTES_PER_S = 125 * 2**20
"""What a host's link is taken to carry where nobody says."""

DISK_BYTES_PER_S = 200 * 2**20
"""... and what its disks are taken to read."""

CACHED_BYTES_PER_S = 2 * 2**30
"""... and what it is taken to read of a file that it wrote moments ago, from its memory."""

LINK_WEIGHT = 0.3
"""Weight of one more observation against all earlier ones of the pair."""

MAX_STEP = 8.0
"""One observation moves a learned bandwidth by at most this factor, up or down."""

Pair: TypeAlias = tuple[NetworkId, NetworkId]
"""Network of the reading host, network of the host read from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidths:
    """Bandwidth of the reading host's link, by pair of networks, and of its disks."""

    network_bytes_per_s: float = NETWORK_BYTES_PER_S
    """Prior for every pair of networks, > 0."""

    disk_bytes_per_s: float = DISK_BYTES_PER_S
    """For map output and blocks on the reading host itself, > 0."""

    latency_s: float = 0.001
    """Seconds before the first byte, once for each network that is read from, >= 0."""

    learned: Mapping[Pair, float] = field(default_factory=dict)
    """Bytes per second that finished groups have shown."""

    def __post_init__(self) -> None:
        for name in ("network_bytes_per_s", "disk_bytes_per_s"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} is {getattr(self, name)}, must be > 0")

    def between(self, reader: NetworkId, source: NetworkId) -> float:
        """Bytes per second that a host of ``reader`` gets from hosts of ``source``."""
        return self.learned.get((reader, source), self.network_bytes_per_s)

    def is_learned(self, reader: NetworkId, source: NetworkId) -> bool:
        """Whether any group has shown the bandwidth of the pair."""
        return (reader, source) in self.learned

    def observed(
        self, reader: NetworkId, sources: Iterable[NetworkId], predicted_s: float, measured_s: float
    ) -> Bandwidths:
        """Bandwidths after a group that read from ``sources``.

        Args:
            reader: network of the host that ran the group.
            sources: networks that it read from; each pair is corrected by the same factor.
            predicted_s: what these bandwidths said the reading would take, in seconds.
            measured_s: what it took.
        """
        if not (predicted_s > 0 and measured_s > 0):
            return self
        factor = predicted_s / measured_s
        learned = dict(self.learned)
        for source in sources:
            pair = (reader, source)
            if pair in learned:
                step = 1 + LINK_WEIGHT * (factor - 1)
                learned[pair] *= min(max(step, 1 / MAX_STEP), MAX_STEP)
            else:
                learned[pair] = self.network_bytes_per_s * factor
        return replace(self, learned=learned)
