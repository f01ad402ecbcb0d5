"""Stages for the simulator, and what every run of one must satisfy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dagopt.controller.grouping import ControllerSettings, GroupingController
from dagopt.cost.bandwidth import Bandwidths
from dagopt.model.network import Networks
from dagopt.sim.stage import SimCluster, SimExecutor, SimRun, SimTask, StageSimulation, elapsed_s

LINK = 1e9
"""Bytes per second of every link here."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A cluster and the tasks that it runs."""

    cluster: SimCluster
    tasks: Sequence[SimTask]

    @property
    def fetch_s(self) -> float:
        """The longest that a task reads alone on its link."""
        return max(sum(task.read_bytes.values()) for task in self.tasks) / LINK


def stage(
    rows: Sequence[Mapping[str, float]], cpu_s: float, *, num_executors: int = 1, cores: int = 8
) -> Stage:
    """Equal executors, each on a host ``h1``, ``h2``, ... of its own; rows are bytes by host."""
    executors = tuple(
        SimExecutor(executor=str(number), host=f"h{number}", cores=cores)
        for number in range(1, num_executors + 1)
    )
    return Stage(
        cluster=SimCluster(executors=executors, link_bytes_per_s=LINK),
        tasks=[SimTask(read_bytes=dict(row), cpu_s=cpu_s) for row in rows],
    )


def worked_example(cpu_s: float) -> Stage:
    """16 tasks of 1 GB from one host over one link of 1 GB/s, 8 cores."""
    return stage([{"source": 1e9}] * 16, cpu_s)


def controller(networks: Networks | None = None) -> GroupingController:
    """A controller that knows the links' bandwidth."""
    known = Bandwidths(network_bytes_per_s=LINK, disk_bytes_per_s=1e12)
    return GroupingController(ControllerSettings(bandwidths=known, networks=networks or Networks()))


def as_spark_runs_it(found: Stage) -> list[SimRun]:
    """The runs without a controller."""
    return StageSimulation(found.cluster, found.tasks).run()


@dataclass(frozen=True, kw_only=True)
class Grouped:
    """One run under the controller."""

    simulation: StageSimulation
    runs: list[SimRun]

    @property
    def elapsed_s(self) -> float:
        """From the submission to the last end."""
        return max(run.end_s for run in self.runs) - self.simulation.begin_s


def grouped(found: Stage, live: GroupingController, *, begin_s: float = 0.0) -> Grouped:
    """A run under ``live``, checked for what every run must satisfy."""
    simulation = StageSimulation(found.cluster, found.tasks, live, begin_s=begin_s)
    runs = simulation.run()
    assert sorted(run.task for run in runs) == list(range(len(found.tasks)))
    return Grouped(simulation=simulation, runs=runs)


def twice(found: Stage, live: GroupingController) -> tuple[Grouped, Grouped]:
    """The first run, of which nothing is known, and the second, of which all is."""
    first = grouped(found, live)
    return first, grouped(found, live, begin_s=first.simulation.now_s + 1.0)


def spark_s(found: Stage) -> float:
    """Seconds as Spark runs it."""
    return elapsed_s(as_spark_runs_it(found))
