"""Sweeps of hyper-parameters on Spark, with trials merged so that they share accelerators.

::

    from dagopt.tune import Tuner

    result = Tuner(spark, Model(), data, {"lr": FloatDistribution(1e-4, 1.0, log=True)},
                   num_trials=64, max_iterations=1000).run()
    result.best.params, result.best_state, result.metrics()

Needs the extra ``tune``, and dagopt in the Python of the executors too.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dagopt.tune.records import TrialResult
    from dagopt.tune.result import SweepResult
    from dagopt.tune.trainable import Trainable
    from dagopt.tune.tuner import Tuner

__all__ = ["SweepResult", "Trainable", "TrialResult", "Tuner"]

_MODULES = {
    "SweepResult": "result",
    "Trainable": "trainable",
    "TrialResult": "records",
    "Tuner": "tuner",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: tasks need the engine alone."""
    if name in _MODULES:
        return getattr(importlib.import_module(f"dagopt.tune.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
