"""The nouns of job merging: what is measured of trials, and the groups that they form.

A trial is one training run of a sweep. An iteration is one step of its optimizer, on one batch. A
group is a set of trials that share one accelerator, or one CPU slot, for a phase: the iterations
between two boundaries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from dagopt.errors import InputError

Mode: TypeAlias = Literal["alone", "stacked", "shared pass", "co-located"]
"""How a group runs: one trial by itself; trials of one shape as one computation; trials of one data
set in turn on each batch; trials of separate data one after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationMetrics:
    """What was measured of one trial in one iteration."""

    trial: int
    """The trial's number in its study."""

    iteration: int
    """From 1."""

    dataset: str
    """Name of the input data; trials with the same name read the same batches in the same order."""

    model_type: str
    """What is stacked only with its like: class, and shapes of the state's arrays."""

    model_bytes: int
    """Bytes of the trial's state."""

    batch_size: int
    """Rows of the batch; 0 where it has none."""

    time_s: float
    """Seconds of its step; of a stacked one, its share."""

    peak_bytes: int
    """Measured peak of its own: state, temporaries, and the batch. Of a merged trial, its share."""

    utilisation_fraction: float
    """Share of the group's elapsed time in which its processor was busy, 0 to 1."""

    loss: float
    """May be not a number: then the trial has failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Memory that a trial needs on its accelerator in one iteration, in bytes, each >= 0."""

    model_bytes: int
    """State: weights, and what the optimizer keeps."""

    activation_bytes: int
    """What a step allocates beside it, gradients included."""

    input_bytes: int
    """One batch."""

    workspace_bytes: int = 0
    """Of the accelerator's libraries; merged trials use the same."""

    def __post_init__(self) -> None:
        for name in ("model_bytes", "activation_bytes", "input_bytes", "workspace_bytes"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(f"{name} is {getattr(self, name)}, must be >= 0 and finite")

    @property
    def own_bytes(self) -> int:
        """What it cannot share with others."""
        return self.model_bytes + self.activation_bytes

    @property
    def total_bytes(self) -> int:
        """All of it, as the trial needs it when it runs alone."""
        return self.own_bytes + self.input_bytes + self.workspace_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A trial at a boundary, as grouping sees it."""

    trial: int

    dataset: str
    """As in :class:`IterationMetrics`."""

    model_type: str
    """Likewise."""

    position: int
    """Iterations done; trials of one group take the same batch at the same time."""

    footprint: Footprint
    """Corrected by what was measured."""

    step_s: float
    """Seconds of one iteration alone, without its input, >= 0."""

    read_s: float
    """Seconds until a batch is read and decoded, >= 0."""

    num_iterations: int
    """That it is to run in the coming phase, >= 1."""

    stackable: bool
    """Whether its step broadcasts over a trial axis, as far as is known."""

    stacked_step_s: float | None = None
    """Its share of a stacked iteration, where one was measured."""

    mergeable: bool = True
    """Whether it may be merged; else it runs alone."""

    reason: str = ""
    """Why not."""

    @property
    def run_s(self) -> float:
        """Seconds of the phase when it runs alone."""
        return self.num_iterations * (self.step_s + self.read_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """Asks the engine to run these trials as one group from a boundary on."""

    boundary: int
    """Number of the boundary at which it takes effect: never within a phase."""

    trials: tuple[int, ...]

    mode: Mode

    stacks: tuple[tuple[int, ...], ...]
    """The group's model graph: parts that run one after another on each batch, each of one trial or
    stacked from several. Together they are ``trials``."""

    memory_bytes: int
    """Overall memory of that graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeAnswer:
    """What became of a request."""

    verdict: Literal["accepted", "reduced", "refused"]

    request: MergeRequest | None
    """As it runs; None where it was refused."""

    left_out: tuple[int, ...] = ()
    """Trials that had no room, in the order in which they were asked for."""

    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialGroup:
    """What one task runs in one phase."""

    request: MergeRequest

    predicted_s: float
    """Seconds of the phase."""

    reason: str
    """Why this mode, with the numbers of those that lost."""

    @property
    def trials(self) -> tuple[int, ...]:
        """The trials in it."""
        return self.request.trials
