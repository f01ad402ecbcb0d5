"""Costs that a fused stage contradicts are forgotten, and that comes to an end."""

from __future__ import annotations

from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from dagopt.controller.boundary import FIRST_SLICE, BoundaryController
from dagopt.controller.gpu_costs import GpuCosts
from dagopt.model.stage_profile import StageProfile, StageProfiles, gpu_part_signature
from dagopt.model.wire_gpu import Form, GpuStage, SliceDone, TaskSums

COUNT = 16

times_ms = st.sampled_from((0, 1, 50, 200, 1000, 9000)) | st.integers(0, 10**7)


@st.composite
def task_sums(draw: st.DrawFn, num_tasks: int) -> TaskSums:
    num_warm = draw(st.integers(0, num_tasks))
    warm_ms = num_warm * draw(times_ms)
    run_ms = warm_ms + (num_tasks - num_warm) * draw(times_ms)
    return TaskSums(
        num_tasks=num_tasks,
        held_ms=run_ms,
        run_ms=run_ms,
        start_ms=draw(times_ms) if num_warm < num_tasks else 0,
        read_ms=0,
        write_ms=0,
        bytes_read=0,
        local_bytes_read=0,
        bytes_written=0,
        warm_tasks=num_warm,
        warm_run_ms=warm_ms,
    )


def profile(cpu_ms: int, gpu_ms: int, rest_ms: int | None = None) -> StageProfiles:
    parts: list[tuple[Literal["cpu", "gpu", "rest"], int]] = [("cpu", cpu_ms), ("gpu", gpu_ms)]
    if rest_ms is not None:
        parts.append(("rest", rest_ms))
    return StageProfiles(
        [
            StageProfile(
                signature=gpu_part_signature("7", part),
                num_runs=1,
                num_tasks=COUNT,
                read_bytes_per_task=0,
                cpu_s_per_task=ms / 1000,
                io_wait_s_per_task=0,
                io_bytes_per_s=None,
                spilled_bytes_per_task=0,
                peak_memory_bytes=0,
                python=True,
                coverage=1,
            )
            for part, ms in parts
        ]
    )


@given(st.none() | st.builds(profile, times_ms, times_ms), st.integers(1, 12), st.data())
def test_no_stage_is_measured_again_more_than_once(
    profiles: StageProfiles | None, num_runs: int, data: st.DataObject
) -> None:
    live = BoundaryController(costs=GpuCosts(profiles))
    number = 0

    def ask(num_partitions: int, above: list[str]) -> Form:
        nonlocal number
        number += 1
        stage = GpuStage(
            time_ms=0,
            id=number,
            signature="7",
            name="MapInPandas",
            num_partitions=num_partitions,
            cores=4,
            gpus=1,
            cpus_per_task=1,
            num_hosts=1,
            above=above,
        )
        (answer,) = live.step(stage, 0.0)
        assert isinstance(answer, Form)
        return answer

    def run(form: Form, num_tasks: int) -> None:
        cpu = task_sums(num_tasks if form.boundary_before else 0)
        live.step(
            SliceDone(
                time_ms=0,
                id=form.id,
                slice=0,
                boundary_before=form.boundary_before,
                boundary_after=form.boundary_after,
                cpu=data.draw(cpu),
                gpu=data.draw(task_sums(num_tasks)),
            ),
            0.0,
        )

    num_measured = 0
    for _ in range(num_runs):
        left, above = COUNT, list[str]()
        form = ask(left, above)
        num_measured += form.ask_again
        while form.ask_again:
            run(form, form.slices[0])
            left, above = left - form.slices[0], [*above, FIRST_SLICE]
            form = ask(left, above)
        run(form, left)
    assert num_measured <= (2 if profiles is None else 1)
