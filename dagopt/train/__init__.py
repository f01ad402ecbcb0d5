"""Training jobs that share the accelerators of one Spark application.

::

    from dagopt.train import Scheduler, TrainJob

    with Scheduler(spark) as scheduler:
        scheduler.submit(TrainJob(name="digits", training=Digits(), num_iterations=2000,
                                  global_batch=256))
        scheduler.wait()
        scheduler.status("digits").losses

Needs the extra ``train``, and dagopt in the Python of the executors too.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dagopt.train.job import Training, TrainJob
    from dagopt.train.records import JobStatus
    from dagopt.train.scheduler import Scheduler
    from dagopt.train.sweep import SweepJob

__all__ = ["JobStatus", "Scheduler", "SweepJob", "TrainJob", "Training"]

_MODULES = {
    "JobStatus": "records",
    "Scheduler": "scheduler",
    "SweepJob": "sweep",
    "TrainJob": "job",
    "Training": "job",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: tasks need the worker alone."""
    if name in _MODULES:
        return getattr(importlib.import_module(f"dagopt.train.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
