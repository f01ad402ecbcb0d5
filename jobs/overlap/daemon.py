"""Spark's Python daemon with the costly imports done before it forks its workers.

Named in ``spark.python.daemon.module``. Otherwise every one of the many Python workers of the
benchmark spends a second of CPU time on them, on the few cores that all share.
"""

from __future__ import annotations

import pandas as pd  # noqa: F401
import pyarrow as pa  # noqa: F401
from pyspark import daemon

if __name__ == "__main__":
    daemon.manager()
