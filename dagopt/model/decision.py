"""What was decided for a task set, for reports and for the decision log."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One choice with its reason."""

    time_s: float
    """Epoch seconds on the driver's clock."""
    stage: int
    """Spark's stage id."""
    attempt: int
    """The attempt of the stage, from 0."""
    name: str
    """The stage's name in Spark's user interface."""
    signature: str
    """What the stage is called in every run of its program."""
    action: str
    """``pass`` (left to Spark), ``order``, ``group``; later ``concurrency`` or ``release`` for the same
    stage."""
    tasks_per_core: int
    """How many of its tasks run at once per core."""
    num_tasks: int
    """Tasks of the stage."""
    io_s: float
    """Mean seconds that a task was taken to read."""
    cpu_s: float | None
    """Mean seconds that a task was taken to compute; None where not known."""
    stock_s: float | None
    """Predicted seconds of the stage as Spark runs it."""
    predicted_s: float | None
    """Predicted seconds of the stage as decided."""
    input_host_sets: tuple[str, ...]
    """Input host sets of the tasks, as the first executor's host sees them."""
    reason: str
    """Why, in words and numbers."""

    def to_dict(self) -> dict[str, Any]:
        """The fields, as JSON takes them."""
        return asdict(self)
