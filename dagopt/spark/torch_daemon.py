"""Spark's Python daemon with torch imported before it forks its workers.

Named in ``spark.python.daemon.module``. Otherwise each Python worker that is new to a training job on
several accelerators spends seconds on importing it.
"""

from __future__ import annotations

import torch  # noqa: F401
from pyspark import daemon

if __name__ == "__main__":
    daemon.manager()
