"""The groups of the next phase, from the candidates at a boundary.

Source: US patent text of the family "job merging for hyperparameter tuning", claims 1 and 4 (groups
from metrics, in a tree by data set and model size, merged before the execution phase). That groups
also end together, and that what shares nothing is co-located, is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from dagopt.cost.merge_time import in_turn_s
from dagopt.model.trial import Candidate, MergeAnswer, Mode, TrialGroup
from dagopt.policy.merging.mode import choose_mode
from dagopt.policy.merging.packing import Capacity, first_fit, longest_first
from dagopt.policy.merging.request import answer, merge_request
from dagopt.policy.merging.tree import candidate_tree, in_order


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """All groups of a phase, and what became of the requests."""

    groups: tuple[TrialGroup, ...]
    """Those that take longest first."""

    answers: tuple[MergeAnswer, ...]


def regroup(candidates: Iterable[Candidate], capacity: Capacity, boundary: int) -> Grouping:
    """Groups for the phase that follows a boundary; every candidate is in exactly one.

    Args:
        candidates: all trials that go on.
        capacity: of each slot, and how many there are.
        boundary: its number.
    """
    every = sorted(candidates, key=lambda one: one.trial)
    total_s = sum(one.run_s for one in every)

    def num_runs(trials: Sequence[Candidate]) -> int:
        share = sum(one.run_s for one in trials) / total_s if total_s else 1.0
        return max(1, min(len(trials), round(capacity.num_slots * share)))

    groups: list[TrialGroup] = []
    answers: list[MergeAnswer] = []
    singles: list[Candidate] = []

    def ask(group: Sequence[Candidate], mode: Mode, iteration_s: float, reason: str) -> None:
        request = merge_request(group, mode, boundary)
        told = answer(request, {one.trial: one for one in group}, capacity)
        answers.append(told)
        left = [one for one in group if one.trial in told.left_out]
        groups.extend(_alone(one, boundary, told.reason) for one in left)
        if told.request is not None:
            share = len(told.request.trials) / len(group)
            seconds = iteration_s * share * max(one.num_iterations for one in group)
            groups.append(
                TrialGroup(
                    request=told.request,
                    predicted_s=seconds,
                    reason=f"{told.request.mode}: {reason}; {told.reason}",
                )
            )

    merged = [one for one in every if one.mergeable]
    groups.extend(_alone(one, boundary, one.reason) for one in every if not one.mergeable)
    for buckets in candidate_tree(merged).values():
        branch = in_order(buckets)
        for group in first_fit(branch, _fits("stacked", capacity), num_runs(branch)):
            mode, iteration_s, reason = choose_mode(group)
            if mode == "alone":
                singles.append(group[0])
            else:
                ask(group, mode, iteration_s, reason)
    if len(singles) > capacity.num_slots:
        for group in longest_first(singles, _fits("co-located", capacity), num_runs(singles)):
            if len(group) == 1:
                groups.append(_alone(group[0], boundary, "nothing to share"))
            else:
                seconds = in_turn_s(group, shared_input=False)
                ask(group, "co-located", seconds, "separate data, one after the other")
    else:
        groups.extend(_alone(one, boundary, "nothing to share") for one in singles)
    groups.sort(key=lambda group: (-group.predicted_s, group.trials))
    return Grouping(groups=tuple(groups), answers=tuple(answers))


def _fits(mode: Mode, capacity: Capacity) -> Callable[[Sequence[Candidate]], bool]:
    """Whether a group in a mode has room."""

    def fits(group: Sequence[Candidate]) -> bool:
        return merge_request(group, mode, 0).memory_bytes <= capacity.usable_bytes

    return fits


def _alone(one: Candidate, boundary: int, reason: str) -> TrialGroup:
    return TrialGroup(
        request=merge_request([one], "alone", boundary),
        predicted_s=one.run_s,
        reason=f"alone: {reason}",
    )
