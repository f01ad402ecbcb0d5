"""Which slices run next, and in which form: one ready queue for the GPUs and one for CPU slots.

* The GPU queue holds the slices whose CPU part is done, in the order of their partitions: the
  backlog. While the GPUs work on it, CPU parts of later slices run, as far ahead as it takes.
* CPU slots that feeding the GPUs does not need take slices in their CPU-only form, if the user gave
  one: from the far end of the queue, where the wait is longest, and only where that form ends
  first. That is where ``wait > CPU-only time - GPU time - shuffle cost``.
* A shifted slice goes back when GPUs have nothing left to wait for: if no task of it has started, or
  if computing it all again on GPUs is predicted to take less than half of what is left of it.
* One slice runs in its CPU-only form to measure that, where it was never measured.

Whether to shift is asked only when slots are free, so a wrong estimate costs the slices that run.
Who carries the actions out lets GPU tasks go before CPU tasks where both want a slot. Not modelled:
on which hosts slots are, other work on the GPUs, and shifting a slice whose CPU part has begun.

Source: US patent text of the family "cluster GPU sharing by DAG generation", claim 1 (schedule
backlog tasks; shift tasks among the stages of an equivalence according to the shuffle cost, so
that no GPU is allocated during CPU execution). The rules are ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dagopt.model.pipeline import Phase
from dagopt.policy.boundary.slice_state import (
    Action,
    ShiftingState,
    SliceState,
    applied,
)
from dagopt.units import format_s

_SLOW = 2
"""How many times as long what is left of a CPU-only form must take as the whole slice on idle GPUs,
since how far its running tasks are is not known."""

_MEASURE_WAITS = 2
"""... a slice must have to wait as its GPU form takes, before its CPU-only form is measured."""

_PREPARED: tuple[Phase, ...] = ("cpu_running", "cpu_done", "gpu_running")


def next_step(state: ShiftingState) -> tuple[Action, ...]:
    """What to start, shift or take back at this moment, in this order; empty if nothing.

    The state after them is :func:`dagopt.policy.boundary.slice_state.applied` of each in turn. Asked
    again of that state, before time has passed, it comes to an end after a few rounds.
    """
    actions: list[Action] = []
    for rule in _RULES:
        while (action := rule(state)) is not None:
            actions.append(action)
            state = applied(state, action)
    return tuple(actions)


def gpu_backlog_s(state: ShiftingState, *phases: Phase) -> float:
    """Seconds for which the slices in these phases keep the GPUs busy, all of them together."""
    work_s = 0.0
    for found in state.in_phase(*phases):
        count = found.num_left if found.phase == "gpu_running" else found.num_partitions
        work_s += count * _gpu_task_s(state, found)
    return work_s / state.slots.gpu_tasks


def _start_gpu(state: ShiftingState) -> Action | None:
    """The GPUs have one slice more than they run, so that they do not wait for the driver."""
    backlog, submitted = state.in_phase("cpu_done"), state.in_phase("gpu_running")
    left = sum(found.num_left for found in submitted)
    if not backlog or (len(submitted) > 1 and left > state.slots.gpu_tasks):
        return None
    reason = (
        f"{len(backlog)} slices wait for {state.slots.gpu_tasks} GPUs, which have"
        f" {left} partitions of {len(submitted)} slices left"
    )
    return Action(kind="start_gpu", index=backlog[0].index, reason=reason)


def _take_back(state: ShiftingState) -> Action | None:
    """Idle GPUs take a slice that was shifted and has not started, or will take long yet."""
    coming = _num_coming(state)
    idle = _idle_gpus(state)
    slow = [found for found in state.in_phase("cpu_only_running") if _is_slow(state, found)]
    shifted = [*state.in_phase("shifted"), *slow]
    if not shifted or coming >= idle:
        return None
    reason = f"{idle} GPUs idle, {coming} partitions on their way to them"
    return Action(kind="take_back", index=shifted[0].index, reason=reason)


def _is_slow(state: ShiftingState, found: SliceState) -> bool:
    """Whether a slice that runs in its CPU-only form would be done much sooner on idle GPUs."""
    operator_s = found.costs.cpu_only_s
    if operator_s is None:
        return True
    task_s = found.costs.cpu_s + operator_s
    left_s = math.ceil(found.num_left / found.num_slots) * task_s
    if found.running_s > math.ceil(found.num_partitions / found.num_slots) * task_s:
        # It was taken to be over by now. What has run long is likely to run as long again.
        left_s = max(left_s, found.running_s)
    return left_s > _SLOW * (_ready_s(state, found) + _on_gpus_s(state, found))


def _start_cpu(state: ShiftingState) -> Action | None:
    """A free CPU slot takes the CPU part of the next slice, unless enough is prepared."""
    waiting = state.in_phase("waiting")
    if not waiting or state.free_cpu_slots < 1:
        return None
    prepared_s = gpu_backlog_s(state, *_PREPARED)
    enough_s = _enough_s(state, waiting[0])
    # GPUs without work show that the estimates are wrong, except before the first slice.
    starved = _idle_gpus(state) > 0 and bool(state.in_phase("gpu_running", "done"))
    if prepared_s > enough_s and not starved:
        return None
    reason = (
        f"{state.free_cpu_slots:g} CPU slots free; {format_s(prepared_s)} of GPU work are prepared"
        f" or begun, enough is {format_s(enough_s)}"
    )
    return Action(kind="start_cpu", index=waiting[0].index, reason=reason)


def _shift(state: ShiftingState) -> Action | None:
    """A CPU slot that the GPUs do not need takes the last slice, where that ends sooner."""
    waiting = state.in_phase("waiting")
    num_slots = _spare_slots(state)
    if not waiting or num_slots < 1:
        return None
    last = waiting[-1]
    operator_s = last.costs.cpu_only_s
    if operator_s is None:
        return _measure(state, last)
    if _num_coming(state) - last.num_partitions < _idle_gpus(state):
        return None
    num_slots = min(num_slots, last.num_partitions)
    # Its CPU part would run while it waits: with a wait that is too short for it, it is prepared.
    wait_s = _wait_s(state, last)
    gpu_s = wait_s + _on_gpus_s(state, last)
    cpu_s = math.ceil(last.num_partitions / num_slots) * (last.costs.cpu_s + operator_s)
    if gpu_s <= cpu_s:
        return None
    reason = (
        f"GPU form {format_s(gpu_s)} with a wait of {format_s(wait_s)},"
        f" CPU-only form {format_s(cpu_s)} in {num_slots} spare CPU slots"
    )
    return Action(kind="shift", index=last.index, num_slots=num_slots, reason=reason)


def _measure(state: ShiftingState, last: SliceState) -> Action | None:
    """The last slice is shifted to see how long its CPU-only form takes, if it has to wait anyway."""
    if not state.measures or state.in_phase("shifted", "cpu_only_running"):
        return None
    wait_s = _wait_s(state, last)
    enough_s = _MEASURE_WAITS * (_ready_s(state, last) + _on_gpus_s(state, last))
    if wait_s < enough_s:
        return None
    reason = f"GPU form with a wait of {format_s(wait_s)}; its CPU-only form is measured"
    return Action(kind="shift", index=last.index, num_slots=1, reason=reason)


#: GPUs first, and nothing is shifted before the CPU parts that feed them have their slots.
_RULES: tuple[Callable[[ShiftingState], Action | None], ...] = (
    _start_gpu,
    _take_back,
    _start_cpu,
    _shift,
)


def _spare_slots(state: ShiftingState) -> int:
    """Free CPU slots that feeding the GPUs does not need, at least 0."""
    lent = sum(
        found.num_slots if found.phase == "shifted" else min(found.num_slots, found.num_left)
        for found in state.in_phase("shifted", "cpu_only_running")
    )
    return max(0, min(math.floor(state.free_cpu_slots), _lendable_slots(state) - lent))


def _lendable_slots(state: ShiftingState) -> int:
    """CPU slots that neither running GPU tasks nor feeding them needs, >= 0."""
    to_prepare = state.in_phase("waiting", "cpu_running")
    if not to_prepare:
        return math.floor(state.slots.free_cores(0, state.slots.gpu_tasks))
    first = to_prepare[0]
    return state.slots.lendable(_cpu_task_s(state, first), _gpu_task_s(state, first))


def _enough_s(state: ShiftingState, found: SliceState) -> float:
    """Seconds of GPU work that keep the GPUs busy while the next slice is prepared.

    One GPU task more than that, since the next moment to start it may be a task's end away. What
    is prepared can no longer be shifted, so only where nothing can be are slices prepared further.
    """
    gpu_task_s = _gpu_task_s(state, found)
    enough_s = _ready_s(state, found) + gpu_task_s
    if (found.costs.cpu_only_s is None and not state.measures) or _lendable_slots(state) < 1:
        slice_s = found.num_partitions * gpu_task_s / state.slots.gpu_tasks
        enough_s += state.max_slices_ahead * slice_s
    return enough_s


def _idle_gpus(state: ShiftingState) -> int:
    """GPUs for which nothing is submitted, though CPU slots for their tasks would be there."""
    left = sum(found.num_left for found in state.in_phase("gpu_running"))
    return min(state.free_gpus, max(0, state.slots.gpu_tasks - left))


def _num_coming(state: ShiftingState) -> int:
    """Partitions on their way to the GPUs that no GPU has been given to yet."""
    coming = state.in_phase("waiting", "cpu_running", "cpu_done")
    return sum(found.num_partitions for found in coming)


def _cpu_task_s(state: ShiftingState, found: SliceState) -> float:
    return found.costs.cpu_s + state.before.write_s


def _gpu_task_s(state: ShiftingState, found: SliceState) -> float:
    return state.before.reading_task_s + found.costs.gpu_s


def _on_gpus_s(state: ShiftingState, found: SliceState) -> float:
    """Seconds of the slice's GPU part, with all GPUs to itself."""
    waves = math.ceil(found.num_partitions / state.slots.gpu_tasks)
    return waves * _gpu_task_s(state, found)


def _wait_s(state: ShiftingState, found: SliceState) -> float:
    """Seconds until the GPUs have done all slices but this waiting one."""
    own_s = found.num_partitions * _gpu_task_s(state, found) / state.slots.gpu_tasks
    return gpu_backlog_s(state, "waiting", *_PREPARED) - own_s


def _ready_s(state: ShiftingState, found: SliceState) -> float:
    """Seconds from the submission of the slice's CPU part until its GPU part can start."""
    beside_gpus = math.floor(state.slots.free_cores(0, state.slots.gpu_tasks))
    cpu_waves = math.ceil(found.num_partitions / max(1, beside_gpus))
    return cpu_waves * _cpu_task_s(state, found) + state.before.stage_s
