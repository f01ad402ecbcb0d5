"""Measured applications and workloads, read from folders of CSV files.

A folder holds one folder an application, which has its name, and in each of these:

``placements.csv``
    What a step takes by where it runs: ``placement`` has a digit a host, its accelerators (``21`` is two on
    one host and one on another); ``local_bsz`` the examples on each accelerator; ``step_time`` seconds of a
    step, ``sync_time`` those of them in which gradients are summed.
``scalability.csv``
    The same on larger sets: ``num_nodes`` hosts and ``num_replicas`` accelerators instead of a placement.
``validation-BATCH.csv``
    One training to its end with that global batch, a row an epoch: ``iteration``, the steps until then;
    ``progress``, what they are worth in steps of the smallest batch; ``grad_sqr`` the squared norm of the
    mean gradient, and ``grad_var`` the variance of the gradient, both at that smallest batch.

Further columns are left unread. A workload names the application, arrival in seconds, and wishes of each
job in columns ``name,time,application,num_replicas,batch_size``; wishes are for schedulers that do not
choose, and their accelerators no more than measured batches can fill.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from dagopt.errors import InputError
from dagopt.model.training import BatchLimits, TrainingJob
from dagopt.sim.cluster.application import Application, Training

_STEPS = ("local_bsz", "step_time", "sync_time")
_TRAINING = ("progress", "iteration", "grad_sqr", "grad_var")
_WORKLOAD = ("name", "time", "application", "num_replicas", "batch_size")


def read_applications(folder: Path) -> dict[str, Application]:
    """All applications that have measurements in a folder, by name.

    Raises:
        InputError: there is none, or a file of one is missing or lacks a column.
    """
    found = {
        path.parent.name: read_application(path.parent)
        for path in sorted(folder.glob("*/placements.csv"))
    }
    if not found:
        raise InputError(f"{folder}: no folder with a placements.csv in it")
    return found


def read_application(folder: Path) -> Application:
    """One application; limits are those of what was measured.

    An application whose initial batch fills no step of a single accelerator at its largest, and which
    was timed at the largest batch on one, is taken to be trained at that batch on one accelerator.

    Raises:
        InputError: a file is missing or lacks a column.
    """
    placements = _table(folder / "placements.csv", ("placement", *_STEPS))
    scaling = _table(folder / "scalability.csv", ("num_nodes", "num_replicas", *_STEPS))
    trainings: dict[int, Training] = {}
    paths = folder.glob("validation-*.csv")
    for path in sorted(paths, key=lambda each: int(each.stem.partition("-")[2])):
        table = _table(path, _TRAINING)
        trainings[int(path.stem.partition("-")[2])] = Training(
            progress=table["progress"].to_numpy(float),
            iterations=table["iteration"].to_numpy(float),
            grad_sqr=table["grad_sqr"].to_numpy(float),
            grad_var=table["grad_var"].to_numpy(float),
        )
    if not trainings:
        raise InputError(f"{folder}: no validation-BATCH.csv")
    local = placements["local_bsz"]
    # Larger batches were not timed on many accelerators where they do not fit into memory there.
    max_local = int(min(local.max(), scaling["local_bsz"].max()))
    alone = int(local.max()) >= max(trainings)
    return Application(
        name=folder.name,
        batches=BatchLimits(
            initial=min(trainings),
            largest=max(trainings),
            min_local=int(local.min()),
            max_local=int(local.max()) if alone else max_local,
        ),
        placements=_by_placement(placements),
        scaling=scaling[["num_nodes", "num_replicas", *_STEPS]].to_numpy(float),
        trainings=trainings,
        num_epochs=min(len(run.progress) for run in trainings.values()),
        is_batch_fixed=alone,
        max_replicas=1 if alone else 64,
    )


def read_workload(path: Path, applications: Mapping[str, Application]) -> list[TrainingJob]:
    """The jobs of a workload, in its order.

    Raises:
        InputError: a column is missing, or a job names an application without measurements, or asks for
            more accelerators than it can use.
    """
    table = _table(path, _WORKLOAD)
    jobs = []
    for row in table.to_dict("records"):
        name = str(row["application"])
        if name not in applications:
            raise InputError(
                f"{path}: job {row['name']} is of {name}, of which there are no measurements; "
                f"there are {', '.join(sorted(applications))}"
            )
        job = training_job(
            applications[name],
            job_id=str(row["name"]),
            arrival_s=float(row["time"]),
            asked_replicas=int(row["num_replicas"]),
            asked_batch=int(row["batch_size"]),
        )
        if job.asked_replicas > job.max_replicas:
            raise InputError(
                f"{path}: job {job.job_id} asks for num_replicas {job.asked_replicas}, {name} can use "
                f"{job.max_replicas}: it was measured at batches up to {job.batches.largest}, with "
                f"{job.batches.min_local} or more on an accelerator"
            )
        jobs.append(job)
    return jobs


def training_job(
    application: Application,
    *,
    job_id: str,
    arrival_s: float,
    asked_replicas: int,
    asked_batch: int,
) -> TrainingJob:
    """A job that trains an application, within the limits of its measurements."""
    limits = application.batches
    return TrainingJob(
        job_id=job_id,
        arrival_s=arrival_s,
        application=application.name,
        batches=limits,
        max_replicas=min(application.max_replicas, limits.largest // limits.min_local),
        asked_replicas=asked_replicas,
        asked_batch=asked_batch,
        is_batch_fixed=application.is_batch_fixed,
    )


# Private functions


def _by_placement(
    table: pd.DataFrame,
) -> dict[tuple[int, ...], np.ndarray[tuple[int, int], np.dtype[np.float64]]]:
    found = {}
    for name, rows in table.groupby("placement"):
        counts = tuple(int(digit) for digit in str(name))
        shape = min(counts[at:] + counts[:at] for at in range(len(counts)))
        means = rows.groupby("local_bsz")[["step_time", "sync_time"]].mean().reset_index()
        found[shape] = means[list(_STEPS)].to_numpy(float)
    return found


def _table(path: Path, columns: Iterable[str]) -> pd.DataFrame:
    try:
        table = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise InputError(f"{path}: no column {missing[0]}; there are {', '.join(table.columns)}")
    return table
