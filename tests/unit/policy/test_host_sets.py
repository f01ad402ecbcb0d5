"""Input host sets of a few tasks, and the host that a task mainly reads from."""

from __future__ import annotations

import msgspec

from dagopt.model.network import InputHostSet, parse_networks
from dagopt.model.task_set import TaskInputs, task_inputs
from dagopt.model.wire import OuterInputs, SparseInputs, TaskSetSubmitted
from dagopt.policy.grouping.host_sets import HostSets, classify, main_source, patterns
from tests.unit.controller import events as ev

NETWORKS = parse_networks("r1=a,b;r2=c,d")


def inputs_of(rows: list[dict[str, int]]) -> TaskInputs:
    hosts = ["a", "b", "c", "d"]
    offsets, index, sizes = [0], [], []
    for row in rows:
        index += [hosts.index(host) for host in row]
        sizes += list(row.values())
        offsets.append(len(index))
    return made(SparseInputs(offsets=offsets, hosts=index, bytes=sizes), len(rows))


def made(inputs: SparseInputs | OuterInputs, num_tasks: int) -> TaskInputs:
    return task_inputs(
        TaskSetSubmitted(
            time_ms=0,
            stage=1,
            attempt=0,
            num_tasks=num_tasks,
            name="",
            scopes=[],
            inputs=inputs,
            hosts=["a", "b", "c", "d"],
            shuffle_types=["wide"],
        )
    )


def classes(inputs: TaskInputs, reader: str) -> dict[str, list[int]]:
    return {
        str(host_set): [int(task) for task in tasks]
        for host_set, tasks in classify(inputs, NETWORKS, reader).items()
    }


def test_hosts_of_one_network_count_as_one() -> None:
    inputs = inputs_of([{"c": 1}, {"d": 1}, {"c": 1, "d": 1}, {"b": 1}])
    assert classes(inputs, "a") == {"r1": [3], "r2": [0, 1, 2]}


def test_the_reading_hosts_own_input_is_local_and_its_network_only_with_a_neighbour() -> None:
    inputs = inputs_of([{"a": 1}, {"a": 1, "b": 1}, {"a": 1, "c": 1}, {"b": 1}])
    assert classes(inputs, "a") == {"local": [0], "local + r1": [1], "local + r2": [2], "r1": [3]}
    assert classes(inputs, "c") == {"r1": [0, 1, 3], "local + r1": [2]}


def test_no_bytes_from_a_host_means_not_from_that_host() -> None:
    assert classes(inputs_of([{"a": 0, "c": 5}, {}]), "a") == {"nothing": [1], "r2": [0]}


def test_a_shared_row_is_one_class_and_its_empty_tasks_another() -> None:
    both = made(OuterInputs(task_bytes=[1, 0, 3], host_bytes=[1, 0, 1, 0]), 3)
    assert classes(both, "a") == {"nothing": [1], "local + r2": [0, 2]}


def test_a_shared_row_that_nobody_reads_makes_no_class_of_its_own() -> None:
    nobody = made(OuterInputs(task_bytes=[0, 0], host_bytes=[1, 0, 1, 0]), 2)
    assert classes(nobody, "a") == {"nothing": [0, 1]}


def test_many_tasks_of_one_shuffle_have_one_pattern() -> None:
    found = patterns(inputs_of([{"a": 1, "b": 2}] * 50))
    assert found.num_patterns == 1
    assert found.hosts == ((0, 1),)


def test_a_reader_with_a_copy_of_the_blocks_reads_from_no_other_host() -> None:
    inputs = inputs_of([{"a": 4, "c": 4}])
    blocks = HostSets(inputs, NETWORKS, replicas=True)
    assert blocks.of(0, "a") == InputHostSet(local=True, networks=())
    assert blocks.of(0, "b") == InputHostSet(local=False, networks=("r1", "r2"))
    assert HostSets(inputs, NETWORKS).of(0, "a") == InputHostSet(local=True, networks=("r2",))


def test_the_main_source_holds_more_than_half() -> None:
    rows = [{"a": 6, "b": 4}, {"a": 5, "b": 5}, {}, {"c": 1}, {"a": 3, "b": 3, "c": 7}]
    assert main_source(inputs_of(rows)).tolist() == [0, -1, -1, 2, 2]


def test_the_main_source_of_a_shared_row() -> None:
    main = main_source(made(OuterInputs(task_bytes=[1, 0], host_bytes=[0, 3, 1, 0]), 2))
    assert main.tolist() == [1, -1]
    even = main_source(made(OuterInputs(task_bytes=[1, 1], host_bytes=[1, 1, 0, 0]), 2))
    assert even.tolist() == [-1, -1]


def test_what_lies_on_no_host_in_particular_is_no_main_source() -> None:
    message = ev.submitted([{"": 9, "a": 1}, {"": 1, "a": 9}])
    assert main_source(task_inputs(message)).tolist() == [-1, 1]
    margins = OuterInputs(task_bytes=[1, 1], host_bytes=[9, 1])
    shared = task_inputs(msgspec.structs.replace(message, inputs=margins))
    assert main_source(shared).tolist() == [-1, -1]
