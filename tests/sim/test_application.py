"""The simulation of whole applications against closed forms and the simulation of one stage."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagopt.sim.app_values import AppExecutor, AppRun, AppStage, AppTask
from dagopt.sim.application import simulate
from tests.sim.cases import LINK, controller


def executors(num_hosts: int, cores: float = 1.0) -> list[AppExecutor]:
    return [
        AppExecutor(executor=str(n), host=f"h{n}", cores=cores) for n in range(1, num_hosts + 1)
    ]


def stage(number: int, tasks: int, io_s: float, cpu_s: float, **more: object) -> AppStage:
    each = AppTask(io_s=io_s, cpu_s=cpu_s, read_bytes=round(io_s * LINK))
    # With a single source, its link would be what tasks wait for, which is not simulated.
    sources = tuple((f"source-{n}", 1) for n in range(4))
    fields = {"stage": number, "attempt": 0, "source_bytes": sources, "name": f"s at a.py:{number}"}
    return AppStage(tasks=[each] * tasks, **(fields | more))  # type: ignore[arg-type]


def test_waves_of_a_stage() -> None:
    run = simulate([stage(0, 5, 1.0, 2.0)], executors(2))
    assert run.elapsed_s == pytest.approx(9.0)


def test_tasks_of_an_executor_share_the_link_and_then_compute() -> None:
    run = simulate([stage(0, 4, 1.0, 2.0)], executors(1, cores=4))
    assert run.elapsed_s == pytest.approx(4 * 1.0 + 2.0)


def test_more_slots_than_cores_share_the_cores() -> None:
    run = simulate([stage(0, 4, 0.0, 2.0)], executors(1, cores=2), slots_per_core=2)
    assert [each.end_s for each in run.tasks] == pytest.approx([4.0] * 4)


def test_a_launch_takes_a_slot_and_no_core() -> None:
    tasks = [AppTask(io_s=0.0, cpu_s=cpu_s, launch_s=0.5) for cpu_s in (1.0, 2.0, 1.0)]
    stages = [AppStage(stage=0, attempt=0, tasks=tasks)]
    assert simulate(stages, executors(1)).elapsed_s == pytest.approx(3 * 0.5 + 4.0)
    # The third is launched while the second computes.
    assert simulate(stages, executors(1), slots_per_core=2).elapsed_s == pytest.approx(0.5 + 4.0)


def test_a_stage_waits_for_those_that_it_follows_and_for_the_driver() -> None:
    stages = [
        stage(0, 1, 0.0, 2.0, tail_s=0.5),
        stage(1, 1, 0.0, 1.0),
        stage(2, 1, 0.0, 1.0, after=(0, 1), delay_s=0.25),
    ]
    run = simulate(stages, executors(2))
    assert run.end_s == pytest.approx((2.5, 1.0, 3.75))
    assert run.start_s[2] == pytest.approx(2.75)


def test_a_stage_without_tasks_ends() -> None:
    assert simulate([stage(0, 0, 0, 0, tail_s=0.5)], executors(1)).end_s == (0.5,)


def test_an_executor_that_comes_late_and_one_that_goes() -> None:
    cluster = [
        AppExecutor(executor="1", host="a", cores=1, removed_s=1.5),
        AppExecutor(executor="2", host="b", cores=1, added_s=4.0),
    ]
    run = simulate([stage(0, 3, 0.0, 1.0)], cluster)
    assert [(each.executor, each.end_s) for each in run.tasks] == [(0, 1.0), (0, 2.0), (1, 5.0)]


def test_when_all_executors_went_they_come_back() -> None:
    cluster = [AppExecutor(executor="1", host="a", cores=1, removed_s=0.5)]
    assert simulate([stage(0, 2, 0.0, 1.0)], cluster).elapsed_s == pytest.approx(2.0)


def test_the_controller_overlaps_reading_and_computing() -> None:
    first = stage(0, 16, 1.0, 1.0, name="same at a.py:1")
    stages = [first, stage(1, 16, 1.0, 1.0, name=first.name, after=(0,))]
    stock = simulate(stages, executors(2))
    grouped = simulate(stages, executors(2), controller=controller())
    assert stock.elapsed_s == pytest.approx(32.0)
    second_s = grouped.end_s[1] - grouped.start_s[1]
    assert second_s < 0.75 * 16
    assert second_s >= 8 * 1.0 + 1.0 - 1e-6


STAGE = st.tuples(st.integers(1, 6), st.floats(0.0, 3.0), st.floats(0.0, 3.0), st.integers(0, 3))


@given(
    st.lists(STAGE, min_size=1, max_size=4), st.integers(1, 3), st.sampled_from(["stock", "dagopt"])
)
def test_every_task_runs_once_and_nothing_runs_faster_than_alone(
    drawn: list[tuple[int, float, float, int]], num_hosts: int, brain: str
) -> None:
    stages = [
        stage(n, tasks, io_s, cpu_s, after=(back,) if back < n else ())
        for n, (tasks, io_s, cpu_s, back) in enumerate(drawn)
    ]
    cluster = executors(num_hosts, cores=2)
    known = controller() if brain == "dagopt" else None
    run: AppRun = simulate(stages, cluster, controller=known)
    ran = sorted((each.stage, each.task) for each in run.tasks)
    assert ran == [(n, task) for n, told in enumerate(stages) for task in range(len(told.tasks))]
    for each in run.tasks:
        task = stages[each.stage].tasks[each.task]
        assert each.read_s - each.start_s >= task.io_s - 1e-6
        assert each.end_s - each.read_s >= task.cpu_s - 1e-6
        assert each.start_s >= run.start_s[each.stage] - 1e-6
    for n, told in enumerate(stages):
        assert all(run.start_s[n] >= run.end_s[earlier] for earlier in told.after)
    assert math.isfinite(run.elapsed_s)


def test_tasks_wait_for_gpus_and_more_slots_per_core_make_no_more_of_them() -> None:
    cluster = [AppExecutor(executor="1", host="a", cores=4, gpus=1)]
    on_gpu = stage(0, 4, 0.0, 1.0, task_gpus=1.0)
    assert simulate([on_gpu], cluster).elapsed_s == pytest.approx(4.0)
    assert simulate([on_gpu], cluster, slots_per_core=4).elapsed_s == pytest.approx(4.0)
    halves = stage(0, 4, 0.0, 1.0, task_gpus=0.5)
    assert simulate([halves], cluster).elapsed_s == pytest.approx(2.0)


def test_other_stages_run_beside_tasks_that_wait_for_gpus() -> None:
    cluster = [AppExecutor(executor="1", host="a", cores=2, gpus=1)]
    run = simulate([stage(0, 2, 0.0, 1.0, task_gpus=1.0), stage(1, 1, 0.0, 2.0)], cluster)
    assert run.end_s == pytest.approx((2.0, 2.0))
