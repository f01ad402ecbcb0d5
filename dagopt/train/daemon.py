"""Spark's Python daemon with the costly imports of training jobs done before it forks its workers.

Named in ``spark.python.daemon.module``. Otherwise each Python worker that is new to a job spends seconds
on importing torch.
"""

from __future__ import annotations

import torch  # noqa: F401

import dagopt.train.worker  # noqa: F401
from dagopt.spark.phases import python_daemon

if __name__ == "__main__":
    python_daemon()
