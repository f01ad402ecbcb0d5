"""What runs next, slice by slice, and what each step says of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dagopt.cost.inserted_shuffle import ShuffleRates, shuffle_cost
from dagopt.errors import InputError
from dagopt.model.pipeline import PartitionCosts, Phase, Slots
from dagopt.policy.boundary.shifting import gpu_backlog_s, next_step
from dagopt.policy.boundary.slice_state import (
    Action,
    ActionKind,
    ShiftingState,
    SliceState,
    applied,
    cpu_only_started,
    new_slices,
    task_ended,
)
from tests.property.slice_driver import SliceDriver

COSTS = PartitionCosts(cpu_s=1.0, gpu_s=4.0, input_bytes=0.0, output_bytes=0.0, cpu_only_s=7.0)
SLOTS = Slots(cores=8, gpus=1)
BEFORE = shuffle_cost("before", 20, 0.0, SLOTS, ShuffleRates(launch_s=0.0, stage_s=0.5))


def state_of(
    *phases: Phase,
    costs: PartitionCosts = COSTS,
    free_cpu_slots: float = 8,
    free_gpus: int = 1,
    num_left: int = 2,
) -> ShiftingState:
    """Slices of two partitions in these phases; ``num_left`` of those that run."""
    running = ("cpu_running", "gpu_running", "cpu_only_running")
    slices = tuple(
        SliceState(
            index=index,
            num_partitions=2,
            costs=costs,
            phase=phase,
            num_left=num_left if phase in running else 0,
            num_slots=2 if phase in ("shifted", "cpu_only_running") else 0,
        )
        for index, phase in enumerate(phases)
    )
    return ShiftingState(
        slices=slices,
        slots=SLOTS,
        before=BEFORE,
        free_cpu_slots=free_cpu_slots,
        free_gpus=free_gpus,
    )


def many(phase: Phase, num: int) -> list[Phase]:
    return [phase] * num


def steps(state: ShiftingState) -> list[tuple[ActionKind, int]]:
    return [(action.kind, action.index) for action in next_step(state)]


def without_cpu_form(costs: PartitionCosts = COSTS) -> PartitionCosts:
    return replace(costs, cpu_only_s=None)


def test_cpu_parts_start_in_order_until_the_gpu_has_work_meanwhile() -> None:
    state = state_of(*many("waiting", 6))
    # A slice is prepared in 1.5 s and is 8 s of work for the GPU.
    assert steps(state)[:2] == [("start_cpu", 0), ("shift", 5)]
    assert next_step(state)[0].reason == (
        "8 CPU slots free; 0.00 s of GPU work are prepared or begun, enough is 5.50 s"
    )
    running = state_of("gpu_running", "waiting", free_gpus=0, costs=without_cpu_form())
    one_left = state_of("gpu_running", "waiting", free_gpus=0, num_left=1)
    assert steps(replace(running, free_cpu_slots=1)) == [("start_cpu", 1)]
    assert steps(replace(one_left, free_cpu_slots=1)) == [("start_cpu", 1)]


def test_gpu_tasks_that_take_most_cpu_slots_make_preparing_take_longer() -> None:
    state = replace(state_of("waiting"), slots=Slots(cores=8, gpus=1, cpus_per_gpu_task=7))
    assert next_step(state)[0].reason == (
        "8 CPU slots free; 0.00 s of GPU work are prepared or begun, enough is 14.5 s"
    )


def test_what_cannot_be_shifted_is_prepared_further() -> None:
    state = state_of(*many("waiting", 6), costs=without_cpu_form())
    assert steps(state) == [("start_cpu", 0), ("start_cpu", 1)]
    far = replace(state, max_slices_ahead=3)
    assert steps(far) == [("start_cpu", at) for at in range(4)]


def test_cpu_parts_fill_all_slots_where_they_are_the_slow_part() -> None:
    for costs in (COSTS, without_cpu_form()):
        slow = replace(costs, cpu_s=100.0)
        state = state_of(*many("waiting", 9), costs=slow)
        assert steps(state) == [("start_cpu", at) for at in range(4)]


def test_a_starving_gpu_shows_that_more_must_be_prepared() -> None:
    state = state_of("done", "cpu_running", "cpu_running", *many("waiting", 4), free_cpu_slots=4)
    assert steps(state) == [("start_cpu", 3), ("start_cpu", 4)]
    assert ("start_cpu", 3) not in steps(replace(state, free_gpus=0))


def test_no_cpu_part_starts_without_a_free_slot() -> None:
    assert steps(state_of("waiting", "waiting", free_cpu_slots=0.5)) == []


def test_the_head_of_the_backlog_goes_to_the_gpu() -> None:
    state = state_of("done", "cpu_done", "cpu_done", free_cpu_slots=8)
    assert steps(state) == [("start_gpu", 1), ("start_gpu", 2)]
    assert next_step(state)[0].reason == (
        "2 slices wait for 1 GPUs, which have 0 partitions of 0 slices left"
    )


def test_the_gpu_has_one_slice_more_than_it_runs_and_no_second() -> None:
    running: tuple[Phase, ...] = ("gpu_running", "gpu_running", "cpu_done")
    assert steps(state_of(*running, free_gpus=0)) == []
    # One partition of each is left: two GPUs run them both, and would run out of work.
    state = state_of(*running, free_gpus=0, num_left=1)
    assert steps(state) == []
    two_gpus = replace(state, slots=Slots(cores=8, gpus=2))
    assert steps(two_gpus) == [("start_gpu", 2)]
    assert steps(state_of("gpu_running", "cpu_done", free_gpus=0)) == [("start_gpu", 1)]


def test_spare_slots_take_the_last_slices_while_the_wait_is_long() -> None:
    # Of eight slots a running GPU task has one, and another one feeds it.
    state = state_of("gpu_running", "gpu_running", *many("waiting", 6), free_gpus=0)
    for free, shifts in ((7, [(7, 2), (6, 2), (5, 2)]), (3, [(7, 2), (6, 1)]), (0.5, [])):
        actions = next_step(replace(state, free_cpu_slots=free))
        assert [(action.index, action.num_slots) for action in actions] == shifts
    assert actions == ()
    assert next_step(state_of("gpu_running", "gpu_running", *many("waiting", 6), free_gpus=0))[
        0
    ].reason == ("GPU form 64 s with a wait of 56.0 s, CPU-only form 8.00 s in 2 spare CPU slots")


def test_slots_lent_already_are_not_lent_again() -> None:
    state = state_of(
        "gpu_running",
        "gpu_running",
        "cpu_only_running",
        "shifted",
        *many("waiting", 4),
        free_gpus=0,
    )
    assert steps(replace(state, free_cpu_slots=8)) == [("shift", 7)]
    state = state_of("gpu_running", "cpu_only_running", "waiting", free_gpus=0, num_left=1)
    assert steps(replace(state, free_cpu_slots=0)) == []


@pytest.mark.parametrize(("operator_s", "is_shifted"), [(14.9, True), (15.0, False)])
def test_a_slice_is_shifted_where_its_cpu_form_ends_first(
    operator_s: float,
    is_shifted: bool,  # noqa: FBT001
) -> None:
    # GPU form: 8 s of waiting for the other slice and 8 s on the GPU. CPU-only form: 1 s + operator.
    state = state_of(
        "gpu_running", "waiting", costs=replace(COSTS, cpu_only_s=operator_s), free_gpus=0
    )
    assert (("shift", 1) in steps(state)) is is_shifted


def test_nothing_is_shifted_without_a_cpu_form() -> None:
    phases: list[Phase] = ["gpu_running", "cpu_done", "cpu_done", *many("waiting", 5)]
    state = state_of(*phases, costs=without_cpu_form(), free_gpus=0)
    assert "shift" not in [kind for kind, _ in steps(state)]


def test_slots_that_feed_the_gpus_are_not_lent() -> None:
    slow = replace(COSTS, cpu_s=40.0)
    state = state_of(
        "gpu_running", *many("cpu_running", 5), *many("waiting", 9), costs=slow, free_gpus=0
    )
    assert steps(replace(state, free_cpu_slots=2)) == [("start_cpu", 6)]


def test_idle_gpus_get_what_waits_before_any_of_it_is_shifted() -> None:
    state = state_of("cpu_running", "waiting", "waiting")
    state = replace(state, slots=Slots(cores=16, gpus=8), free_gpus=8)
    # So much work in one slice that no other needs to be prepared, yet not for all GPUs at once.
    long = replace(state.slices[0], costs=replace(COSTS, gpu_s=1000.0))
    assert steps(replace(state, slices=(long, *state.slices[1:]))) == []


def test_idle_gpus_take_back_what_has_not_started() -> None:
    state = state_of("done", "shifted", "shifted", "cpu_only_running", free_cpu_slots=0)
    assert steps(state) == [("take_back", 1)]
    assert next_step(state)[0].reason == "1 GPUs idle, 0 partitions on their way to them"
    assert steps(replace(state, free_gpus=0)) == []
    assert steps(state_of("cpu_running", "shifted", free_cpu_slots=0)) == []


def test_a_gpu_without_cpu_slots_for_a_task_is_not_idle() -> None:
    state = state_of("gpu_running", "shifted", free_cpu_slots=0, num_left=1)
    full = replace(state, slots=Slots(cores=8, gpus=4, cpus_per_gpu_task=5), free_gpus=3)
    assert steps(full) == []
    assert steps(replace(full, slots=Slots(cores=8, gpus=4))) == [("take_back", 1)]


def test_the_backlog_is_the_seconds_of_work_that_gpus_have_before_them() -> None:
    state = state_of("gpu_running", "cpu_done", "cpu_running", "waiting", "shifted", num_left=1)
    assert gpu_backlog_s(state, "cpu_done") == 2 * 4.0
    assert gpu_backlog_s(state, "waiting", "cpu_running", "cpu_done", "gpu_running") == 7 * 4.0
    two = replace(state, slots=Slots(cores=8, gpus=2))
    assert gpu_backlog_s(two, "cpu_done") == 2 * 2.0


def test_nothing_is_left_to_do_when_all_is_done() -> None:
    assert steps(state_of("done", "done")) == []


def test_shifting_ends_sooner_than_waiting_for_the_gpu() -> None:
    """32 partitions of CPU 0.5 s + GPU 2 s on 8 CPU slots and one GPU; 4 s in the CPU form."""

    def end_s(costs: PartitionCosts) -> float:
        state = ShiftingState(
            slices=new_slices(32, 16, costs),
            slots=SLOTS,
            before=replace(BEFORE, stage_s=0.0),
            free_cpu_slots=8,
            free_gpus=1,
        )
        return max(run.end_s for run in SliceDriver(state, [1.0] * 16).run())

    costs = replace(COSTS, cpu_s=0.5, gpu_s=2.0, cpu_only_s=4.0)
    assert end_s(without_cpu_form(costs)) == 0.5 + 32 * 2
    # While the GPU does 9 partitions, the six slots that do not feed it do 24 in waves of 4.5 s.
    assert end_s(costs) == 18.0


def test_a_slice_that_would_take_long_yet_on_cpus_goes_back_to_idle_gpus() -> None:
    # Two of 1 s + 7 s at once, against 1.5 s + 2 * 4 s on the GPU, and half of that.
    state = state_of("done", "cpu_only_running")
    assert steps(state) == []
    slow = state_of("done", "cpu_only_running", costs=replace(COSTS, cpu_only_s=20.0))
    assert steps(slow)[0] == ("take_back", 1)
    late = replace(state.slices[1], running_s=60.0)
    assert steps(replace(state, slices=(state.slices[0], late)))[0] == ("take_back", 1)
    busy = state_of("gpu_running", "cpu_only_running", costs=slow.slices[0].costs, free_gpus=0)
    assert steps(busy) == []


def test_an_unknown_cpu_only_form_is_measured_once_by_a_slice_that_waits_anyway() -> None:
    state = replace(state_of(*many("waiting", 6), costs=without_cpu_form()), measures=True)
    shifts = [action for action in next_step(state) if action.kind == "shift"]
    assert [(action.index, action.num_slots) for action in shifts] == [(5, 1)]
    assert shifts[0].reason == "GPU form with a wait of 40.0 s; its CPU-only form is measured"
    few = replace(state_of(*many("waiting", 2), costs=without_cpu_form()), measures=True)
    assert all(kind != "shift" for kind, _ in steps(few))
    # With nothing else to do the GPU takes it: how long it will run is not known.
    alone = replace(state_of("done", "cpu_only_running", costs=without_cpu_form()), measures=True)
    assert steps(alone)[0] == ("take_back", 1)


def test_a_long_pipeline_keeps_few_slices_on_disk() -> None:
    state = state_of(*many("waiting", 40), costs=without_cpu_form())
    driver = SliceDriver(state, [1.0] * 40)
    assert max(run.end_s for run in driver.run()) == 1.0 + 0.5 + 80 * 4
    assert driver.most_ahead == 2


def test_slots_are_taken_by_what_is_submitted() -> None:
    state = state_of("cpu_done", "waiting", "waiting", "shifted")
    state = applied(state, Action(kind="start_gpu", index=0, reason=""))
    assert (state.free_cpu_slots, state.free_gpus) == (7, 0)
    state = applied(state, Action(kind="start_cpu", index=1, reason=""))
    assert (state.free_cpu_slots, state.slices[1].num_left) == (5, 2)
    state = applied(state, Action(kind="shift", index=2, num_slots=2, reason=""))
    assert (state.free_cpu_slots, state.slices[2].num_slots) == (3, 2)
    state = applied(state, Action(kind="take_back", index=3, reason=""))
    assert (state.free_cpu_slots, state.slices[3].num_slots) == (3, 0)
    assert [found.phase for found in state.slices] == [
        "gpu_running",
        "cpu_running",
        "shifted",
        "waiting",
    ]


def test_a_part_ends_with_its_last_task() -> None:
    state = state_of("cpu_running", "gpu_running", "shifted")
    for _ in range(2):
        assert state.slices[0].phase == "cpu_running"
        state = task_ended(task_ended(state, 0), 1)
    state = cpu_only_started(state, 2)
    for _ in range(2):
        assert state.slices[2].phase == "cpu_only_running"
        state = task_ended(state, 2)
    assert [found.phase for found in state.slices] == ["cpu_done", "done", "done"]
    assert [found.num_left for found in state.slices] == [0, 0, 0]


@pytest.mark.parametrize(
    ("kind", "needed"),
    [
        ("start_cpu", ("waiting",)),
        ("start_gpu", ("cpu_done",)),
        ("shift", ("waiting",)),
        ("take_back", ("shifted", "cpu_only_running")),
    ],
)
def test_a_slice_is_in_one_form_at_a_time(kind: ActionKind, needed: tuple[Phase, ...]) -> None:
    phases: tuple[Phase, ...] = (
        "waiting",
        "cpu_running",
        "cpu_done",
        "gpu_running",
        "shifted",
        "cpu_only_running",
        "done",
    )
    for index, phase in enumerate(phases):
        if phase not in needed:
            with pytest.raises(InputError) as caught:
                applied(state_of(*phases), Action(kind=kind, index=index, reason="", num_slots=1))
            expected = f"{kind} of slice {index}: it is {phase}, must be {' or '.join(needed)}"
            assert str(caught.value) == expected


def test_what_does_not_run_does_not_end_or_start() -> None:
    with pytest.raises(InputError) as caught:
        task_ended(state_of("cpu_done"), 0)
    assert str(caught.value) == "task of slice 0: it is cpu_done, must be running"
    with pytest.raises(InputError) as caught:
        cpu_only_started(state_of("waiting"), 0)
    assert str(caught.value) == "CPU-only form of slice 0: it is waiting, must be shifted"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"free_cpu_slots": 9}, "free_cpu_slots is 9, must be 0 to 8"),
        ({"free_gpus": -1}, "free_gpus is -1, must be 0 to 1"),
        ({"max_slices_ahead": 0}, "max_slices_ahead is 0, must be >= 1"),
        (
            {"slices": state_of("waiting", "waiting").slices[1:]},
            "slices must be in the order of their index, from 0",
        ),
    ],
)
def test_impossible_states_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        replace(state_of("waiting"), **changes)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_impossible_slices_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        SliceState(index=3, num_partitions=2, costs=COSTS, num_left=5)
    assert str(caught.value) == (
        "slice 3: num_partitions is 2, must be >= 1; num_left is 5, must be 0 to num_partitions"
    )
