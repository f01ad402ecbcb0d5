"""The forms that GPU stages get, and what is learned of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dagopt.controller.boundary import BoundaryController
from dagopt.model.wire import Form, GpuStage, SliceDone, TaskSums
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
    costs = live.costs_of("7")
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
    assert live.costs_of("7") is None
    together = msgspec.structs.replace(
        done(cpu_ms=0, gpu_ms=900), boundary_before=False, cpu=sums(0)
    )
    live.step(together, 13.0)
    assert live.costs_of("7") is None
    assert [use.gpu_busy_s for use in live.uses] == [0.8, None]


def test_later_runs_are_a_moving_average() -> None:
    live = BoundaryController()
    form_of(live, asked())
    live.step(done(cpu_ms=800, gpu_ms=200), 13.0)
    live.step(done(cpu_ms=400, gpu_ms=100), 14.0)
    costs = live.costs_of("7")
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


def test_a_slice_of_nobody_teaches_nothing() -> None:
    live = BoundaryController()
    live.step(done(99, cpu_ms=800, gpu_ms=200), 13.0)
    assert live.costs_of("7") is None
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
