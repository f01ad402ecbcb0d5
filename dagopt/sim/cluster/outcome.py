"""What a run is judged by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dagopt.cost.efficiency import step_gain
from dagopt.model.training import TrainingJob
from dagopt.sim.cluster.application import Application
from dagopt.sim.cluster.job import split_batch
from dagopt.sim.cluster.policy import packed
from dagopt.sim.cluster.simulate import ClusterSpec, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One policy on one workload; times in seconds."""

    policy: str
    avg_jct_s: float
    """Mean time from arrival to end."""
    p99_jct_s: float
    makespan_s: float
    """From the first arrival to the last end."""
    utilisation: float
    """Share of accelerator seconds until the last end that jobs held."""
    worst_fairness: float
    """Largest ratio of a job's completion time to what it had taken alone on an equal share."""
    num_moves: int
    plan_s_mean: float
    plan_s_max: float


def outcome_of(
    run: Run,
    jobs: Sequence[TrainingJob],
    applications: Mapping[str, Application],
    spec: ClusterSpec,
) -> Outcome:
    """The figures of a run; it must have at least one job."""
    arrival_s = np.array([job.arrival_s for job in jobs])
    ended_s = np.array([run.ended_s[job.job_id] for job in jobs])
    jct_s = ended_s - arrival_s
    makespan_s = float(ended_s.max() - arrival_s.min())
    held_s = sum(stay.end_s - stay.start_s for stay in run.stays)
    contention = max(1.0, float(jct_s.sum()) / makespan_s)
    share = max(1, int(sum(spec.hosts) / contention))
    alone_s = np.array(
        [alone_on_s(job, applications[job.application], share, max(spec.hosts)) for job in jobs]
    )
    plan_s = np.array(run.plan_s) if run.plan_s else np.zeros(1)
    return Outcome(
        policy=run.policy,
        avg_jct_s=float(jct_s.mean()),
        p99_jct_s=float(np.percentile(jct_s, 99)),
        makespan_s=makespan_s,
        utilisation=held_s / (sum(spec.hosts) * makespan_s),
        worst_fairness=float((jct_s / alone_s).max()),
        num_moves=run.num_moves,
        plan_s_mean=float(plan_s.mean()),
        plan_s_max=float(plan_s.max()),
    )


def alone_on_s(job: TrainingJob, application: Application, share: int, per_host: int) -> float:
    """Seconds that a job takes alone on a share of accelerators, at the best single batch size there."""
    best = np.inf
    limits = job.batches
    number = min(share, job.max_replicas)
    sizes = [job.asked_batch] if job.is_batch_fixed else list(application.trainings)
    for batch in sizes:
        local, accumulated = split_batch(
            batch, number, limits.max_local, limits.largest, initial=limits.initial
        )
        if local < limits.min_local or local > limits.max_local:
            continue
        step_s, sync_s = application.step(packed(number, per_host), local)
        whole_s = step_s + accumulated * (step_s - sync_s)
        whole = number * local * (accumulated + 1)
        total_s = 0.0
        for epoch in range(application.num_epochs):
            gain = float(step_gain(*application.noise(whole, epoch), whole / limits.initial))
            made = application.progress_at(epoch + 1) - application.progress_at(epoch)
            total_s += made / gain * whole_s
        best = min(best, total_s)
    return float(best)
