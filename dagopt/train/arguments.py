"""What users hand to a scheduler, looked at before anything starts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from dagopt.errors import InputError
from dagopt.model.topology import Link, Topology
from dagopt.train.job import TrainJob, check_seconds
from dagopt.train.sweep import SweepJob

_KINDS: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "checkpoint": ("a folder, or None", (str, os.PathLike, type(None))),
    "spool": ("a folder, or None", (str, os.PathLike, type(None))),
    "local": ("a Link", (Link,)),
    "network": ("a Link", (Link,)),
    "topology": ("what dagopt.app.topology.read_topology gives, or None", (Topology, type(None))),
}


def check_arguments(interval_s: Any, policy: Any, others: Mapping[str, Any]) -> None:
    """Check what a scheduler is made with.

    Args:
        interval_s: seconds between plans.
        policy: what decides, or None.
        others: the rest, by name.

    Raises:
        InputError: one of them is wrong.
    """
    check_seconds("interval_s", interval_s)
    if policy is not None and not callable(getattr(policy, "plan", None)):
        raise InputError(f"policy {type(policy).__name__} has no method plan")
    for name, value in others.items():
        wanted, kinds = _KINDS[name]
        if not isinstance(value, kinds):
            raise InputError(f"{name} is a {type(value).__name__}, expected {wanted}")


def check_jobs(jobs: Sequence[Any]) -> None:
    """Check that what is submitted are jobs.

    Raises:
        InputError: it is something else, such as a list of jobs.
    """
    for job in jobs:
        if not isinstance(job, (TrainJob, SweepJob)):
            raise InputError(f"job is a {type(job).__name__}, expected a TrainJob or a SweepJob")
