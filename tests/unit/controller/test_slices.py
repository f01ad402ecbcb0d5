"""What is answered about slices that start step by step."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dagopt.controller.boundary import BoundaryController
from dagopt.errors import InputError
from dagopt.model.wire_gpu import CpuOnlyDone, GpuStage, SliceDone, Slices, Steps
from tests.unit.controller.test_boundary import asked, done, form_of, sums

STAND = Slices(
    time_ms=0,
    id=2,
    cores=8,
    gpus=1,
    cpus_per_task=1,
    num_hosts=1,
    sizes=[1] * 12,
    phases=["waiting"] * 12,
    left=[0] * 12,
    slots=[0] * 12,
    running_ms=[0] * 12,
)


def question(number: int, **fields: Any) -> GpuStage:
    return asked(number, has_cpu_form=True, gpus=1, **fields)


def stepping() -> BoundaryController:
    """Costs of 0.1 s in front and 2 s on the GPU are known, those of the CPU-only form are not."""
    live = BoundaryController()
    form_of(live, question(1))
    live.step(done(cpu_ms=100, gpu_ms=2000), 13.0)
    form = form_of(live, question(2, num_partitions=12))
    assert form.stepwise
    assert form.slices == [1] * 12
    return live


def steps(live: BoundaryController, event: Slices) -> Steps:
    (answer,) = live.step(event, 14.0)
    assert isinstance(answer, Steps)
    return answer


def stand(**changes: Any) -> Slices:
    return msgspec.structs.replace(STAND, **changes)


def test_cpu_parts_start_and_one_slice_measures_the_cpu_only_form() -> None:
    live = stepping()
    answer = steps(live, STAND)
    assert answer.start_cpu[0] == 0
    assert (answer.shift, answer.shift_slots) == ([11], [1])
    assert not answer.end
    (shift,) = live.shifts
    assert (shift.action, shift.slice, shift.num_partitions) == ("shift", 11, 1)
    assert shift.to_dict()["reason"].endswith("its CPU-only form is measured")


def test_what_the_cpu_only_form_took_decides_about_the_others() -> None:
    live = stepping()
    live.step(CpuOnlyDone(time_ms=0, id=2, slice=11, cpu_only=sums(1, 1100)), 15.0)
    costs = live.costs.find("7")
    assert costs is not None
    assert costs.cpu_only_s == pytest.approx(1.0)
    phases = ["gpu_running", *["waiting"] * 10, "done"]
    answer = steps(live, stand(phases=phases, left=[1, *[0] * 11]))
    assert len(answer.shift) > 1
    assert max(answer.shift) == 10
    live.step(done(2, cpu_ms=100, gpu_ms=2000), 16.0)
    known = live.costs.find("7")
    assert known is not None
    assert known.cpu_only_s == pytest.approx(1.0)


def test_a_slice_that_is_taken_back_tells_how_slow_its_form_is_at_least() -> None:
    live = stepping()
    phases = [*["done"] * 11, "cpu_only_running"]
    event = stand(
        phases=phases, left=[*[0] * 11, 1], slots=[*[0] * 11, 1], running_ms=[*[0] * 11, 7100]
    )
    answer = steps(live, event)
    assert (answer.take_back, answer.start_cpu) == ([11], [11])
    costs = live.costs.find("7")
    assert costs is not None
    assert costs.cpu_only_s == pytest.approx(7.0)


def test_tasks_that_ended_before_a_slice_is_taken_back_are_not_one_long_task() -> None:
    live = stepping()
    fields = {"sizes": [1, 30], "phases": ["done", "cpu_only_running"], "slots": [0, 2]}
    event = stand(**fields, left=[0, 12], running_ms=[0, 31_000])
    assert steps(live, event).take_back == [1]
    costs = live.costs.find("7")
    assert costs is not None
    # 18 ended and 2 run, after 31 s in two slots.
    assert costs.cpu_only_s == pytest.approx(3.0)


def test_a_slice_that_is_taken_back_at_once_does_not_tell_that_its_form_costs_nothing() -> None:
    live = stepping()
    phases = [*["done"] * 11, "cpu_only_running"]
    event = stand(
        phases=phases, left=[*[0] * 11, 1], slots=[*[0] * 11, 1], running_ms=[*[0] * 11, 50]
    )
    assert steps(live, event).take_back == [11]
    costs = live.costs.find("7")
    assert costs is not None
    assert costs.cpu_only_s is None


def cpu_only_done(run_ms: int, *, warm: bool) -> CpuOnlyDone:
    of = sums(1, run_ms)
    if warm:
        of = msgspec.structs.replace(of, warm_tasks=1, warm_run_ms=run_ms)
    return CpuOnlyDone(time_ms=0, id=2, slice=11, cpu_only=of)


def test_what_a_cpu_only_form_loads_first_is_replaced_by_the_first_better_measure() -> None:
    live = stepping()
    seen = []
    for run_ms, warm in ((9100, False), (1100, True), (9100, False), (3100, True)):
        live.step(cpu_only_done(run_ms, warm=warm), 15.0)
        costs = live.costs.find("7")
        assert costs is not None
        seen.append(costs.cpu_only_s)
    assert seen == pytest.approx([9.0, 1.0, 1.0, 2.0])


def test_slices_of_a_stage_that_is_not_known_are_left_to_spark() -> None:
    assert steps(BoundaryController(), STAND).end


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sizes": [1] * 11}, "slices: columns of [11, 12, 12, 12, 12] entries"),
        ({"gpus": 0}, "slices: executors have 8 CPU slots, 0 GPUs"),
        ({"phases": ["cpu_only_running"] * 12}, "slices: slice 0 runs in 0 CPU slots"),
    ],
)
def test_what_contradicts_itself_is_refused(changes: dict[str, Any], message: str) -> None:
    live = stepping()
    with pytest.raises(InputError) as caught:
        live.step(stand(**changes), 14.0)
    assert str(caught.value) == message


def test_the_first_tasks_of_a_slice_tell_the_costs_and_all_of_them_the_use() -> None:
    live = BoundaryController()
    form = form_of(live, question(1))
    assert form.measure_tasks == 2
    whole: SliceDone = done(cpu_ms=100, gpu_ms=2000)
    live.step(msgspec.structs.replace(whole, partial=True), 13.0)
    assert live.costs.find("7") is not None
    assert live.num_uses == 0
    live.step(whole, 14.0)
    assert live.num_uses == 1
