"""All policies by the name that the command line knows them by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from dagopt.policy.training import Scheduler
from dagopt.sim.cluster.baselines.fifo import Fifo
from dagopt.sim.cluster.baselines.optimus import Optimus
from dagopt.sim.cluster.baselines.pollux import Pollux
from dagopt.sim.cluster.baselines.shortest_remaining import ShortestRemaining
from dagopt.sim.cluster.baselines.sia import Sia
from dagopt.sim.cluster.baselines.tiresias import Tiresias
from dagopt.sim.cluster.policy import Oracle, Policy

POLICIES: Mapping[str, Callable[[Oracle], Policy]] = MappingProxyType(
    {
        "dagopt": lambda _: Scheduler(),
        "dagopt-apart": lambda _: Scheduler(regrouping=None, name="dagopt-apart"),
        "dagopt-throughput": lambda _: Scheduler(objective="throughput", name="dagopt-throughput"),
        "fifo": lambda _: Fifo(),
        "optimus": Optimus,
        "pollux": lambda _: Pollux(),
        "shortest": ShortestRemaining,
        "sia": lambda _: Sia(),
        "tiresias": lambda _: Tiresias(),
    }
)
"""``dagopt`` has the objective ``jct``; ``dagopt-apart`` is dagopt without regrouping."""
