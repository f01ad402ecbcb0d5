"""What a second of a job's work is worth, by the objective that the user named.

A job's *size* is its remaining time on an equal share of the cluster. The weights that come out multiply
its speed relative to that share; a plan maximises their sum.

- ``jct``: the smallest mean completion time. The weight of the job with the i-th largest size is what
  one second of it, done, takes off the sum of all completion times, ``(i^c - (i-1)^c)^(1/c)`` with
  ``c = 1/(1-p)`` where speed grows with the p-th power of the accelerators. With ``p`` near 1 this is
  shortest remaining time first; with ``p`` near 0 all count alike.
- ``throughput``: every job's speed counts alike.
- ``fairness``: by how much later a job will end than on an equal share from its arrival on.

Source:
    B. Berg, R. Vesilo, M. Harchol-Balter, "heSRPT: parallel scheduling to minimize mean slowdown",
    Performance 2020, for ``jct`` (theirs is for equal power laws and no arrivals); K. Mahajan et al.,
    "Themis", NSDI 2020, for the finish-time ratio.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from dagopt.errors import InputError

Objective: TypeAlias = Literal["jct", "throughput", "fairness"]

_LEAST_RATIO = 1e-3
_SEVERITY = 4
"""How much more the latest job counts than others: 2 leaves larger worst ratios, 8 moves jobs too often."""
_LEAST_POWER, _MOST_POWER = 0.05, 0.95


def check_objective(name: str) -> Objective:
    """The objective of that name.

    Raises:
        InputError: there is none.
    """
    for known in get_args(Objective):
        if name == known:
            return known  # type: ignore[no-any-return]
    raise InputError(f"objective is {name!r}: allowed is {', '.join(get_args(Objective))}")


def weights(
    objective: Objective,
    size_s: NDArray[np.float64],
    *,
    power: float,
    age_s: NDArray[np.float64],
    alone_s: NDArray[np.float64],
) -> NDArray[np.float64]:
    """``(J,)`` weights of the jobs' relative speeds, all > 0.

    Args:
        objective: what is maximised.
        size_s: ``(J,)`` remaining seconds on an equal share, >= 0.
        power: how speed grows with accelerators, see above; clipped to between 0.05 and 0.95.
        age_s: ``(J,)`` seconds since arrival.
        alone_s: ``(J,)`` seconds that the whole job takes on an equal share, > 0.
    """
    if objective == "throughput":
        return np.ones_like(size_s)
    if objective == "fairness":
        ratio: NDArray[np.float64] = (age_s + size_s) / alone_s
        # Whoever is done in a moment counts little, but not nothing.
        return np.maximum(ratio, _LEAST_RATIO) ** _SEVERITY
    exponent = 1 / (1 - float(np.clip(power, _LEAST_POWER, _MOST_POWER)))
    largest_first = np.argsort(-size_s, kind="stable")
    rank = np.empty(len(size_s))
    rank[largest_first] = np.arange(1, len(size_s) + 1)
    # i^c - (i-1)^c with i^c taken out, since it overflows.
    shrunk = 1 - ((rank - 1) / rank) ** exponent
    found: NDArray[np.float64] = rank * shrunk ** (1 / exponent)
    return found
