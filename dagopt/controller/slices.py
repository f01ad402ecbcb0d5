"""What to start next of a GPU stage whose slices start one after the other.

The JVM tells where they stand, so nothing is remembered here and a lost message does no harm.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from dagopt.cost.inserted_shuffle import ShuffleRates, shuffle_cost
from dagopt.errors import InputError
from dagopt.model.pipeline import PartitionCosts, Slots
from dagopt.model.wire_gpu import GpuStage, Slices, Steps
from dagopt.policy.boundary.shifting import next_step
from dagopt.policy.boundary.slice_state import Action, ShiftingState, SliceState, applied


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftDecision:
    """A slice that changed its form while the stage ran."""

    time_s: float
    """Epoch seconds on the driver's clock."""
    id: int
    """Of the question that the slice came from."""
    name: str
    """Spark's name of the GPU operator."""
    action: str
    """``shift`` to the CPU-only form, or ``take_back`` from it."""
    slice: int
    num_partitions: int
    """Of the slice."""
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """The fields, as JSON takes them."""
        return asdict(self)


def slots_of(event: GpuStage | Slices) -> Slots | None:
    """Room for tasks on all executors; None where not one GPU task has it."""
    if event.gpus < 1 or event.cores < max(1, event.cpus_per_task):
        return None
    return Slots(
        cores=int(event.cores),
        gpus=event.gpus,
        cpus_per_gpu_task=event.cpus_per_task,
        num_hosts=max(1, event.num_hosts),
    )


def steps_of(
    event: Slices, costs: PartitionCosts, rates: ShuffleRates
) -> tuple[Steps, list[Action]]:
    """The answer, and the actions that are in it.

    Raises:
        InputError: the event contradicts itself.
    """
    state = _state(event, costs, rates)
    actions: list[Action] = []
    for _ in event.sizes:
        if not (found := next_step(state)):
            break
        for action in found:
            state = applied(state, action)
        actions.extend(found)
    shifted = [action for action in actions if action.kind == "shift"]
    return Steps(
        id=event.id,
        take_back=_indices(actions, "take_back"),
        start_gpu=_indices(actions, "start_gpu"),
        start_cpu=_indices(actions, "start_cpu"),
        shift=[action.index for action in shifted],
        shift_slots=[action.num_slots for action in shifted],
    ), actions


def task_so_far_s(event: Slices, index: int) -> float:
    """Seconds of a task of the slice's CPU-only form, a mean over those that ended and those that run.

    The latter as if they had ended now; 0 where none has started.
    """
    size, left = event.sizes[index], event.left[index]
    at_once = min(event.slots[index], size)
    begun = size - left + min(at_once, left)
    return event.running_ms[index] / 1000 * at_once / begun if begun else 0.0


def _indices(actions: list[Action], kind: str) -> list[int]:
    return [action.index for action in actions if action.kind == kind]


def _state(event: Slices, costs: PartitionCosts, rates: ShuffleRates) -> ShiftingState:
    columns = (event.sizes, event.phases, event.left, event.slots, event.running_ms)
    if len({len(column) for column in columns}) != 1:
        raise InputError(f"slices: columns of {[len(column) for column in columns]} entries")
    slots = slots_of(event)
    if slots is None:
        raise InputError(f"slices: executors have {event.cores:g} CPU slots, {event.gpus} GPUs")
    for index, phase in enumerate(event.phases):
        if phase == "cpu_only_running" and event.slots[index] < 1:
            raise InputError(f"slices: slice {index} runs in {event.slots[index]} CPU slots")
    slices = tuple(
        SliceState(
            index=index,
            num_partitions=size,
            costs=costs,
            phase=phase,
            num_left=left,
            num_slots=num_slots,
            running_s=running_ms / 1000,
        )
        for index, (size, phase, left, num_slots, running_ms) in enumerate(
            zip(*columns, strict=True)
        )
    )
    on_gpus = sum(found.num_left for found in slices if found.phase == "gpu_running")
    gpu_tasks = min(on_gpus, slots.gpu_tasks)
    cpu_tasks = sum(found.num_left for found in slices if found.phase == "cpu_running")
    lent = sum(
        min(found.num_slots, found.num_left or found.num_partitions)
        for found in slices
        if found.phase in ("shifted", "cpu_only_running")
    )
    return ShiftingState(
        slices=slices,
        slots=slots,
        before=shuffle_cost("before", sum(event.sizes), costs.input_bytes, slots, rates),
        # Not told: what other stages of the application run.
        free_cpu_slots=slots.free_cores(cpu_tasks + lent, gpu_tasks),
        free_gpus=max(0, slots.gpus - on_gpus),
        measures=costs.cpu_only_s is None,
    )
