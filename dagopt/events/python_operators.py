"""What Spark measured of the Python operators of a stage, from the stage's accumulated SQL metrics.

Their metrics have the same names, so only their numbers tell operators apart: an operator's are made
together, and after those of the operators below it. Spark measures the time that a worker spends in the
user's code from 4.2 on; waiting for input is in it, and so is the time of the operators below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dagopt.events.spark_events import Accumulable

_SENT: Final = "data sent to Python workers"
_RETURNED: Final = "data returned from Python workers"
_CODE_MS: Final = "time to execute Python code"
_ROWS: Final = "number of output rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonOperator:
    """One operator of a stage attempt; sums over its tasks, NaN where Spark does not tell."""

    code_s: float
    """Seconds in the user's code, those in which it waited for its input included."""

    sent_bytes: float
    returned_bytes: float
    output_rows: float


def python_operators(accumulables: Iterable[Accumulable]) -> tuple[PythonOperator, ...]:
    """The operators of a stage, each above those before it; empty where there are none."""
    values = sorted(
        (each.number, each.name, value)
        for each in accumulables
        if each.number is not None
        and each.name in (_SENT, _RETURNED, _CODE_MS, _ROWS)
        and (value := _number(each.value)) is not None
    )
    found: list[dict[str, float]] = []
    last = -2
    for number, name, value in values:
        if name == _SENT:
            found.append({})
        elif not found or name in found[-1] or (name == _ROWS and number != last + 1):
            continue  # of an operator that runs no Python
        found[-1][name] = value
        last = number
    return tuple(
        PythonOperator(
            code_s=one.get(_CODE_MS, math.nan) / 1000,
            sent_bytes=one[_SENT],
            returned_bytes=one.get(_RETURNED, math.nan),
            output_rows=one.get(_ROWS, math.nan),
        )
        for one in found
    )


# Private functions


def _number(value: object) -> float | None:
    if isinstance(value, (int, float, str)):
        try:
            return float(value)
        except ValueError:
            return None
    return None
