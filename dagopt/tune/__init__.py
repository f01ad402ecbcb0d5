"""Sweeps of hyper-parameters on Spark, with trials merged so that they share accelerators.

::

    from dagopt.tune import Tuner

    result = Tuner(spark, Model(), data, {"lr": FloatDistribution(1e-4, 1.0, log=True)},
                   num_trials=64, max_iterations=1000).run()
    result.best.params, result.best_state, result.metrics()

Needs the extra ``tune``, and dagopt in the Python of the executors too.
"""

from dagopt.tune.result import SweepResult, TrialResult
from dagopt.tune.trainable import Trainable
from dagopt.tune.tuner import Tuner

__all__ = ["SweepResult", "TrialResult", "Trainable", "Tuner"]
