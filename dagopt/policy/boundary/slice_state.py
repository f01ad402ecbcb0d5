"""Where each slice of a pipeline stands, and how that may change.

A slice is a range of partitions. Its CPU part and then its GPU part run as two stages with an
inserted shuffle between them, or, shifted, its CPU-only form runs as one stage instead:

    waiting --start_cpu--> cpu_running --> cpu_done --start_gpu--> gpu_running --> done
    waiting --shift-----> shifted --> cpu_only_running --> done
    shifted, cpu_only_running --take_back-> waiting

There is one way into ``done`` and none out of it, and a slice is in one form at a time: what it
computed in a form that it was taken back from is never read. So each partition is in the result
once. Driver and simulation change the state through the functions below only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from dagopt.cost.inserted_shuffle import ShuffleCost
from dagopt.cost.slice_schedule import slice_sizes
from dagopt.errors import InputError
from dagopt.model.pipeline import PartitionCosts, Phase, Slots

ActionKind: TypeAlias = Literal["start_cpu", "start_gpu", "shift", "take_back"]

_AFTER_ACTION: dict[ActionKind, tuple[tuple[Phase, ...], Phase]] = {
    "start_cpu": (("waiting",), "cpu_running"),
    "start_gpu": (("cpu_done",), "gpu_running"),
    "shift": (("waiting",), "shifted"),
    "take_back": (("shifted", "cpu_only_running"), "waiting"),
}
_AFTER_LAST_TASK: dict[Phase, Phase] = {
    "cpu_running": "cpu_done",
    "gpu_running": "done",
    "cpu_only_running": "done",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What to do with one slice now."""

    kind: ActionKind
    """``start_cpu`` and ``start_gpu`` submit the slice's CPU or GPU part, ``shift`` its CPU-only
    form, and ``take_back`` withdraws that form."""

    index: int
    """Of the slice."""

    reason: str

    num_slots: int = 0
    """In ``shift``, tasks of the CPU-only form to run at once, at least 1; else 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceState:
    """One slice."""

    index: int
    """Place among the slices, in the order of partitions."""

    num_partitions: int
    """At least 1."""

    costs: PartitionCosts
    """Mean cost of one of its partitions, as estimated now."""

    phase: Phase = "waiting"

    num_left: int = 0
    """Partitions whose running part has not ended; 0 while no part runs."""

    num_slots: int = 0
    """Tasks of its CPU-only form that may run at once, while it is shifted or runs there; else 0."""

    running_s: float = 0.0
    """Seconds since the first task of its CPU-only form started; 0 where none has, or not known."""

    def __post_init__(self) -> None:
        if self.num_partitions < 1 or not 0 <= self.num_left <= self.num_partitions:
            raise InputError(
                f"slice {self.index}: num_partitions is {self.num_partitions}, must be >= 1;"
                f" num_left is {self.num_left}, must be 0 to num_partitions"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftingState:
    """All slices of one pipeline, and what is free at this moment."""

    slices: tuple[SliceState, ...]
    """By index, from 0."""

    slots: Slots
    """All that there are."""

    before: ShuffleCost
    """Of the inserted shuffle between the CPU and the GPU parts."""

    free_cpu_slots: float
    """CPU slots that no submitted task runs in or waits for, 0 to ``slots.cores``."""

    free_gpus: int
    """GPUs that no submitted task holds or waits for, 0 to ``slots.gpus``."""

    measures: bool = False
    """Whether there is a CPU-only form whose cost was never measured, and is to be."""

    max_slices_ahead: int = 1
    """Slices that may be prepared beyond those that keep the GPUs busy, at least 1, where no slice
    can be shifted. It bounds the bytes of inserted shuffles on disk."""

    def __post_init__(self) -> None:
        if [found.index for found in self.slices] != list(range(len(self.slices))):
            raise InputError("slices must be in the order of their index, from 0")
        if not 0 <= self.free_cpu_slots <= self.slots.cores:
            raise InputError(
                f"free_cpu_slots is {self.free_cpu_slots}, must be 0 to {self.slots.cores}"
            )
        if not 0 <= self.free_gpus <= self.slots.gpus:
            raise InputError(f"free_gpus is {self.free_gpus}, must be 0 to {self.slots.gpus}")
        if self.max_slices_ahead < 1:
            raise InputError(f"max_slices_ahead is {self.max_slices_ahead}, must be >= 1")

    def in_phase(self, *phases: Phase) -> list[SliceState]:
        """The slices in any of these phases, by index."""
        return [found for found in self.slices if found.phase in phases]


def new_slices(
    num_partitions: int, num_slices: int, costs: PartitionCosts
) -> tuple[SliceState, ...]:
    """Slices of which nothing has run, as even as they can be.

    Raises:
        InputError: there are fewer partitions than slices, or no slices.
    """
    return tuple(
        SliceState(index=index, num_partitions=size, costs=costs)
        for index, size in enumerate(slice_sizes(num_partitions, num_slices))
    )


def applied(state: ShiftingState, action: Action) -> ShiftingState:
    """The state once the action is carried out, with the slots that its tasks take.

    Raises:
        InputError: the slice is not in the phase that the action starts from.
    """
    found = state.slices[action.index]
    needed, phase = _AFTER_ACTION[action.kind]
    if found.phase not in needed:
        raise InputError(
            f"{action.kind} of slice {found.index}: it is {found.phase}, must be {' or '.join(needed)}"
        )
    starts = phase in ("cpu_running", "gpu_running")
    after = replace(
        found,
        phase=phase,
        num_left=found.num_partitions if starts else 0,
        num_slots=action.num_slots,
        running_s=0.0,
    )
    cpu_slots, gpus = state.free_cpu_slots, state.free_gpus
    if action.kind == "start_gpu":
        taken = min(found.num_partitions, gpus)
        gpus -= taken
        cpu_slots = max(0.0, cpu_slots - taken * state.slots.cpus_per_gpu_task)
    elif action.kind == "start_cpu":
        cpu_slots -= min(found.num_partitions, math.floor(cpu_slots))
    elif action.kind == "shift":
        cpu_slots = max(0.0, cpu_slots - action.num_slots)
    return replace(_with_slice(state, after), free_cpu_slots=cpu_slots, free_gpus=gpus)


def cpu_only_started(state: ShiftingState, index: int) -> ShiftingState:
    """The state once the first task of a shifted slice has started.

    Raises:
        InputError: the slice is not shifted.
    """
    found = state.slices[index]
    if found.phase != "shifted":
        raise InputError(f"CPU-only form of slice {index}: it is {found.phase}, must be shifted")
    return _with_slice(
        state, replace(found, phase="cpu_only_running", num_left=found.num_partitions)
    )


def task_ended(state: ShiftingState, index: int) -> ShiftingState:
    """The state once one more partition of the slice's running part has ended well.

    Slots are left as they are: who drives this knows what is free.

    Raises:
        InputError: no part of the slice runs.
    """
    found = state.slices[index]
    if found.phase not in _AFTER_LAST_TASK:
        raise InputError(f"task of slice {index}: it is {found.phase}, must be running")
    if found.num_left > 1:
        return _with_slice(state, replace(found, num_left=found.num_left - 1))
    phase = _AFTER_LAST_TASK[found.phase]
    return _with_slice(state, replace(found, phase=phase, num_left=0, num_slots=0))


def _with_slice(state: ShiftingState, found: SliceState) -> ShiftingState:
    slices = (*state.slices[: found.index], found, *state.slices[found.index + 1 :])
    return replace(state, slices=slices)
