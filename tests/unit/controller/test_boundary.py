"""The forms that GPU stages get, and what is learned of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dagopt.controller.boundary import BoundaryController
from dagopt.model.wire_gpu import Form, GpuStage, RestDone, SliceDone, TaskSums
from dagopt.policy.boundary.choose_form import BoundarySettings


def asked(number: int = 1, **fields: Any) -> GpuStage:
    """16 partitions on 8 CPU slots, of which a GPU task takes one, and 2 GPUs."""
    stage = GpuStage(
        time_ms=0,
        id=number,
        signature="7",
        name="MapInPandas",
        num_partitions=16,
        cores=8,
        gpus=2,
        cpus_per_task=1,
        num_hosts=1,
    )
    return msgspec.structs.replace(stage, **fields)


def sums(num_tasks: int, run_ms: int = 0, **fields: int) -> TaskSums:
    """Tasks that took ``run_ms`` each, and 20 ms more to be launched."""
    zero = dict.fromkeys(
        ("start_ms", "read_ms", "write_ms", "bytes_read", "local_bytes_read", "bytes_written"), 0
    )
    held_ms = num_tasks * (run_ms + 20)
    return TaskSums(
        num_tasks=num_tasks, held_ms=held_ms, run_ms=num_tasks * run_ms, **{**zero, **fields}
    )


def done(
    number: int = 1, *, cpu_ms: int, gpu_ms: int, after: bool = True, num_tasks: int = 4
) -> SliceDone:
    return SliceDone(
        time_ms=0,
        id=number,
        slice=0,
        boundary_before=True,
        boundary_after=after,
        cpu=sums(num_tasks, cpu_ms, bytes_written=1000 * num_tasks),
        gpu=sums(num_tasks, gpu_ms, bytes_read=1000 * num_tasks, bytes_written=100 * num_tasks),
    )


def form_of(live: BoundaryController, event: GpuStage) -> Form:
    (answer,) = live.step(event, 12.5)
    assert isinstance(answer, Form)
    assert answer.id == event.id
    assert sum(answer.slices) == event.num_partitions
    return answer


def test_a_stage_not_seen_before_is_probed_and_asked_about_again() -> None:
    live = BoundaryController()
    probe = form_of(live, asked())
    assert (probe.slices, probe.ask_again) == ([4, 12], True)
    assert probe.boundary_before
    assert probe.boundary_after
    live.step(done(cpu_ms=800, gpu_ms=200), 13.0)
    rest = form_of(live, asked(2, num_partitions=12))
    assert rest.boundary_before
    assert not rest.ask_again
    costs = live.costs.find("7")
    assert costs is not None
    assert (costs.cpu_s, costs.gpu_s) == (0.8, 0.2)
    assert (costs.input_bytes, costs.output_bytes) == (1000, 100)
    assert live.decisions[0].form == "probe"
    assert live.decisions[1].stock_s == pytest.approx(6.0)  # 12 of 1 s on 2 GPUs
    assert live.decisions[1].predicted_s is not None
    assert live.decisions[1].predicted_s < 6.0


def test_a_long_gpu_part_stays_fused() -> None:
    live = BoundaryController()
    form_of(live, asked())
    live.step(done(cpu_ms=10, gpu_ms=2000), 13.0)
    fused = form_of(live, asked(2))
    assert (fused.slices, fused.boundary_before, fused.boundary_after) == ([16], False, False)
    assert "less than 5% to gain" in fused.reason


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"limited": True}, "a limit needs only some of the rows"),
        ({"gpus": 0}, "executors have 8 CPU slots and 0 GPUs for it"),
        ({"cores": 0}, "executors have 0 CPU slots and 2 GPUs for it"),
        ({"cpus_per_task": 9}, "executors have 8 CPU slots and 2 GPUs for it"),
        ({"num_partitions": 2}, "costs are not known"),
        ({"num_partitions": 0}, "no partitions"),
    ],
)
def test_what_is_left_as_it_is(fields: dict[str, Any], reason: str) -> None:
    live = BoundaryController()
    form = form_of(live, asked(**fields))
    assert (form.boundary_before, form.boundary_after, form.ask_again) == (False, False, False)
    assert reason in form.reason
    assert live.decisions[0].form == "fused"


def test_never_is_never_and_always_is_split() -> None:
    never = BoundaryController(BoundarySettings(boundary="never"))
    assert not form_of(never, asked()).boundary_before
    always = BoundaryController(BoundarySettings(boundary="always"))
    split = form_of(always, asked(num_partitions=2))
    assert (split.slices, split.boundary_before, split.boundary_after) == ([2], True, False)


def test_what_follows_does_not_run_under_the_profile() -> None:
    always = BoundaryController(BoundarySettings(boundary="always"))
    split = form_of(always, asked(num_partitions=2, above=["Aggregate"]))
    assert split.boundary_after
    assert "shuffle after, for Aggregate" in split.reason


def test_nothing_is_learned_where_parts_ran_in_the_same_tasks() -> None:
    live = BoundaryController(BoundarySettings(boundary="always"))
    form_of(live, asked(num_partitions=2, above=["Filter"]))
    live.step(done(cpu_ms=800, gpu_ms=200, after=False), 13.0)
    assert live.costs.find("7") is None
    together = msgspec.structs.replace(
        done(cpu_ms=0, gpu_ms=900), boundary_before=False, cpu=sums(0)
    )
    live.step(together, 13.0)
    assert live.costs.find("7") is None
    assert [use.gpu_busy_s for use in live.uses] == [0.8, None]


def test_later_runs_are_a_moving_average() -> None:
    live = BoundaryController()
    form_of(live, asked())
    live.step(done(cpu_ms=800, gpu_ms=200), 13.0)
    live.step(done(cpu_ms=400, gpu_ms=100), 14.0)
    costs = live.costs.find("7")
    assert costs is not None
    assert costs.cpu_s == pytest.approx(0.6)
    assert costs.gpu_s == pytest.approx(0.15)


def test_gpu_seconds_are_those_allocated_and_those_busy() -> None:
    live = BoundaryController()
    form_of(live, asked())
    event = done(cpu_ms=800, gpu_ms=200)
    gpu = msgspec.structs.replace(event.gpu, read_ms=40, write_ms=60)
    live.step(msgspec.structs.replace(event, gpu=gpu), 13.0)
    (use,) = live.uses
    assert use.gpu_allocated_s == pytest.approx(0.88)
    assert use.gpu_busy_s == pytest.approx(0.7)
    assert use.cpu_s == pytest.approx(3.2)
    assert use.bytes_across == 4400
    assert use.gpu_idle_s == pytest.approx(0.18)
    assert (use.name, use.time_s) == ("MapInPandas", 13.0)


def test_a_slice_of_nobody_teaches_nothing() -> None:
    live = BoundaryController()
    live.step(done(99, cpu_ms=800, gpu_ms=200), 13.0)
    assert live.costs.find("7") is None
    assert len(live.uses) == 1


def test_a_cpu_part_too_short_to_measure_is_still_one() -> None:
    live = BoundaryController(BoundarySettings(boundary="always"))
    form_of(live, asked())
    live.step(done(cpu_ms=0, gpu_ms=200), 13.0)
    assert form_of(live, asked(2)).boundary_before


def test_a_preview_shows_what_would_be_decided_and_leaves_no_trace() -> None:
    live = BoundaryController()
    form_of(live, asked())
    live.step(done(cpu_ms=800, gpu_ms=200), 13.0)
    shown = form_of(live, asked(2, preview=True, above=["Project"])).body
    assert live.num_decisions == len(live.decisions) == 1
    live.step(done(2, cpu_ms=90000, gpu_ms=1), 14.0)  # belongs to nothing
    made = form_of(live, asked(3, above=["Project"]))
    assert shown is not None
    assert made.body is None
    decision = live.decisions[-1]
    assert {**shown, "id": 3} == {
        **decision.to_dict(),
        "above": ["Project"],
        "ask_again": False,
        "bytes_across": 16 * (1000 + 100 * made.boundary_after),
    }
    assert made.boundary_before
    assert decision.form == shown["form"]


def test_a_preview_of_what_is_not_known_has_no_bytes() -> None:
    shown = form_of(BoundaryController(), asked(preview=True)).body
    assert shown is not None
    assert (shown["form"], shown["ask_again"]) == ("probe", True)
    assert (shown["bytes_across"], shown["predicted_s"], shown["stock_s"]) == (None, None, None)


def warm(of: TaskSums, num_tasks: int, run_ms: int) -> TaskSums:
    """The same, where so many tasks started no worker and took so long together."""
    changed: TaskSums = msgspec.structs.replace(of, warm_tasks=num_tasks, warm_run_ms=run_ms)
    return changed


def warm_done(*, cpu_ms: int, gpu_ms: int) -> SliceDone:
    """Half of the tasks started a worker, and took ten times as long as the others."""
    event = done(cpu_ms=cpu_ms * 10, gpu_ms=gpu_ms * 10)
    changed: SliceDone = msgspec.structs.replace(
        event, cpu=warm(event.cpu, 2, 2 * cpu_ms), gpu=warm(event.gpu, 2, 2 * gpu_ms)
    )
    return changed


def test_tasks_that_started_a_worker_do_not_count_where_others_did_not() -> None:
    live = BoundaryController()
    form_of(live, asked())
    live.step(warm_done(cpu_ms=80, gpu_ms=20), 13.0)
    costs = live.costs.find("7")
    assert costs is not None
    assert (costs.cpu_s, costs.gpu_s) == (0.08, 0.02)


def test_a_slice_on_a_cold_machine_counts_until_there_is_a_better_one() -> None:
    live = BoundaryController()
    form_of(live, asked())
    live.step(done(cpu_ms=800, gpu_ms=200), 13.0)
    live.step(warm_done(cpu_ms=80, gpu_ms=20), 14.0)
    live.step(done(cpu_ms=800, gpu_ms=200), 15.0)
    costs = live.costs.find("7")
    assert costs is not None
    assert (costs.cpu_s, costs.gpu_s) == (0.08, 0.02)


def rest(number: int, run_ms: int) -> RestDone:
    return RestDone(time_ms=0, id=number, rest=sums(16, run_ms, read_ms=16 * 10))


def test_what_follows_is_weighed_once_it_was_seen() -> None:
    live = BoundaryController()
    form_of(live, asked(above=["Filter"]))
    live.step(done(cpu_ms=10, gpu_ms=200), 13.0)
    live.step(rest(1, 810), 14.0)
    costs = live.costs.find("7")
    assert costs is not None
    assert costs.rest_s == 0.8
    after = form_of(live, asked(2, above=["Filter"]))
    assert (after.boundary_before, after.boundary_after) == (False, True)
    # The same plan where nothing follows it.
    assert not form_of(live, asked(3)).boundary_after
    live.step(rest(2, 410), 15.0)
    costs = live.costs.find("7")
    assert costs is not None
    assert costs.rest_s == pytest.approx(0.6)


def test_what_follows_an_unknown_stage_teaches_nothing() -> None:
    live = BoundaryController()
    form_of(live, asked(above=["Filter"]))
    live.step(rest(1, 800), 14.0)
    live.step(rest(99, 800), 14.0)
    assert live.costs.find("7") is None


@pytest.mark.parametrize("num_partitions", [2, 16])
def test_a_union_never_runs_under_the_profile(num_partitions: int) -> None:
    live = BoundaryController()
    form = form_of(live, asked(num_partitions=num_partitions, above=["Union"]))
    assert form.boundary_after
    live.step(done(cpu_ms=1, gpu_ms=2000), 13.0)
    form = form_of(live, asked(2, num_partitions=num_partitions, above=["Union"]))
    assert (form.boundary_before, form.boundary_after) == (False, True)
    assert "a union must not run under the profile" in form.reason


def test_the_rest_of_a_probed_stage_does_not_share_a_stage_with_its_first_slice() -> None:
    live = BoundaryController()
    form_of(live, asked(num_partitions=5, cores=1, gpus=1))
    live.step(done(cpu_ms=2000, gpu_ms=2000, num_tasks=1), 13.0)
    rest_of = asked(2, num_partitions=4, cores=4, gpus=1, above=["the first slice"])
    assert form_of(live, rest_of).boundary_after
    fused = asked(3, num_partitions=4, cores=1, gpus=1, above=["the first slice"])
    assert not form_of(live, fused).boundary_after


def test_an_operator_has_a_setting_of_its_own() -> None:
    live = BoundaryController(BoundarySettings(boundary="never"))
    assert not form_of(live, asked()).boundary_before
    assert form_of(live, asked(2, boundary="always")).boundary_before
    assert form_of(live, asked(3, boundary="auto")).ask_again


def test_two_profiles_are_kept_apart() -> None:
    live = BoundaryController()
    form = form_of(live, asked(num_partitions=2, must_split=True))
    assert form.boundary_before
    assert form.reason.startswith("another profile stands in front; ")


def test_a_choice_that_hangs_on_a_cold_slice_is_measured_once_more() -> None:
    live = BoundaryController()
    first = asked(num_partitions=40, cores=4, gpus=1)
    assert form_of(live, first).ask_again
    # Split would gain, if the CPU part were as long as its first tasks.
    live.step(done(cpu_ms=100, gpu_ms=1000), 13.0)
    again = form_of(live, asked(2, num_partitions=36, cores=4, gpus=1, above=["the first slice"]))
    assert again.ask_again
    assert again.reason.startswith("the first slice loaded what workers need; 4 partitions more")
    live.step(warm_done(cpu_ms=10, gpu_ms=1000), 14.0)
    rest_of = asked(3, num_partitions=32, cores=4, gpus=1, above=["the first slice"] * 2)
    assert not form_of(live, rest_of).ask_again


@pytest.mark.parametrize("num_measured", [0, 2])
def test_no_third_slice_is_measured(num_measured: int) -> None:
    live = BoundaryController()
    form_of(live, asked(num_partitions=40, cores=4, gpus=1))
    live.step(done(cpu_ms=100, gpu_ms=1000), 13.0)
    above = ["the first slice"] * num_measured
    assert not form_of(live, asked(2, num_partitions=36, cores=4, gpus=1, above=above)).ask_again


def fused_done(number: int, tasks: TaskSums) -> SliceDone:
    return SliceDone(
        time_ms=0,
        id=number,
        slice=0,
        boundary_before=False,
        boundary_after=False,
        cpu=sums(0),
        gpu=tasks,
    )


def known_as_fused(**fields: Any) -> BoundaryController:
    """A stage of 16 tasks of 2.01 s, which question 2 leaves as it is."""
    live = BoundaryController()
    form_of(live, asked())
    live.step(done(cpu_ms=10, gpu_ms=2000), 13.0)
    form = form_of(live, asked(2, **fields))
    assert not form.boundary_before
    return live


@pytest.mark.parametrize("run_ms", [200, 1300, 3100, 9000])
def test_fused_tasks_that_contradict_the_costs_have_the_stage_measured_again(run_ms: int) -> None:
    live = known_as_fused()
    live.step(fused_done(2, warm(sums(16, run_ms), 14, 14 * run_ms)), 20.0)
    assert live.costs.find("7") is None
    again = form_of(live, asked(3))
    assert again.ask_again
    took = {200: "0.20 s", 1300: "1.30 s", 3100: "3.10 s", 9000: "9.00 s"}[run_ms]
    assert again.reason.startswith(
        f"its fused tasks took {took} where 2.01 s were predicted; costs are not known"
    )
    live.step(done(3, cpu_ms=800, gpu_ms=200), 21.0)
    assert "where 2.01 s were predicted" not in form_of(live, asked(4)).reason


@pytest.mark.parametrize("run_ms", [1400, 2900])
def test_fused_tasks_that_take_about_what_was_predicted_do_not(run_ms: int) -> None:
    live = known_as_fused()
    live.step(fused_done(2, warm(sums(16, run_ms), 14, 14 * run_ms)), 20.0)
    assert live.costs.find("7") is not None


def test_some_of_the_tasks_and_tasks_of_others_contradict_nothing() -> None:
    live = known_as_fused()
    live.step(fused_done(2, sums(2, 100)), 20.0)
    live.step(fused_done(2, sums(20, 100)), 20.0)
    live.step(fused_done(99, sums(16, 100)), 20.0)
    assert live.costs.find("7") is not None


def test_what_first_tasks_load_does_not_contradict() -> None:
    live = known_as_fused()
    live.step(fused_done(2, sums(16, 9000)), 20.0)
    live.step(fused_done(2, warm(sums(16, 9000), 14, 14 * 2000)), 20.0)
    assert live.costs.find("7") is not None


def test_the_first_of_unlike_partitions_does_not_stand_for_all() -> None:
    live = known_as_fused()
    live.step(fused_done(2, warm(sums(16, 2000), 2, 2 * 9000)), 20.0)
    live.step(fused_done(2, warm(sums(16, 2000), 2, 2 * 100)), 20.0)
    assert live.costs.find("7") is not None


def test_what_fused_tasks_take_longer_is_the_time_of_what_follows_if_that_is_not_known() -> None:
    live = known_as_fused(above=["Aggregate"])
    live.step(fused_done(2, warm(sums(16, 9000), 14, 14 * 9000)), 20.0)
    costs = live.costs.find("7")
    assert costs is not None
    assert costs.rest_s == pytest.approx(9.0 - 2.01)
    after = form_of(live, asked(3, above=["Aggregate"]))
    assert after.boundary_after
    # Now that it is known, it can be contradicted.
    live.step(fused_done(3, warm(sums(16, 100), 14, 14 * 100)), 21.0)
    assert live.costs.find("7") is None


def test_tasks_too_short_to_matter_contradict_nothing() -> None:
    live = BoundaryController()
    form_of(live, asked())
    live.step(done(cpu_ms=1, gpu_ms=20), 13.0)
    live.step(fused_done(1, warm(sums(16, 100), 14, 14 * 100)), 20.0)
    form_of(live, asked(2))
    live.step(fused_done(2, warm(sums(16, 100), 14, 14 * 100)), 20.0)
    assert live.costs.find("7") is not None


def test_costs_that_are_contradicted_again_stay() -> None:
    live = known_as_fused()
    live.step(fused_done(2, sums(16, 100)), 20.0)
    form_of(live, asked(3))
    live.step(done(3, cpu_ms=10, gpu_ms=2000), 21.0)
    form_of(live, asked(4))
    live.step(fused_done(4, sums(16, 100)), 22.0)
    assert live.costs.find("7") is not None
