"""The controller under any course of events.

With a driver that keeps Spark's promises, every held task is launched or released in the end, and at
no moment are tasks held while nothing runs and no launch is on its way. With a driver that says
nonsense, nothing worse than an InputError comes out, and what ends leaves nothing behind.
"""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagopt.controller.grouping import MAX_DECISIONS, GroupingController
from dagopt.controller.knowledge import MAX_STAGES
from dagopt.errors import InputError
from dagopt.model.wire import FromJvm, ShuffleType
from tests.property.driver import Driver, check
from tests.unit.controller import events as ev


def random_rows(chance: random.Random, num_tasks: int) -> list[dict[str, int]]:
    hosts = ["h1", "h2", "h3", "s1", "s2"]
    kind = chance.choice(("wide", "one", "some"))
    rows = []
    for _ in range(num_tasks):
        if kind == "wide":
            names = hosts
        else:
            names = chance.sample(hosts, 1 if kind == "one" else chance.randint(0, 4))
        rows.append({name: chance.choice((0, 50, 200, 1000)) for name in names})
    return rows


@settings(max_examples=120)
@given(st.integers(0, 2**32))
def test_every_held_task_is_launched_or_released_by_the_time_the_others_end(seed: int) -> None:
    chance = random.Random(seed)
    live = ev.controller()
    executors = [str(number + 1) for number in range(chance.randint(1, 3))]
    for executor in executors:
        live.step(ev.added(executor, cores=chance.choice((0.5, 1, 2, 4))), 0.0)
    now_s = 0.0
    for stage in range(chance.randint(1, 3)):
        shuffle: ShuffleType = chance.choice(("wide", "wide", "narrow", "source"))
        rows = random_rows(chance, chance.randint(1, 24))
        message = ev.submitted(
            rows, stage=stage, can_raise=chance.random() < 0.8, shuffle_type=shuffle
        )
        driver = Driver(
            live, message, chance, executors, now_s=now_s, next_executor=100 * stage + 100
        )
        driver.run()
        now_s = driver.now_s
        assert not driver.held
    assert_nothing_is_left(live)


def assert_nothing_is_left(live: GroupingController) -> None:
    assert live.stages == {}
    assert live.tasks.running == {}
    assert live.tasks.sources == {}
    for executor in live.tasks.executors.values():
        assert (executor.running, executor.reading, executor.compute.sharers) == (0, 0, 0)
    for host in live.tasks.hosts.values():
        assert host.link.sharers == 0


ids = st.integers(0, 2)
tasks = st.integers(0, 7)
names = st.sampled_from(("1", "2", "nobody"))
rows = st.lists(
    st.dictionaries(
        st.sampled_from(("h1", "h2", "s1")), st.sampled_from((0, 100, 900)), max_size=3
    ),
    min_size=1,
    max_size=8,
)
anything: st.SearchStrategy[FromJvm] = st.one_of(
    st.builds(ev.added, names, cores=st.sampled_from((-1, 0, 0.5, 1, 2))),
    st.builds(ev.removed, names),
    st.builds(ev.submitted, rows, stage=ids, attempt=st.integers(0, 1), hold=st.booleans()),
    st.builds(ev.started, tasks, names, stage=ids, speculative=st.booleans()),
    st.builds(ev.started, tasks, names, stage=ids),
    st.builds(ev.fetched, tasks, names, st.integers(-5, 1000), done=st.booleans(), stage=ids),
    st.builds(
        ev.ended,
        tasks,
        names,
        from_s=st.integers(0, 5),
        to_s=st.integers(0, 5),
        wait_s=st.integers(0, 9),
        ok=st.booleans(),
        stage=ids,
        speculative=st.booleans(),
    ),
    st.builds(ev.set_ended, ids, st.integers(0, 1)),
)


@settings(max_examples=250)
@given(st.lists(st.tuples(anything, st.integers(-1, 3)), max_size=60))
def test_nonsense_raises_nothing_but_an_input_error_and_leaves_no_state(
    course: list[tuple[FromJvm, int]],
) -> None:
    live = ev.controller()
    now_s = 100.0
    live.step(ev.added("1"), now_s)
    live.step(ev.submitted([{"s1": 900}] * 8, stage=0), now_s)
    for event, wait_s in course:
        now_s += wait_s
        with suppress(InputError):
            live.step(event, now_s)
        check(live)
    for stage in range(3):
        for attempt in range(2):
            live.step(ev.set_ended(stage, attempt), now_s)
    assert_nothing_is_left(live)


def test_ten_thousand_task_sets_leave_nothing_behind() -> None:
    live = ev.controller()
    live.step(ev.added("1"), 0.0)
    for stage in range(10_000):
        name = f"count at job.py:{stage}"
        live.step(ev.submitted([{"s1": 900}] * 3, stage=stage, name=name), float(stage))
        live.step(ev.started(0, "1", stage=stage), float(stage))
        live.step(ev.ended(0, "1", stage=stage, wait_s=0.5), stage + 0.5)
        live.step(ev.set_ended(stage), stage + 0.5)
    assert_nothing_is_left(live)
    assert live.num_task_sets == 10_000
    assert len(live.decisions) == MAX_DECISIONS
    assert len(live.knowledge) == MAX_STAGES
    assert len(live.bandwidths.learned) == len(ev.BANDWIDTHS.learned)


@pytest.mark.parametrize("task", [8, -1, 10**9])
def test_a_task_that_the_set_does_not_have_is_an_input_error(task: int) -> None:
    live = ev.controller()
    live.step(ev.added("1"), 0.0)
    live.step(ev.submitted([{"s1": 900}] * 8), 0.0)
    with pytest.raises(InputError) as caught:
        live.step(ev.started(task, "1"), 0.0)
    assert str(caught.value) == f"stage 1.0: task is {task}, must be 0 to 7"
    check(live)
