"""Delays are corrected as if every delayed group of the set were planned anew each time."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from dagopt.controller.grouping import GroupingController
from dagopt.controller.launcher import RETIME_S, Launcher
from dagopt.controller.state import StageState
from dagopt.model.network import InputHostSet
from dagopt.model.wire import FromJvm, FromPlanner, Launch, ShuffleType
from dagopt.policy.grouping.decide import GroupingSettings
from dagopt.policy.grouping.lanes import Lanes
from tests.property.driver import Driver
from tests.unit.controller import events as ev

GROUPING = GroupingSettings(max_delay_s=6.0)


def start_s(lanes: Lanes, host: str, now_s: float) -> float:
    """As :meth:`Lanes.start_s`, from what is kept of single groups alone."""
    own_s = max([now_s, *lanes.until_s.get(host, {}).values()])
    others = (max(own.values()) for reader, own in lanes.until_s.items() if reader != host)
    busy = sorted(end_s for end_s in others if end_s > own_s)
    return busy[-lanes.num_lanes] if len(busy) >= lanes.num_lanes else own_s


class SlowLauncher(Launcher):
    """Plans all delayed groups of a set again."""

    def retime(self, stage: StageState, host_set: InputHostSet, now_s: float) -> list[FromPlanner]:
        lanes = stage.lanes[host_set]
        delayed = sorted(
            (g for g in stage.groups.values() if g.host_set == host_set and g.launch_s > now_s),
            key=lambda group: (group.launch_s, group.group),
        )
        for group in delayed:
            lanes.free(group.group, group.host)
        out: list[FromPlanner] = []
        for group in delayed:
            turn_s = max(now_s, start_s(lanes, group.host, now_s) - group.lead_s)
            if turn_s > now_s + GROUPING.max_delay_s:
                is_fresh = now_s <= group.launch_s - 0.9 * GROUPING.max_delay_s
                turn_s = group.launch_s if is_fresh else now_s + GROUPING.max_delay_s
            lanes.occupy(group.group, group.host, turn_s + group.reading_s)
            if abs(turn_s - group.launch_s) <= RETIME_S:
                continue
            group.launch_s = turn_s
            out.append(
                Launch(
                    stage=stage.task_set.stage,
                    attempt=stage.task_set.attempt,
                    group=group.group,
                    tasks=list(group.tasks),
                    executor=group.executor,
                    delay_ms=max(0, round((turn_s - now_s) * 1000)),
                )
            )
        return out


class Compared(GroupingController):
    """A controller that answers as its slow twin does, or the test fails."""

    def __init__(self) -> None:
        known = ev.controller(grouping=GROUPING).settings
        super().__init__(known)
        self.slow = GroupingController(known)
        self.slow._launcher = SlowLauncher(GROUPING)

    def step(self, event: FromJvm, now_s: float) -> list[FromPlanner]:
        out = super().step(event, now_s)
        assert out == self.slow.step(event, now_s)
        return out


def rows_of(chance: random.Random, num_tasks: int) -> list[dict[str, int]]:
    """Bytes by host: from one host or from all, short reads and some that are longer than delays."""
    hosts = ["h1", "h2", "h3", "h4", "s1", "s2"]
    sizes = chance.choice(((100,), (20, 50, 200), (30, 1000)))
    alike = chance.choice((hosts, hosts[:2], hosts[4:5], hosts[4:5], None))
    return [
        {
            name: chance.choice(sizes)
            for name in alike or chance.sample(hosts, chance.choice((1, 2)))
        }
        for _ in range(num_tasks)
    ]


@settings(max_examples=200)
@given(st.integers(0, 2**32))
def test_decisions_equal_those_of_planning_every_group_again(seed: int) -> None:
    chance = random.Random(seed)
    live = Compared()
    executors = [str(number + 1) for number in range(chance.randint(1, 6))]
    num_hosts = chance.choice((2, 6))
    for number, executor in enumerate(executors):
        cores = chance.choice((0.5, 1, 2, 4))
        live.step(ev.added(executor, host=f"h{number % num_hosts + 1}", cores=cores), 0.0)
    now_s = 0.0
    for stage in range(3):
        shuffle: ShuffleType = chance.choice(("wide", "wide", "narrow", "source"))
        rows = rows_of(chance, chance.randint(4, 40))
        message = ev.submitted(rows, stage=stage, can_raise=True, shuffle_type=shuffle)
        driver = Driver(
            live, message, chance, executors, now_s=now_s, next_executor=100 * stage + 100
        )
        driver.run()
        now_s = driver.now_s


lanes_of = st.lists(
    st.tuples(st.sampled_from("abcd"), st.integers(0, 5), st.one_of(st.none(), st.integers(0, 9))),
    max_size=30,
)


@given(st.integers(1, 3), lanes_of, st.integers(0, 9))
def test_a_start_equals_that_from_single_groups(
    num_lanes: int, changes: list[tuple[str, int, int | None]], now_s: float
) -> None:
    lanes = Lanes(num_lanes=num_lanes)
    for host, group, until_s in changes:
        if until_s is None:
            lanes.free(group, host)
        else:
            lanes.occupy(group, host, until_s)
        for reader in "abcde":
            assert lanes.start_s(reader, now_s) == start_s(lanes, reader, now_s)
