"""The accelerators of an application as its executors show them, and what connects them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dagopt.errors import InputError
from dagopt.model.topology import (
    Accelerator,
    ExecutorResources,
    Link,
    Topology,
    topology_of_executors,
)
from dagopt.train.records import Slot

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """What connects accelerators, until sums were measured."""

    local: Link
    """Two of a host."""
    network: Link
    """Hosts."""
    topology: Topology | None = None
    """The same of each pair; hosts and addresses are as Spark names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The accelerators that are there."""

    accelerators: Mapping[Slot, Accelerator] = field(default_factory=dict)
    """What each slot is; with several an executor, Spark chooses which of them a task gets."""
    topology: Topology | None = None
    """None without accelerators, or where executors say the same of theirs."""

    hosts: Mapping[str, tuple[Slot, ...]] = field(init=False, repr=False, compare=False)
    """By host; the same executors give the same order."""
    slot_of: Mapping[Accelerator, Slot] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        hosts: dict[str, list[Slot]] = {}
        for slot in sorted(self.accelerators):
            hosts.setdefault(self.accelerators[slot].host, []).append(slot)
        ordered = {name: tuple(slots) for name, slots in sorted(hosts.items())}
        object.__setattr__(self, "hosts", ordered)
        of = {accelerator: slot for slot, accelerator in self.accelerators.items()}
        object.__setattr__(self, "slot_of", of)

    def on(self, slots: Sequence[Slot], addresses: Sequence[str]) -> tuple[Accelerator, ...] | None:
        """The accelerators that tasks were on; None where one of them is not there any longer.

        Args:
            slots: of the tasks.
            addresses: what Spark gave each.
        """
        found = []
        for slot, address in zip(slots, addresses, strict=True):
            known = self.accelerators.get(slot)
            if known is None:
                return None
            given = Accelerator(known.host, address)
            its = self.slot_of.get(given)
            is_its = its is not None and its.executor == slot.executor
            found.append(given if is_its else known)
        return tuple(found) if len(set(found)) == len(found) else None


def accelerators_of(executors: Sequence[ExecutorResources]) -> dict[Slot, Accelerator]:
    """What each slot of the executors is."""
    return {
        Slot(each.executor, place): Accelerator(each.host, address)
        for each in executors
        for place, address in enumerate(each.addresses)
    }


def cluster_of(executors: Sequence[ExecutorResources], links: Links) -> Cluster:
    """The cluster that executors make; a topology that does not have all of them is told, and unused."""
    accelerators = accelerators_of(executors)
    topology = _topology(executors, accelerators, links) if accelerators else None
    return Cluster(accelerators=accelerators, topology=topology)


# Private functions


def _topology(
    executors: Sequence[ExecutorResources], accelerators: Mapping[Slot, Accelerator], links: Links
) -> Topology | None:
    if links.topology is not None:
        missing = sorted(set(accelerators.values()) - set(links.topology.accelerators))
        if not missing:
            return links.topology
        logger.warning("dagopt: accelerator %s is not in the topology, it is not used", missing[0])
    try:
        return topology_of_executors(executors, local=links.local, network=links.network)
    except InputError as error:
        logger.warning("dagopt: no topology: %s", error)
        return None
