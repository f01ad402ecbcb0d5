"""Small made-up applications and jobs, for the tests of clusters of accelerators."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations

import numpy as np

from dagopt.cost.step_time import COLUMNS, StepTime, step_s
from dagopt.model.topology import Host, Link, Topology
from dagopt.model.training import (
    BatchLimits,
    ClusterView,
    JobView,
    Placement,
    TrainingJob,
    num_held,
)
from dagopt.sim.cluster.application import Application, Training

LIMITS = BatchLimits(initial=32, largest=256, min_local=8, max_local=64)

SCALES = StepTime(
    compute_s=0.02, example_s=0.004, local_s=0.01, local_replica_s=0.002, remote_s=0.08,
    remote_replica_s=0.004, remote_host_s=0.004, overlap=1.5,
)  # fmt: skip
"""Scales well within a host, and loses between hosts."""


def application(
    name: str = "net", *, truth: StepTime = SCALES, epochs: int = 4, epoch_steps: float = 400.0
) -> Application:
    """Step times are exactly those of the coefficients; noise grows over the epochs."""
    row = np.array(truth.row())
    local = np.array([8.0, 16.0, 32.0, 64.0])

    def table(hosts: int, replicas: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        whole = step_s(row, hosts, replicas, local)
        alone = row[0] + row[1] * local
        return np.column_stack([local, whole, np.maximum(whole - alone, 0.0)])

    shapes = [
        (1,),
        (2,),
        (3,),
        (4,),
        (1, 1),
        (1, 2),
        (2, 2),
        (1, 3),
        (1, 4),
        (2, 4),
        (3, 4),
        (4, 4),
    ]
    scaling = [
        (hosts, replicas, *line)
        for hosts in (1, 2, 3, 4, 8, 16)
        for replicas in (hosts, 2 * hosts, 4 * hosts)
        for line in table(hosts, replicas)
    ]
    epoch = np.arange(1, epochs + 1, dtype=float)
    trainings = {
        batch: Training(
            progress=epoch * epoch_steps,
            iterations=epoch * epoch_steps * 32 / batch,
            grad_sqr=np.ones(epochs),
            grad_var=4.0 * epoch,
        )
        for batch in (32, 64, 128, 256)
    }
    return Application(
        name=name,
        batches=LIMITS,
        placements={shape: table(len(shape), sum(shape)) for shape in shapes},
        scaling=np.array(scaling),
        trainings=trainings,
        num_epochs=epochs,
        max_replicas=32,
    )


def job(
    job_id: str, *, arrival_s: float = 0.0, asked: int = 2, name: str = "net", most: int = 16
) -> TrainingJob:
    return TrainingJob(
        job_id=job_id,
        arrival_s=arrival_s,
        application=name,
        batches=LIMITS,
        max_replicas=most,
        asked_replicas=asked,
        asked_batch=128,
    )


def view(
    job_id: str,
    held: Placement = (),
    *,
    remaining: float = 1000.0,
    truth: StepTime | None = SCALES,
    most_replicas: int = 8,
    age_s: float = 600.0,
    boundary_s: float = 0.0,
    arrival_s: float = 0.0,
    most: int = 16,
) -> JobView:
    return JobView(
        job=job(job_id, arrival_s=arrival_s, most=most),
        held=held,
        remaining=remaining,
        coefficients=None if truth is None else truth.row(),
        grad_sqr=1.0,
        grad_var=8.0,
        most_replicas=max(most_replicas, num_held(held)),
        age_s=age_s,
        next_boundary_s=boundary_s,
    )


def cluster(*capacity: int) -> ClusterView:
    return ClusterView(capacity=capacity, restart_s=30.0, interval_s=60.0)


def paired_host(
    names: Sequence[str], pairs: Collection[tuple[str, str]], *, near: Link, far: Link
) -> Topology:
    """A host ``h`` whose accelerators are linked well in pairs, and badly otherwise."""
    links = {pair: near if pair in pairs else far for pair in combinations(names, 2)}
    return Topology(hosts=(Host(name="h", addresses=tuple(names), links=links, network=far),))


assert len(SCALES.row()) == len(COLUMNS)
