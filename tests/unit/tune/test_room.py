"""How many slots there are and what each has: executors that come and go, containers, accelerators."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dagopt.spark.phases import Slots, slots_now
from dagopt.tune import room
from dagopt.tune.places import AllSlots
from dagopt.tune.room import Memory, Room, cgroup_bytes
from tests.unit.tune.one_process import Context, executor

GIB = 1 << 30


def profile(gpus: float, cpus: float = 1) -> Any:
    amounts = {"gpu": SimpleNamespace(amount=gpus), "cpus": SimpleNamespace(amount=cpus)}
    return SimpleNamespace(taskResources=amounts, executorResources={})


def cluster(*executors: Any, **conf: str) -> Context:
    context = Context()
    context.master = "spark://host:7077"
    context.executors = [executor("driver", 0), *executors]
    context.conf = {key.replace("_", "."): value for key, value in conf.items()}
    return context


def test_slots_are_the_cores_of_executors_by_those_of_a_task() -> None:
    context = cluster(executor("a", 5), executor("a", 4), executor("b", 8), spark_task_cpus="2")
    context.conf["spark.default.parallelism"] = "200"
    assert slots_now(context, None) == Slots(total=8, on_a_host=4, heap_bytes=2 * GIB)
    assert slots_now(cluster(), None).total == 1


@pytest.mark.parametrize(
    ("gpus", "cpus", "total"), [(1, 1, 3), (0.5, 1, 6), (2, 1, 1), (1, 4, 2), (0.4, 1, 6)]
)
def test_slots_of_a_profile_are_its_accelerators_where_there_are_cores(
    gpus: float, cpus: float, total: int
) -> None:
    context = cluster(executor("a", 4, 2), executor("b", 4, 1), executor("c", 4))
    assert slots_now(context, profile(gpus, cpus)).total == total


def test_executors_that_come_by_demand_count_before_they_are_there() -> None:
    context = cluster(executor("a", 4))
    context.conf |= {"spark.dynamicAllocation.enabled": "true"}
    assert slots_now(context, None).total == 4
    context.conf |= {"spark.dynamicAllocation.maxExecutors": "10"}
    assert slots_now(context, None).total == 40
    context.conf = {"spark.executor.instances": "3"}
    assert slots_now(context, None).total == 12


def test_capacity_follows_the_executors(monkeypatch: pytest.MonkeyPatch) -> None:
    context = cluster(executor("a", 4, 2), spark_executor_memory="6g")
    seen = Memory(accelerator_bytes=None, machine_bytes=22 * GIB, process_bytes=None)
    monkeypatch.setattr(room, "task_memory", lambda _: seen)
    measured = Room(context, None, None, 0.0)
    measured.measure(AllSlots(context, None))
    assert (measured.now().num_slots, measured.now().memory_bytes) == (4, 4 * GIB)
    context.executors.append(executor("a", 4))
    assert (measured.now().num_slots, measured.now().memory_bytes) == (8, 10 * GIB // 8)


@pytest.mark.parametrize(
    ("seen", "held", "expected"),
    [
        (Memory(accelerator_bytes=8 * GIB, machine_bytes=GIB, process_bytes=None), 1, 8 * GIB),
        (Memory(accelerator_bytes=8 * GIB, machine_bytes=GIB, process_bytes=None), 0.5, 4 * GIB),
        (Memory(accelerator_bytes=None, machine_bytes=9 * GIB, process_bytes=GIB), 1, GIB),
        (Memory(accelerator_bytes=None, machine_bytes=20 * GIB, process_bytes=None), 1, GIB),
    ],
    ids=["accelerator", "half of one", "limit of the process", "all but a tenth is the JVM's"],
)
def test_memory_of_a_slot(
    seen: Memory, held: float, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = cluster(executor("a", 4, 2), spark_executor_memory="64g")
    if seen.process_bytes:
        context.conf["spark.executor.memory"] = "1g"
    measured = Room(context, None if held == 0 else profile(held), None, 0.0)
    monkeypatch.setattr("dagopt.tune.places.run_tasks", lambda *_: [seen])
    measured.measure(AllSlots(context, None))
    assert measured.now().memory_bytes == expected


def test_the_lowest_limit_of_a_group_and_those_above_counts(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("12:cpu,cpuacct:/x\n0::/pod/main\n")
    (tmp_path / "pod" / "main").mkdir(parents=True)
    assert cgroup_bytes(tmp_path, own) is None
    (tmp_path / "pod" / "main" / "memory.max").write_text("max\n")
    (tmp_path / "pod" / "memory.max").write_text("4096\n")
    assert cgroup_bytes(tmp_path, own) == 4096
    own.write_text("5:memory:/gone\n0::/\n")
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text("1024\n")
    assert cgroup_bytes(tmp_path, own) == 1024
    assert cgroup_bytes(tmp_path, tmp_path / "none") is None
