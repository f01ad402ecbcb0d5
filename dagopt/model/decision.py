"""What was decided for task sets and GPU stages, for reports and for the decision log."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class FormDecision:
    """The form of one GPU stage, with its reason."""

    time_s: float
    """Epoch seconds on the driver's clock."""
    id: int
    """Of the question that it answers."""
    name: str
    """Spark's name of the GPU operator."""
    signature: str
    """Number of the physical plan up to and with the operator."""
    form: str
    """``fused``, ``split``, ``sliced``, ``shifting`` for slices that may go to their CPU form, or
    ``probe`` for a first slice that is measured."""
    num_partitions: int
    slices: tuple[int, ...]
    """Partitions of each slice."""
    boundary_before: bool
    """Whether an inserted shuffle stands before the GPU part."""
    boundary_after: bool
    """Whether one stands after it."""
    cpu_s: float | None
    """Mean seconds of a partition in front of the GPU operator; None where not known."""
    gpu_s: float | None
    """Mean seconds of a partition in it; None where not known."""
    stock_s: float | None
    """Predicted seconds as Spark runs it."""
    predicted_s: float | None
    """Predicted seconds as decided."""
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """The fields, as JSON takes them."""
        return asdict(self)
