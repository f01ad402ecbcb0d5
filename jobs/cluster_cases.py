"""Workloads of bench_cluster that are made rather than read: drawn from submissions, or from nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from dagopt.app.cluster_traces import training_job
from dagopt.cost.fit_steps import StepSample, fit_steps
from dagopt.cost.step_time import step_s
from dagopt.model.training import ClusterView, JobView, TrainingJob, placement_of
from dagopt.sim.cluster.application import Application

DAY_S = 86400.0
_CATEGORIES = (
    (3600.0, ("ncf", "cifar10")),
    (36000.0, ("bert", "deepspeech2")),
    (360000.0, ("yolov3",)),
    (float("inf"), ("imagenet",)),
)
"""Up to so many accelerator seconds a submission stands for a job of one of these applications, as in
A. Qiao et al., "Pollux", OSDI 2021, table 1."""


def philly_jobs(
    path: Path, applications: Mapping[str, Application], *, num_jobs: int = 4000, seed: int = 0
) -> list[TrainingJob]:
    """Submissions drawn from a trace, at their times of day, all on one day."""
    table = pd.read_csv(path, parse_dates=["timestamp"])
    table = table[(table["duration"] > 60) & (table["num_gpus"] >= 1)]
    rng = np.random.default_rng(seed)
    drawn = table.iloc[np.sort(rng.choice(len(table), size=num_jobs, replace=False))]
    stamp = drawn["timestamp"].dt
    of_day_s = (stamp.hour * 3600 + stamp.minute * 60 + stamp.second).to_numpy(float)
    jobs = []
    for at, (gpus, work_s) in enumerate(drawn[["num_gpus", "gpu_time"]].to_numpy(float)):
        names = next(found for limit, found in _CATEGORIES if work_s <= limit)
        application = applications[names[at % len(names)]]
        replicas = int(min(gpus, application.max_replicas))
        jobs.append(_asked(application, f"{application.name}-{at}", float(of_day_s[at]), replicas))
    return sorted(jobs, key=lambda job: (job.arrival_s, job.job_id))


def fragmented_jobs(applications: Mapping[str, Application]) -> list[TrainingJob]:
    """Jobs of one accelerator fill a cluster of 64; half of them, two a host, end soon and leave holes.

    Gangs of four that come then get two accelerators of a host and two of another.
    """
    singles = [
        _asked(applications["cifar10" if at % 2 else "ncf"], f"single-{at:02}", 0.0, 1)
        for at in range(64)
    ]
    gangs = [_asked(applications["bert"], f"gang-{at}", 900.0 + 250.0 * at, 4) for at in range(24)]
    jobs = [replace(job, max_replicas=1) for job in singles]
    jobs += [replace(job, max_replicas=4) for job in gangs]
    return sorted(jobs, key=lambda job: (job.arrival_s, job.job_id))


def planning_views(
    applications: Mapping[str, Application], *, hosts: int, num_jobs: int
) -> tuple[list[JobView], ClusterView]:
    """Jobs in the middle of their lives, half of which run, on a cluster of hosts of equal size."""
    per_host = 4 if hosts < 100 else 8
    cluster = ClusterView(capacity=(per_host,) * hosts, restart_s=30.0, interval_s=60.0)
    rng = np.random.default_rng(0)
    names = sorted(applications)
    free = [per_host] * hosts
    views = []
    for at in range(num_jobs):
        application = applications[names[at % len(names)]]
        limits = application.batches
        job = _asked(application, f"job-{at}", float(at), 1)
        samples = [
            StepSample(
                num_hosts=n, num_replicas=n, local_batch=limits.max_local, step_s=s, sync_s=y
            )
            for n in range(1, min(3, job.max_replicas) + 1)
            for s, y in [application.step((1,) * n, limits.max_local)]
        ]
        host = int(rng.integers(hosts))
        held = min(free[host], int(rng.integers(0, 3)), job.max_replicas)
        free[host] -= held
        sqr, var = application.noise(limits.initial, 0)
        views.append(
            JobView(
                job=job,
                held=placement_of({host: held}),
                remaining=application.progress_at(application.num_epochs) * float(rng.random()),
                coefficients=fit_steps(samples).row(),
                grad_sqr=sqr,
                grad_var=var,
                most_replicas=8,
                age_s=float(rng.integers(60, 10_000)),
            )
        )
    return views, cluster


def step_time_error(application: Application, *, every: int = 3) -> float:
    """Mean absolute error of predicted step times on placements left out of the fit, as a share.

    Every so many of the measured placements are left out, in turn, until each was once.
    """
    shapes = sorted(application.placements)
    errors: list[float] = []
    for first in range(every):
        left_out = set(shapes[first::every])
        seen = [
            s for shape in shapes if shape not in left_out for s in _samples(application, shape)
        ]
        coefficients = np.array(fit_steps(seen).row())
        for sample in (s for shape in sorted(left_out) for s in _samples(application, shape)):
            found = step_s(coefficients, sample.num_hosts, sample.num_replicas, sample.local_batch)
            errors.append(abs(float(found) / sample.step_s - 1))
    return float(np.mean(errors))


def _samples(application: Application, shape: tuple[int, ...]) -> list[StepSample]:
    return [
        StepSample(
            num_hosts=len(shape),
            num_replicas=sum(shape),
            local_batch=int(local),
            step_s=float(whole_s),
            sync_s=min(float(sync_s), 0.999 * float(whole_s)),
        )
        for local, whole_s, sync_s in application.placements[shape]
    ]


def _asked(application: Application, name: str, arrival_s: float, replicas: int) -> TrainingJob:
    """A job that asks for so many accelerators, at the batch that they are given."""
    limits = application.batches
    batch = min(limits.largest, max(limits.initial, replicas * limits.max_local))
    return training_job(
        application,
        job_id=name,
        arrival_s=arrival_s,
        asked_replicas=replicas,
        asked_batch=limits.largest if application.is_batch_fixed else batch,
    )
