"""What goes to the task of a group, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dagopt.model.trial import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialWork:
    """A trial, at the boundary before a phase."""

    trial: int
    params: dict[str, Any]
    """With ``seed``."""
    position: int
    """Iterations done; at 0 it has no state yet."""
    dataset: str
    model_type: str = ""
    """Empty until it was initialised."""
    verified: bool = False
    """Whether its first stacked step was checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWork:
    """A group and its phase."""

    number: int
    """Place in the phase, from 0."""
    phase: int
    mode: Mode
    trials: tuple[TrialWork, ...]
    stacks: tuple[tuple[int, ...], ...]
    """As in a merge request."""
    num_iterations: int
    watch: bool = False
    """Each trial is run by itself, and its memory is measured at each iteration."""
    width: dict[str, int] = field(default_factory=dict)
    """Trials of a stack that are best taken at a time, by model type; measured where not known."""
    pass_length: dict[str, int] = field(default_factory=dict)
    """Batches of a pass by data set, where known."""
    sources: tuple[str, ...] = ()
    """Files that hold the states of its trials."""


@dataclass(slots=True, kw_only=True)
class TrialOutcome:
    """What a phase did to one trial."""

    trial: int
    losses: list[float]
    """One an iteration; fewer where it failed."""
    times_s: list[float]
    """Seconds of its step, or of its share of a stacked one."""
    peaks_bytes: list[int]
    """Its own memory: state, temporaries, and the batch."""
    model_bytes: int = 0
    batch_bytes: int = 0
    batch_size: int = 0
    model_type: str = ""
    has_arrays: bool = False
    """Whether its state is of arrays alone, and so can be stacked."""
    stacked: bool = False
    """Whether it ran in a stack of several."""
    error: str = ""
    """The traceback of what its step or ``init`` raised."""


@dataclass(slots=True, kw_only=True)
class GroupOutcome:
    """What a task of a phase reports."""

    number: int
    trials: list[TrialOutcome]
    start_s: float
    """Epoch seconds."""
    elapsed_s: float
    read_s: dict[str, float]
    """Seconds until a batch was there, the median, by data set."""
    busy_fraction: float
    """CPU time over elapsed time, at most 1."""
    peak_bytes: int
    """Measured, of the whole group."""
    width: dict[str, int]
    pass_length: dict[str, int]
    """As in the work, with what was found."""
    num_passes: int
    """How often the data set was opened."""
    not_stackable: dict[str, str]
    """Model types whose stacked step was found to differ, or raised, and what it was."""
    place: str = ""
    """Executor that ran it."""
