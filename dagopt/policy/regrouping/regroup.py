"""One round of regrouping: queue, selection, plans, and the best of them if it pays.

Where jobs on too many hosts lose little of the cluster's speed, nothing is done. Else rounds are made
until none pays, each on the outcome of the one before, so that one scheduling interval moves together
what can be; every round is one plan and lowers the number of hosts that jobs are on too many, so it ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dagopt.cost.goodput import progress_per_s
from dagopt.model.training import ClusterView, JobView, Plan
from dagopt.policy.regrouping.metric import (
    Metric,
    Spread,
    accelerator_seconds,
    queue,
    selected,
    speed_lost,
    spread_of,
)
from dagopt.policy.regrouping.plans import RegroupingPlan, moves_of, plans_for


@dataclass(frozen=True, slots=True, kw_only=True)
class Regrouping:
    """Settings of regrouping."""

    threshold: float = 0.0
    """Jobs of a smaller metric are not moved together."""
    least_loss: float = 0.05
    """Share of the speed of all accelerators in use that is lost by jobs on too many hosts; below it
    nobody is moved together. What ordinary allocation leaves spread for a while loses less, and it
    moves these jobs before such a move is paid for."""
    metric: Metric = accelerator_seconds
    most_rounds: int = 8
    """Plans carried out at one moment."""
    most_selected: int = 8
    """Jobs for which plans are made in a round."""


def regroup(
    jobs: Sequence[JobView],
    cluster: ClusterView,
    plan: Plan,
    now_s: float,
    settings: Regrouping,
) -> Plan:
    """The plan after all rounds that pay; the same plan where none does."""
    views = {view.job.job_id: view for view in jobs}
    if speed_lost(views, plan, cluster) < settings.least_loss:
        return plan
    for _ in range(settings.most_rounds):
        best = best_plan(views, cluster, plan, now_s, settings)
        if best is None:
            break
        plan = dict(best.target)
    return plan


def best_plan(
    views: Mapping[str, JobView],
    cluster: ClusterView,
    plan: Plan,
    now_s: float,
    settings: Regrouping,
) -> RegroupingPlan | None:
    """The plan with the most benefit after costs, or None where no plan has enough."""
    ordered = queue(
        [spread_of(views[job_id], plan[job_id], cluster) for job_id in sorted(plan)],
        settings.metric,
    )
    chosen = selected(ordered, threshold=settings.threshold, metric=settings.metric)
    best: RegroupingPlan | None = None
    for candidate in regrouping_plans(
        views, cluster, plan, now_s, ordered, chosen[: settings.most_selected]
    ):
        if candidate.net_s > 0 and (best is None or candidate.net_s > best.net_s):
            best = candidate
    return best


def regrouping_plans(
    views: Mapping[str, JobView],
    cluster: ClusterView,
    plan: Plan,
    now_s: float,
    ordered: Sequence[Spread],
    chosen: Sequence[Spread],
) -> list[RegroupingPlan]:
    """All plans for the chosen jobs, each with its moves, costs and benefit."""
    rank = {spread.job_id: at for at, spread in enumerate(ordered)}
    remaining_s = {spread.job_id: spread.remaining_s for spread in ordered}
    boundary_s = {job_id: max(now_s, views[job_id].next_boundary_s) for job_id in plan}
    # A job that changes anyway has its restart already paid for.
    running = frozenset(j for j in plan if views[j].held and plan[j] == views[j].held)
    found: list[RegroupingPlan] = []
    for spread in chosen:
        for target in plans_for(spread.job_id, plan, rank, cluster.capacity):
            moves = moves_of(
                plan,
                target,
                boundary_s=boundary_s,
                adjustment_s=cluster.restart_s,
                running=running,
            )
            found.append(
                RegroupingPlan(
                    target=target,
                    moves=moves,
                    switch_s=max((boundary_s[move.job_id] for move in moves), default=now_s),
                    benefit_s=sum(
                        _gain_s(views[move.job_id], len(move.before), len(move.after),
                                plan[move.job_id], remaining_s[move.job_id])
                        for move in moves
                    ),
                )
            )  # fmt: skip
    return found


# Private functions


def _gain_s(
    view: JobView,
    hosts_before: int,
    hosts_after: int,
    placement: tuple[tuple[int, int], ...],
    remaining_s: float,
) -> float:
    """Seconds that a job ends sooner on other hosts; less than 0 where it ends later."""
    if view.coefficients is None or hosts_before == hosts_after:
        return 0.0
    number = sum(count for _, count in placement)
    before = progress_per_s(view, hosts=hosts_before, number=number)
    after = progress_per_s(view, hosts=hosts_after, number=number)
    return remaining_s * (1 - before / after) if after > 0 else float("-inf")
