"""Laws of job merging, with slow oracles: who is where, memory, and first-fit decreasing."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dagopt.cost.footprint import merged_bytes
from dagopt.model.trial import Candidate, Footprint
from dagopt.policy.merging.packing import Capacity, first_fit
from dagopt.policy.merging.regroup import regroup
from dagopt.policy.merging.request import answer, merge_request

amounts = st.integers(0, 50)


@st.composite
def candidate_lists(draw: st.DrawFn) -> list[Candidate]:
    """Up to 12 trials of few data sets, positions and types; nothing is left out."""
    return [
        Candidate(
            trial=trial,
            dataset=draw(st.sampled_from("XY")),
            model_type=draw(st.sampled_from("ab")),
            position=draw(st.sampled_from((3, 6))),
            footprint=Footprint(
                model_bytes=draw(amounts),
                activation_bytes=draw(amounts),
                input_bytes=draw(amounts),
                workspace_bytes=draw(amounts),
            ),
            step_s=draw(st.integers(0, 8)) / 8,
            read_s=draw(st.integers(0, 8)) / 8,
            num_iterations=4,
            stackable=draw(st.booleans()),
            mergeable=draw(st.booleans()),
        )
        for trial in range(draw(st.integers(0, 12)))
    ]


capacities = st.builds(
    Capacity,
    memory_bytes=st.integers(1, 400),
    headroom_fraction=st.sampled_from((0.0, 0.1)),
    num_slots=st.integers(1, 4),
)


@given(candidate_lists(), capacities)
def test_every_trial_is_in_one_group_and_merged_ones_fit(
    trials: list[Candidate], capacity: Capacity
) -> None:
    found = regroup(trials, capacity, boundary=7)
    by_trial = {one.trial: one for one in trials}
    assert Counter(trial for group in found.groups for trial in group.trials) == Counter(
        list(by_trial)
    )
    for group in found.groups:
        members = [by_trial[trial] for trial in group.trials]
        request = group.request
        assert request.boundary == 7
        assert sorted(trial for stack in request.stacks for trial in stack) == sorted(group.trials)
        if len(members) == 1:
            continue
        assert all(one.mergeable for one in members)
        assert request.memory_bytes <= capacity.usable_bytes
        if request.mode != "co-located":
            assert len({(one.dataset, one.position) for one in members}) == 1
        for stack in request.stacks:
            if len(stack) > 1:
                assert request.mode == "stacked"
                assert all(by_trial[trial].stackable for trial in stack)
                assert len({by_trial[trial].model_type for trial in stack}) == 1


@given(candidate_lists(), capacities, st.randoms())
def test_groups_do_not_depend_on_the_order_of_the_trials(
    trials: list[Candidate], capacity: Capacity, random: object
) -> None:
    shuffled = list(trials)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert regroup(shuffled, capacity, 0) == regroup(trials, capacity, 0)


@given(candidate_lists(), st.integers(1, 300))
def test_with_one_slot_packing_is_first_fit_decreasing(
    trials: list[Candidate], room_bytes: int
) -> None:
    def need(group: list[Candidate]) -> int:
        return sum(one.footprint.own_bytes for one in group)

    ordered = sorted(trials, key=lambda one: (-one.footprint.own_bytes, one.trial))
    expected: list[list[Candidate]] = []
    for one in ordered:  # the textbook's loop
        for group in expected:
            if need([*group, one]) <= room_bytes:
                group.append(one)
                break
        else:
            expected.append([one])
    found = first_fit(ordered, lambda group: need(list(group)) <= room_bytes, 1)
    assert found == expected


@given(candidate_lists(), capacities)
def test_a_reduced_request_is_the_largest_that_fits_from_the_small_end(
    trials: list[Candidate], capacity: Capacity
) -> None:
    if len(trials) < 2:
        return
    by_trial = {one.trial: one for one in trials}
    told = answer(merge_request(trials, "shared pass", 0), by_trial, capacity)
    # The oracle asks for every number of trials, the largest left out first.
    ordered = sorted(trials, key=lambda one: (one.footprint.own_bytes, -one.trial))
    sizes = [
        size
        for size in range(2, len(trials) + 1)
        if merge_request(ordered[:size], "shared pass", 0).memory_bytes <= capacity.usable_bytes
    ]
    if not sizes:
        assert told.verdict == "refused"
        return
    assert told.request is not None
    assert len(told.request.trials) == max(sizes)
    assert (told.verdict == "accepted") == (max(sizes) == len(trials))


@given(candidate_lists())
def test_memory_of_a_graph_is_what_is_there_at_its_fullest_moment(trials: list[Candidate]) -> None:
    stacks = [[one.footprint for one in trials[:5]], [one.footprint for one in trials[5:]]]
    stacks = [stack for stack in stacks if stack]
    every = [footprint for stack in stacks for footprint in stack]
    moments = [
        sum(each.model_bytes for each in every)
        + sum(each.activation_bytes for each in stack)
        + max(each.input_bytes for each in every)
        + max(each.workspace_bytes for each in every)
        for stack in stacks
    ]
    assert merged_bytes(stacks, shared_input=True) == max(moments, default=0)
