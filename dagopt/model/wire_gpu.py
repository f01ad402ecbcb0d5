"""The messages about GPU stages; :mod:`dagopt.model.wire` has the others."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from dagopt.model.pipeline import Phase
from dagopt.model.wire_message import Message


class GpuStage(Message, frozen=True, kw_only=True, tag="gpu_stage"):
    """A GPU operator is about to run; its form is asked for."""

    time_ms: int
    id: int
    """Of the question; the answer carries it too."""
    signature: str
    """Number of the physical plan up to and with the operator."""
    name: str
    num_partitions: int
    cores: float
    """Tasks of the default resource profile that run at once."""
    gpus: int
    """Tasks that can each have their GPUs at once."""
    cpus_per_task: float
    """CPU slots that a GPU task takes, of which ``cores`` are there."""
    num_hosts: int
    above: list[str] = msgspec.field(default_factory=list)
    """Operators behind it in its stage, the nearest first."""
    limited: bool = False
    """Whether a limit needs only some of its rows."""
    sliceable: bool = True
    """Whether it can be cut into slices, and a shuffle be put behind it."""
    boundary: Literal["auto", "always", "never"] | None = None
    """The setting for this operator; None for that of the application."""
    must_split: bool = False
    """Whether another resource profile stands in front of it, with which it cannot share a stage."""
    has_cpu_form: bool = False
    """Whether its functions run on a CPU slot too."""
    act: bool = True
    """Whether the answer is waited for and followed."""
    preview: bool = False
    """Whether it is only shown to the user: nothing is recorded, and the answer has a body."""


class TaskSums(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over the tasks of one stage that ended well."""

    num_tasks: int
    held_ms: int
    """From launch to end: as long as they held what they asked for."""
    run_ms: int
    start_ms: int
    """... of which Python workers were started, one after the other in a task."""
    read_ms: int
    """Waiting for shuffled blocks."""
    write_ms: int
    bytes_read: int
    local_bytes_read: int
    bytes_written: int
    warm_tasks: int = 0
    """Tasks that started no Python worker: what the first one in a process loads is not in them."""
    warm_run_ms: int = 0
    warm_read_ms: int = 0
    warm_write_ms: int = 0


class SliceDone(Message, frozen=True, kw_only=True, tag="slice_done"):
    """The GPU stage of a slice has completed."""

    time_ms: int
    id: int
    """Of the question that the slice came from."""
    slice: int
    boundary_before: bool
    boundary_after: bool
    cpu: TaskSums
    """Of the stage in front of the first shuffle; nothing without one."""
    gpu: TaskSums
    """Of the stage that the GPU operator ran in."""
    partial: bool = False
    """Whether it still runs: so many of its tasks have ended as the form asked for."""


class CpuOnlyDone(Message, frozen=True, kw_only=True, tag="cpu_only_done"):
    """A slice has completed in its CPU-only form."""

    time_ms: int
    id: int
    """Of the question that the slice came from."""
    slice: int
    cpu_only: TaskSums
    """Of the stage, which the operators in front ran in too."""


class Slices(Message, frozen=True, kw_only=True, tag="slices"):
    """Where the slices of a GPU stage stand; what to start next is asked for."""

    time_ms: int
    id: int
    """Of the question that they come from; the answer carries it too."""
    cores: float
    """As in ``gpu_stage``, now."""
    gpus: int
    cpus_per_task: float
    num_hosts: int
    sizes: list[int]
    """Partitions of each slice, in their order."""
    phases: list[Phase]
    left: list[int]
    """Partitions of each whose running part has not ended; 0 while none runs."""
    slots: list[int]
    """Tasks of its CPU-only form that may run at once; 0 where it has not been shifted."""
    running_ms: list[int]
    """Since the first task of its CPU-only form started; 0 where none has."""


class RestDone(Message, frozen=True, kw_only=True, tag="rest_done"):
    """The stage behind the GPU stages of an operator has completed, and held nothing else."""

    time_ms: int
    id: int
    """Of the question that one of its slices came from."""
    rest: TaskSums


class Form(Message, frozen=True, kw_only=True, tag="form"):
    """The answer to a GPU stage; without a boundary and in one slice it is Spark's own form."""

    id: int
    slices: list[int]
    """Partitions of each slice, in their order; all together those of the operator."""
    boundary_before: bool = False
    """Whether an identity shuffle stands before the GPU part."""
    boundary_after: bool = False
    """Whether one stands after it."""
    ask_again: bool = False
    """The first slice runs at once, to be measured; then the rest is asked about anew."""
    measure_tasks: int = 0
    """... as soon as so many GPU tasks of it have ended; 0 for all of them."""
    stepwise: bool = False
    """Whether its slices start one after the other, as the answers to ``slices`` say."""
    max_cpu_tasks: int = 0
    """Tasks in front of the GPU parts that may be active before one of a slice behind the first is:
    the other CPU slots are left to GPU tasks. 0 for any number."""
    reason: str = ""
    body: dict[str, Any] | None = None
    """In answer to a preview, what there is to show."""


class Steps(Message, frozen=True, kw_only=True, tag="steps"):
    """The answer to ``slices``: what to start now, in this order; each is a list of slices."""

    id: int
    take_back: list[int] = msgspec.field(default_factory=list)
    """Their CPU-only form is withdrawn, whether tasks of it have started or not."""
    start_gpu: list[int] = msgspec.field(default_factory=list)
    start_cpu: list[int] = msgspec.field(default_factory=list)
    shift: list[int] = msgspec.field(default_factory=list)
    """They start in their CPU-only form."""
    shift_slots: list[int] = msgspec.field(default_factory=list)
    """How many tasks of each of those may run at once."""
    end: bool = False
    """Nothing more will be said: what waits runs as Spark comes to it."""
