"""A workload under several policies on a cluster that a file describes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dagopt.app.cluster_traces import read_applications, read_workload
from dagopt.errors import InputError
from dagopt.model.topology import Topology
from dagopt.model.training import TrainingJob
from dagopt.sim.cluster.job import remembering_fit
from dagopt.sim.cluster.outcome import Outcome, outcome_of
from dagopt.sim.cluster.policies import POLICIES
from dagopt.sim.cluster.simulate import ClusterSpec, Failure, Run, simulate

Progress = Callable[[str, int, int, float], None]
"""Told the policy, jobs done, jobs in all, and the simulated time in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """One policy's run with its figures."""

    run: Run
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """All that was run, in the order of the policies asked for."""

    jobs: tuple[TrainingJob, ...]
    spec: ClusterSpec
    results: tuple[Simulated, ...]


def simulate_workload(
    workload: Path,
    *,
    measurements: Path | None,
    topology: Topology,
    policies: Sequence[str],
    restart_s: float = 30.0,
    interval_s: float = 60.0,
    failures: Sequence[tuple[str, float, float]] = (),
    timer: Callable[[], float],
    progress: Progress = lambda _policy, _done, _all, _now_s: None,
) -> Simulation:
    """Run each policy on the same jobs.

    Args:
        workload: a CSV file of jobs.
        measurements: folder of applications; without it, the one that the workload's folder is in.
        topology: hosts with their accelerators.
        policies: names of :data:`dagopt.sim.cluster.policies.POLICIES`.
        restart_s: seconds that a start or a move costs.
        interval_s: seconds between plans.
        failures: of hosts, as (name, when, for how long), in seconds.
        timer: seconds on a clock, to time plans with.
        progress: told after each plan.

    Raises:
        InputError: a name is unknown, a file is wrong, or a job asks for more than there is.
    """
    for name in policies:
        if name not in POLICIES:
            raise InputError(f"policy {name!r}: there are {', '.join(POLICIES)}")
    if not restart_s >= 0 or not interval_s > 0:
        raise InputError(
            f"expected restart >= 0 and interval > 0, got {restart_s} and {interval_s} s"
        )
    applications = read_applications(measurements or workload.absolute().parent.parent)
    jobs = tuple(read_workload(workload, applications))
    if not jobs:
        raise InputError(f"{workload}: no job in it")
    names = [host.name for host in topology.hosts]
    for host, _, _ in failures:
        if host not in names:
            raise InputError(f"failure of {host}: no such host; there are {', '.join(names[:20])}")
    spec = ClusterSpec(
        hosts=tuple(len(host.addresses) for host in topology.hosts),
        restart_s=restart_s,
        interval_s=interval_s,
        failures=tuple(
            Failure(host=names.index(host), at_s=at_s, for_s=for_s)
            for host, at_s, for_s in failures
        ),
    )
    fit = remembering_fit()
    results = []
    for name in policies:

        def tell(done: int, now_s: float, name: str = name) -> None:
            progress(name, done, len(jobs), now_s)

        run = simulate(
            jobs, applications, POLICIES[name], spec, timer=timer, progress=tell, fit=fit
        )
        results.append(Simulated(run=run, outcome=outcome_of(run, jobs, applications, spec)))
    return Simulation(jobs=jobs, spec=spec, results=tuple(results))
