"""The controller in short scripts: an event in, exactly these instructions out.

One byte per 100 is one second on the network. ``sa`` and ``sb`` are hosts that only serve input.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from dagopt.controller.grouping import GroupingController
from dagopt.model.network import parse_networks
from dagopt.model.wire import (
    Concurrency,
    FromJvm,
    FromPlanner,
    HoldFrom,
    Launch,
    Ping,
    Plan,
    Release,
)
from dagopt.policy.grouping.decide import GroupingSettings
from tests.unit.controller import events as ev

FOUR = [{"sa": 100, "sb": 100}] * 4
UNKNOWN = "I/O-bound: CPU time not yet known; I/O 2.00 s a task; 4 tasks on 1 executors x 1 cores"


def plan(action: str, reason: str, **more: object) -> Plan:
    return Plan(stage=1, attempt=0, action=action, reason=reason, **more)  # type: ignore[arg-type]


def launch(group: int, tasks: list[int], delay_ms: int, executor: str = "1") -> Launch:
    return Launch(
        stage=1, attempt=0, group=group, tasks=tasks, executor=executor, delay_ms=delay_ms
    )


def with_one_core() -> GroupingController:
    """One executor of one core, and four tasks that read 2 s each from everywhere."""
    live = ev.controller()
    assert live.step(ev.added("1", cores=1), 0.0) == [HoldFrom(num_tasks=2)]
    assert live.step(ev.submitted(FOUR), 10.0) == [
        plan("group", UNKNOWN, tasks_per_core=4),
        launch(1, [0], 0),
    ]
    return live


def play(live: GroupingController, *course: tuple[float, FromJvm]) -> list[FromPlanner]:
    """The answers to the last event of a course."""
    out: list[FromPlanner] = []
    for now_s, event in course:
        out = live.step(event, now_s)
    return out


def test_without_executors_spark_gets_its_tasks_back() -> None:
    live = ev.controller()
    assert live.step(ev.submitted(FOUR), 0.0) == [plan("pass", "no executor is known yet")]


def test_a_decision_says_by_what_the_stage_is_recognised() -> None:
    live = ev.controller()
    live.step(msgspec.structs.replace(ev.submitted(FOUR), plan="12"), 0.0)
    assert live.decisions[-1].signature == "count at job.py:1 in plan 12 [Exchange]"


def test_a_task_set_of_less_than_two_waves_is_passed() -> None:
    live = ev.controller()
    live.step(ev.added("1", cores=4), 0.0)
    assert live.step(ev.submitted(FOUR), 0.0) == [
        plan("pass", "its 4 tasks are not 2 waves on 4 cores")
    ]


def test_tasks_of_two_source_hosts_take_turns_where_delays_cannot_help() -> None:
    live = ev.controller()
    live.step(ev.added("1", cores=2), 0.0)
    rows = [{"sa": 5}, {"sa": 5}, {"sb": 5}, {"sb": 5}]
    why = "reads 0.050 s a task, too short for delays; tasks of 2 source hosts take turns"
    assert live.step(ev.submitted(rows), 0.0) == [plan("order", why, order=[0, 2, 1, 3])]


def test_one_group_runs_ahead_of_the_first_that_reads() -> None:
    live = with_one_core()
    assert live.step(ev.started(0, "1"), 10.0) == [launch(2, [1], 2000)]


def test_the_next_group_starts_when_the_one_before_it_has_read() -> None:
    live = with_one_core()
    course = (10.0, ev.started(0, "1")), (11.5, ev.fetched(0, "1"))
    assert play(live, *course) == [launch(2, [1], 0)]


def test_reading_slower_than_planned_puts_the_next_launch_off() -> None:
    live = with_one_core()
    first = (10.0, ev.started(0, "1")), (10.5, ev.fetched(0, "1", 20, done=False))
    assert play(live, *first) == []
    # 20 bytes in half a second and, as predicted, half of its 200 in one: the other 160 take 2 s.
    assert live.step(ev.fetched(0, "1", 40, done=False), 11.0) == [launch(2, [1], 2000)]


def test_where_nothing_is_known_of_the_network_only_what_is_seen_counts() -> None:
    live = ev.controller(bandwidths=replace(ev.BANDWIDTHS, learned={}))
    live.step(ev.added("1", cores=1), 0.0)
    first = (10.0, ev.started(0, "1")), (10.5, ev.fetched(0, "1", 20, done=False))
    play(live, (10.0, ev.submitted(FOUR)), *first)
    # 20 bytes in half a second: the other 160 take 4 s more.
    assert live.step(ev.fetched(0, "1", 40, done=False), 11.0) == [launch(2, [1], 4000)]


def test_a_fetch_ended_when_its_bytes_stopped_to_grow_not_when_that_was_told() -> None:
    costs = []
    for told_s, still_ms in ((11.8, 0), (12.2, 400)):
        live = with_one_core()
        ends = ev.ended(0, "1", from_s=10.0, to_s=14.0, wait_s=1.8)
        course = (10.0, ev.started(0, "1")), (told_s, ev.fetched(0, "1", still_ms=still_ms))
        play(live, *course, (14.0, ends))
        costs.append((live.decisions[-1].io_s, live.decisions[-1].cpu_s))
    assert costs[0] == pytest.approx(costs[1])


def test_no_delay_is_longer_than_allowed() -> None:
    live = ev.controller(grouping=GroupingSettings(max_delay_s=1.5))
    live.step(ev.added("1", cores=1), 0.0)
    live.step(ev.submitted(FOUR), 0.0)
    assert live.step(ev.started(0, "1"), 0.0) == [launch(2, [1], 1500)]


def test_the_longest_delay_is_renewed_when_a_tenth_of_it_has_passed() -> None:
    live = ev.controller()
    live.step(ev.added("1", cores=1), 0.0)
    play(live, (0.0, ev.submitted([{"sa": 5000, "sb": 5000}] * 4)), (0.0, ev.started(0, "1")))
    slow = [(0.5, 50), (0.9, 90), (1.1, 110)]
    out = [live.step(ev.fetched(0, "1", size, done=False), now_s) for now_s, size in slow]
    assert out == [[], [], [launch(2, [1], 10_000)]]


def test_after_the_first_group_the_known_cost_decides_and_the_executor_is_filled() -> None:
    live = with_one_core()
    out = play(
        live,
        (10.0, ev.started(0, "1")),
        (12.0, ev.fetched(0, "1")),
        (12.0, ev.started(1, "1")),
        (14.0, ev.ended(0, "1", from_s=10.0, to_s=14.0, wait_s=2.0)),
    )
    assert out[0] == Concurrency(stage=1, attempt=0, tasks_per_core=3)
    assert all(isinstance(one, Launch) and one.executor == "1" for one in out[1:])
    decision = live.decisions[-1]
    assert (decision.action, decision.io_s, decision.cpu_s) == ("concurrency", 2.0, 2.0)


def test_a_first_group_without_gain_gives_the_rest_back() -> None:
    live = with_one_core()
    out = play(
        live,
        (10.0, ev.started(0, "1")),
        (12.0, ev.fetched(0, "1")),
        (52.0, ev.ended(0, "1", from_s=10.0, to_s=52.0, wait_s=2.0)),
    )
    assert len(out) == 1
    assert isinstance(out[0], Release)
    assert out[0].reason.startswith("CPU-bound: I/O 2.00 s of 42.00 s a task; ")
    assert live.step(ev.started(1, "1"), 52.0) == []


def test_the_same_stage_again_is_decided_by_what_it_took() -> None:
    live = with_one_core()
    for task in range(4):
        begin_s = 10.0 + 5 * task
        play(
            live,
            (begin_s, ev.started(task, "1")),
            (begin_s + 2, ev.fetched(task, "1")),
            (begin_s + 4, ev.ended(task, "1", from_s=0, to_s=4.0, wait_s=2.0)),
        )
    live.step(ev.set_ended(), 30.0)
    out = live.step(ev.submitted(FOUR), 40.0)
    assert isinstance(out[0], Plan)
    assert out[0].reason == (
        "I/O-bound: I/O 2.00 s and CPU 2.00 s a task; 4 tasks on 1 executors x 1 cores:"
        " 16.0 s as Spark runs it, 10.0 s in groups; 3 tasks per core"
    )
    assert out[1:] == [launch(1, [0], 0), launch(2, [1], 2000), launch(3, [2], 4000)]


def test_a_lost_executor_with_tasks_gives_the_rest_back() -> None:
    live = with_one_core()
    live.step(ev.added("2", cores=1), 10.0)
    assert live.step(ev.removed("1"), 10.0) == [
        HoldFrom(num_tasks=2),
        Release(stage=1, attempt=0, reason="executor 1 was lost"),
    ]
    assert live.step(ev.removed("1"), 10.0) == []
    assert live.decisions[-1].action == "release"


def test_a_new_executor_gets_a_group_of_what_is_held() -> None:
    live = with_one_core()
    assert live.step(ev.added("2", cores=1), 10.0) == [
        HoldFrom(num_tasks=4),
        launch(2, [1], 0, executor="2"),
    ]


def test_every_executor_gets_its_share_of_a_small_stage() -> None:
    live = ev.controller()
    for executor in ("1", "2"):
        live.step(ev.added(executor, cores=1), 0.0)
    live.step(ev.submitted(FOUR, stage=0), 0.0)
    for executor, task in (("1", 0), ("2", 1), ("1", 2), ("2", 3)):
        play(
            live,
            (0.0, ev.started(task, executor, stage=0)),
            (2.0, ev.fetched(task, executor, stage=0)),
            (4.0, ev.ended(task, executor, from_s=0, to_s=4.0, wait_s=2.0, stage=0)),
        )
    live.step(ev.set_ended(0), 4.0)
    out = [one for one in live.step(ev.submitted(FOUR), 5.0) if isinstance(one, Launch)]
    assert [one.executor for one in out] == ["1", "2", "1", "2"]


def test_new_hosts_open_lanes_of_an_input_host_set_that_is_in_use() -> None:
    live = ev.controller()
    live.step(ev.added("1", cores=1), 0.0)
    live.step(ev.submitted(FOUR), 0.0)
    live.step(ev.started(0, "1"), 0.0)
    # Two hosts serve, and now two hosts read: neither waits for the other.
    assert live.step(ev.added("2", cores=1), 0.5) == [
        HoldFrom(num_tasks=4),
        launch(3, [2], 0, executor="2"),
    ]


@pytest.mark.parametrize(("source", "delays_ms"), [("s1", [0, 2000]), ("", [0, 0])])
def test_hosts_take_turns_at_a_source_unless_it_is_no_single_machine(
    source: str, delays_ms: list[int]
) -> None:
    live = ev.controller()
    live.step(ev.added("1"), 0.0)
    live.step(ev.added("2"), 0.0)
    out = live.step(ev.submitted([{source: 100}] * 8), 0.0)
    launches = [each for each in out if isinstance(each, Launch)]
    assert [(each.executor, each.delay_ms) for each in launches] == [
        ("1", delays_ms[0]),
        ("2", delays_ms[1]),
    ]


def test_groups_of_another_input_host_set_are_not_delayed() -> None:
    live = ev.controller(networks=parse_networks("r1=sa;r2=sb"))
    live.step(ev.added("1", cores=1), 0.0)
    live.step(ev.submitted([{"sa": 200}, {"sb": 200}, {"sa": 200}, {"sb": 200}]), 0.0)
    assert live.step(ev.started(0, "1"), 0.0) == [launch(2, [1], 0)]


@pytest.mark.parametrize(("scope", "action"), [("Scan", "group"), ("GpuScan parquet ", "pass")])
def test_what_a_gpu_does_is_not_taken_for_reading(scope: str, action: str) -> None:
    """The first tasks of a file stage take 2 s, 0.2 s of it JVM CPU time."""
    live = ev.controller()
    live.step(ev.added("1", cores=1), 0.0)
    out: list[FromPlanner] = []
    for stage in (0, 1):
        told = ev.submitted([{"sa": 100}] * 4, stage=stage, shuffle_type="source")
        out = live.step(msgspec.structs.replace(told, scopes=[scope]), 10.0 * stage)
        for task in range(4):
            live.step(ev.started(task, "1", stage=stage), 10.0 * stage + 2 * task)
            ended = ev.ended(task, "1", from_s=0, to_s=2, stage=stage)
            live.step(msgspec.structs.replace(ended, cpu_ms=200), 10.0 * stage + 2 * task + 2)
        live.step(ev.set_ended(stage), 10.0 * stage + 9)
    assert [each.action for each in out if isinstance(each, Plan)] == [action]


def test_explain_decides_and_holds_nothing() -> None:
    live = ev.controller()
    live.step(ev.added("1", cores=1), 0.0)
    out = live.step(ev.submitted(FOUR, hold=False), 0.0)
    assert out == [plan("group", UNKNOWN, tasks_per_core=4)]
    assert live.step(ev.started(0, "1"), 0.0) == []


def test_a_speculative_copy_starts_no_group() -> None:
    live = with_one_core()
    live.step(ev.started(0, "1"), 10.0)
    assert live.step(ev.started(1, "1", speculative=True), 10.0) == []


def test_a_failed_task_teaches_nothing_and_holds_nothing_up() -> None:
    live = with_one_core()
    out = play(live, (10.0, ev.started(0, "1")), (11.0, ev.ended(0, "1", ok=False)))
    # Its group has read, so the next may; it has no cost, so nothing is decided anew.
    assert out == [launch(2, [1], 0)]


def test_costs_are_calculated_anew_on_the_two_triggers_only() -> None:
    live = ev.controller()
    counts = []
    for now_s, event in (
        (0.0, ev.added("1", cores=1)),
        (0.0, ev.submitted(FOUR)),
        (0.0, ev.started(0, "1")),
        (1.0, ev.fetched(0, "1", 50, done=False)),
        (2.0, ev.fetched(0, "1")),
        (3.0, ev.ended(0, "1", wait_s=0.5)),
        (3.0, ev.added("2", cores=1)),
        (3.0, ev.removed("9")),
        (3.0, ev.set_ended()),
    ):
        live.step(event, now_s)
        counts.append(live.num_recalculations)
    assert counts == [1, 1, 1, 1, 1, 2, 3, 3, 3]


def test_cores_that_idle_while_tasks_are_held_are_counted() -> None:
    live = with_one_core()
    play(live, (10.5, ev.started(0, "1")), (12.5, ev.fetched(0, "1")))
    assert live.idle_hold_s == 0.5


def test_messages_that_are_no_events_of_the_cluster_change_nothing() -> None:
    live = with_one_core()
    assert live.step(Ping(seq=1), 10.0) == []


def test_unknown_stages_and_executors_are_passed_over() -> None:
    live = with_one_core()
    for event in (
        ev.started(0, "1", stage=9),
        ev.started(0, "nobody"),
        ev.fetched(0, "nobody"),
        ev.fetched(3, "1"),
        ev.ended(0, "nobody"),
        ev.ended(3, "1"),
        ev.set_ended(9),
        ev.added("1", cores=8),
        ev.added("3", cores=0),
    ):
        assert live.step(event, 10.0) == []
    assert live.step(ev.started(0, "1"), 10.0) == [launch(2, [1], 2000)]


def test_a_bandwidth_that_no_group_has_shown_times_no_launch() -> None:
    """A prior may be far off: the second group waits until the first one's reading is seen."""
    live = ev.controller(bandwidths=replace(ev.BANDWIDTHS, learned={}))
    live.step(ev.added("1", cores=1), 0.0)
    live.step(ev.submitted([{"a": 200}] * 4), 10.0)
    assert live.step(ev.started(0, "1"), 10.0) == [launch(2, [1], 10_000)]
    assert live.step(ev.fetched(0, "1"), 11.0) == [launch(2, [1], 0)]
