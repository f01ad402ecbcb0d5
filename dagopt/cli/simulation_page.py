"""A simulation as the page that ``dagopt simulate --html`` writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagopt import __version__
from dagopt.reporting.figure import Bar, Panel
from dagopt.reporting.page import Page
from dagopt.reporting.table import PageTable

if TYPE_CHECKING:
    from dagopt.app.simulate import Simulated, Simulation
    from dagopt.model.topology import Topology
    from dagopt.sim.cluster.outcome import Outcome

HEADINGS = (
    "policy", "avg JCT", "p99 JCT", "makespan", "utilisation", "worst fairness", "moves",
    "planning, mean",
)  # fmt: skip


def cells(outcome: Outcome) -> tuple[str, ...]:
    """A row under :data:`HEADINGS`."""
    return (
        outcome.policy,
        f"{outcome.avg_jct_s:.0f} s",
        f"{outcome.p99_jct_s:.0f} s",
        f"{outcome.makespan_s:.0f} s",
        f"{outcome.utilisation:.0%}",
        f"{outcome.worst_fairness:.1f}",
        str(outcome.num_moves),
        f"{outcome.plan_s_mean * 1000:.1f} ms",
    )


def simulation_page(found: Simulation, topology: Topology, *, workload: str) -> Page:
    """Figures of all policies, and of each the timeline of the accelerators."""
    best = min(found.results, key=lambda each: each.outcome.avg_jct_s).outcome
    return Page(
        title=f"{workload}: {len(found.jobs)} training jobs on {sum(found.spec.hosts)} accelerators",
        verdict=f"{best.policy} has the smallest mean completion time: {best.avg_jct_s:.0f} s",
        lines=(),
        panels=tuple(_panel(each, found, topology) for each in found.results),
        tables=(
            PageTable(
                heading="Policies",
                columns=HEADINGS,
                rows=tuple(cells(each.outcome) for each in found.results),
                note="JCT is the time from a job's arrival to its end. Worst fairness is the largest "
                "ratio of a job's JCT to its time alone on an equal share of the cluster.",
            ),
        ),
        notes=(),
        properties="",
        provenance=(
            ("workload", workload),
            ("hosts", str(len(found.spec.hosts))),
            ("restart", f"{found.spec.restart_s:g} s"),
            ("interval", f"{found.spec.interval_s:g} s"),
            ("dagopt", __version__),
        ),
        legend="A row is an accelerator of a host, a colour a job. Below: the share of accelerators "
        "that jobs hold.",
    )


def _panel(each: Simulated, found: Simulation, topology: Topology) -> Panel:
    places = {job.job_id: at for at, job in enumerate(found.jobs)}
    bars = tuple(
        Bar(
            stage=places[stay.job_id],
            executor=topology.hosts[stay.host].name,
            start_s=stay.start_s,
            read_s=stay.start_s,
            end_s=stay.end_s,
        )
        for stay in each.run.stays
    )
    return Panel(
        heading=each.run.policy,
        bars=bars,
        stage_names=tuple(job.job_id for job in found.jobs),
        num_cores=float(sum(found.spec.hosts)),
        unit="stay",
        place="accelerator",
        busy="held by jobs",
    )
