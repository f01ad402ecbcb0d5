"""Merge requests: the model graph of a group, its overall memory, and what becomes of it.

The graph is optimised before its memory is computed: trials of one model type whose step broadcasts
become one stack, and all of them read one batch. A request above the usable memory is reduced, the
trial with the largest footprint first, and refused where not even two trials are left.

Source: US patent text of the family "job merging for hyperparameter tuning", claims 1 (merge before
the execution phase) and 5 (model graph, merge request, cost of overall memory consumption).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dagopt.cost.footprint import merged_bytes
from dagopt.model.trial import Candidate, MergeAnswer, MergeRequest, Mode
from dagopt.policy.merging.packing import Capacity
from dagopt.units import format_bytes


def model_graph(group: Sequence[Candidate], mode: Mode) -> tuple[tuple[int, ...], ...]:
    """The stacks of a group: of equal model types where the mode is ``stacked``, else one a trial."""
    stacks: dict[str, list[int]] = {}
    for one in sorted(group, key=lambda each: each.trial):
        joins = mode == "stacked" and one.stackable
        stacks.setdefault(one.model_type if joins else f"\0{one.trial}", []).append(one.trial)
    return tuple(sorted(tuple(stack) for stack in stacks.values()))


def merge_request(group: Sequence[Candidate], mode: Mode, boundary: int) -> MergeRequest:
    """The request for a group in a mode, with its graph and its overall memory."""
    by_trial = {one.trial: one for one in group}
    stacks = model_graph(group, mode)
    return MergeRequest(
        boundary=boundary,
        trials=tuple(sorted(by_trial)),
        mode=mode,
        stacks=stacks,
        memory_bytes=graph_bytes(stacks, by_trial, mode),
    )


def graph_bytes(
    stacks: Sequence[Sequence[int]], by_trial: Mapping[int, Candidate], mode: Mode
) -> int:
    """Overall memory of a model graph."""
    footprints = [[by_trial[trial].footprint for trial in stack] for stack in stacks]
    return merged_bytes(footprints, shared_input=mode != "co-located")


def answer(
    request: MergeRequest, by_trial: Mapping[int, Candidate], capacity: Capacity
) -> MergeAnswer:
    """Accepts, reduces or refuses a request.

    Args:
        request: what is asked for.
        by_trial: its trials by number.
        capacity: of the device that is to run it.
    """
    usable = capacity.usable_bytes
    if request.memory_bytes <= usable:
        return MergeAnswer(
            verdict="accepted",
            request=request,
            reason=f"{format_bytes(request.memory_bytes)} of {format_bytes(usable)}",
        )
    left_out: list[int] = []
    kept = request
    while len(kept.trials) > 1 and kept.memory_bytes > usable:
        largest = max(kept.trials, key=lambda trial: (by_trial[trial].footprint.own_bytes, -trial))
        left_out.append(largest)
        rest = [by_trial[trial] for trial in kept.trials if trial != largest]
        kept = merge_request(rest, request.mode, request.boundary)
    why = f"{format_bytes(request.memory_bytes)} is above {format_bytes(usable)}"
    if len(kept.trials) < 2 or kept.memory_bytes > usable:
        return MergeAnswer(
            verdict="refused", request=None, left_out=request.trials, reason=f"refused: {why}"
        )
    return MergeAnswer(
        verdict="reduced",
        request=kept,
        left_out=tuple(left_out),
        reason=f"reduced by {len(left_out)} trials: {why}",
    )
