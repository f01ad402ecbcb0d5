"""Job merging: the worked example of the design, and single rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dagopt.cost.footprint import corrected, merged_bytes, predicted_footprint
from dagopt.errors import InputError
from dagopt.model.trial import Candidate, Footprint, IterationMetrics
from dagopt.policy.merging.candidates import CandidateRules, candidates
from dagopt.policy.merging.mode import choose_mode
from dagopt.policy.merging.packing import Capacity
from dagopt.policy.merging.regroup import regroup
from dagopt.policy.merging.request import answer, merge_request
from dagopt.policy.merging.tree import candidate_tree

GB = 10**9


def candidate(trial: int, own_gb: float, dataset: str = "X", **fields: object) -> Candidate:
    values: dict[str, object] = {
        "model_type": "mlp",
        "position": 3,
        "footprint": Footprint(
            model_bytes=int(own_gb * GB),
            activation_bytes=0,
            input_bytes=GB // 2,
            workspace_bytes=GB // 2,
        ),
        "step_s": 1e-3,
        "read_s": 0.0,
        "num_iterations": 10,
        "stackable": True,
        **fields,
    }
    return Candidate(trial=trial, dataset=dataset, **values)  # type: ignore[arg-type]


def test_the_worked_example_merges_the_two_that_fit() -> None:
    a, b, c, d = (candidate(n, gb) for n, gb in enumerate((4.0, 4.5, 5.0, 1.0)))
    d = replace(d, dataset="Y")
    found = regroup([a, b, c, d], Capacity(memory_bytes=16 * GB), boundary=1)
    # A waits; it may be run next to D, and shares nothing with it.
    assert {(group.request.mode, group.trials) for group in found.groups} == {
        ("stacked", (1, 2)),
        ("co-located", (0, 3)),
    }
    (merged,) = [group for group in found.groups if group.request.mode == "stacked"]
    assert merged.request.memory_bytes == int(10.5 * GB)
    assert merged.request.boundary == 1


def test_a_request_above_the_capacity_is_reduced_by_the_largest_or_refused() -> None:
    group = [candidate(0, 4.0), candidate(1, 4.5), candidate(2, 5.0)]
    by_trial = {one.trial: one for one in group}
    request = merge_request(group, "stacked", 1)
    assert request.memory_bytes == int(14.5 * GB)
    reduced = answer(request, by_trial, Capacity(memory_bytes=16 * GB))
    assert (reduced.verdict, reduced.left_out) == ("reduced", (2,))
    assert reduced.request is not None
    assert reduced.request.trials == (0, 1)
    accepted = answer(request, by_trial, Capacity(memory_bytes=17 * GB))
    assert (accepted.verdict, accepted.request) == ("accepted", request)
    refused = answer(request, by_trial, Capacity(memory_bytes=8 * GB))
    assert (refused.verdict, refused.request, refused.left_out) == ("refused", None, (0, 1, 2))


@pytest.mark.parametrize(
    "larger",
    [{"batch_size": 64}, {"sample_bytes": 200.0}, {"num_parameters": 2000}],
    ids=["batch size", "data set", "model type"],
)
def test_the_footprint_grows_with_batch_size_data_set_and_model(larger: dict[str, float]) -> None:
    base: dict[str, float] = {
        "num_parameters": 1000,
        "bytes_per_parameter": 4,
        "num_optimizer_states": 2,
        "batch_size": 32,
        "sample_bytes": 100.0,
        "activation_bytes_per_sample": 50.0,
        "workspace_bytes": 10,
    }
    one = predicted_footprint(**base)  # type: ignore[arg-type]
    assert one.total_bytes == 4000 * 4 + 32 * 150 + 10
    assert predicted_footprint(**{**base, **larger}).total_bytes > one.total_bytes  # type: ignore[arg-type]


def test_the_largest_of_current_and_earlier_peaks_corrects_the_footprint() -> None:
    footprint = Footprint(model_bytes=100, activation_bytes=10, input_bytes=5)
    assert corrected(footprint, [90, 80]) == footprint
    assert corrected(footprint, [90, 150, 80]).total_bytes == 150


def test_merged_trials_share_one_batch_and_one_workspace() -> None:
    one = Footprint(model_bytes=100, activation_bytes=10, input_bytes=5, workspace_bytes=3)
    assert merged_bytes([[one, one]], shared_input=True) == 228
    assert merged_bytes([[one], [one]], shared_input=True) == 218
    assert merged_bytes([[one], [one]], shared_input=False) == 218
    assert merged_bytes([], shared_input=True) == 0


def metrics(trial: int, peaks: list[int], busy: float = 0.5) -> list[IterationMetrics]:
    return [
        IterationMetrics(
            trial=trial,
            iteration=index + 1,
            dataset="X",
            model_type="mlp",
            model_bytes=100,
            batch_size=32,
            time_s=1e-3,
            peak_bytes=peak,
            utilisation_fraction=busy,
            loss=1.0,
        )
        for index, peak in enumerate(peaks)
    ]


def test_candidates_have_a_stable_footprint_over_several_iterations() -> None:
    big = 10**9
    cache = {
        0: metrics(0, [big, big, big]),
        1: metrics(1, [big, big]),
        2: metrics(2, [big, 2 * big, big]),
        3: metrics(3, [9 * big, big, big, big]),
        4: metrics(4, [big] * 3, busy=0.95),
    }
    rules = CandidateRules(max_utilisation_fraction=0.9)
    assert candidates(cache, rules) == (0, 3)
    with pytest.raises(InputError, match="min_iterations is 0, must be >= 1"):
        CandidateRules(min_iterations=0)


def test_the_tree_has_a_branch_for_each_data_set_and_a_leaf_for_each_size() -> None:
    tree = candidate_tree([candidate(0, 4.0), candidate(1, 0.1), candidate(2, 4.1, "Y")])
    assert [branch[0] for branch in tree] == ["X", "Y"]
    assert [[one.trial for one in leaf] for leaf in tree["X", 3].values()] == [[0], [1]]


def test_the_mode_with_the_least_predicted_time_is_taken_and_the_reason_names_the_others() -> None:
    group = [candidate(0, 1.0, step_s=1e-4), candidate(1, 1.0, step_s=1e-4)]
    mode, _, reason = choose_mode(group)
    assert mode == "stacked"
    assert "shared pass 0.2 ms" in reason
    slow = [replace(one, stacked_step_s=2e-4) for one in group]
    assert choose_mode(slow)[0] == "shared pass"
    apart = [group[0], replace(group[1], model_type="other")]
    mode, iteration_s, reason = choose_mode(apart)
    assert mode == "shared pass"
    assert iteration_s == pytest.approx(2e-4)
    assert "no two have one shape" in reason


def test_what_shares_nothing_is_co_located_so_that_slots_end_together() -> None:
    trials = [candidate(n, 0.1, f"D{n}", step_s=1e-3 * (n + 1)) for n in range(6)]
    found = regroup(trials, Capacity(memory_bytes=16 * GB, num_slots=2), boundary=0)
    assert {group.request.mode for group in found.groups} == {"co-located"}
    assert sorted(group.predicted_s for group in found.groups) == pytest.approx([0.1, 0.11])


def test_a_trial_too_large_to_merge_runs_unmerged() -> None:
    found = regroup(
        [candidate(0, 20.0), candidate(1, 2.0), candidate(2, 2.0)],
        Capacity(memory_bytes=16 * GB),
        boundary=0,
    )
    assert sorted(group.trials for group in found.groups) == [(0,), (1, 2)]


def test_a_trial_that_is_no_candidate_runs_alone_and_says_why() -> None:
    waiting = candidate(0, 1.0, mergeable=False, reason="2 of 3 iterations measured")
    found = regroup(
        [waiting, candidate(1, 1.0), candidate(2, 1.0)], Capacity(memory_bytes=16 * GB), 0
    )
    (alone,) = [group for group in found.groups if group.trials == (0,)]
    assert alone.reason == "alone: 2 of 3 iterations measured"
