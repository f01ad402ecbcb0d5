"""Input host sets against sets of names, task by task."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dagopt.model.network import InputHostSet, Networks
from dagopt.model.task_set import TaskInputs, task_inputs
from dagopt.model.wire import SparseInputs, TaskSetSubmitted
from dagopt.policy.grouping.host_sets import HostSets, classify, main_source, patterns
from tests.property.strategies import HOSTS, networks, task_sets

readers = st.sampled_from((*HOSTS, "elsewhere"))


def hosts_read(inputs: TaskInputs, task: int) -> set[str]:
    row = inputs.dense()[task]
    return {name for name, size in zip(inputs.host_names, row, strict=True) if size > 0}


def set_of(names: set[str], nets: Networks, reader: str) -> InputHostSet:
    """The definition: the host itself is local, all others count by their network."""
    others = {nets.of(name) for name in names if name != reader}
    return InputHostSet(local=reader in names, networks=tuple(sorted(others)))


@given(task_sets(), networks(), readers)
def test_the_set_of_each_task_is_that_of_its_hosts(
    message: TaskSetSubmitted, nets: Networks, reader: str
) -> None:
    inputs = task_inputs(message)
    found = HostSets(inputs, nets)
    for task in range(inputs.num_tasks):
        assert found.of(task, reader) == set_of(hosts_read(inputs, task), nets, reader)


@given(task_sets(), networks(), readers)
def test_classes_are_not_empty_and_every_task_is_in_exactly_its_own(
    message: TaskSetSubmitted, nets: Networks, reader: str
) -> None:
    inputs = task_inputs(message)
    expected: dict[InputHostSet, list[int]] = {}
    for task in range(inputs.num_tasks):
        expected.setdefault(set_of(hosts_read(inputs, task), nets, reader), []).append(task)
    found = classify(inputs, nets, reader)
    assert {name: tasks.tolist() for name, tasks in found.items()} == expected
    assert list(found) == sorted(expected)
    assert all(tasks.size for tasks in found.values())


@given(task_sets())
def test_tasks_have_one_pattern_exactly_if_they_read_from_the_same_hosts(
    message: TaskSetSubmitted,
) -> None:
    inputs = task_inputs(message)
    found = patterns(inputs)
    for task in range(inputs.num_tasks):
        names = {inputs.host_names[host] for host in found.hosts[found.of_task[task]]}
        assert names == hosts_read(inputs, task)
    assert len(set(found.hosts)) == found.num_patterns


@given(task_sets(), networks(), readers)
def test_a_shared_row_is_classed_as_the_same_bytes_written_out(
    message: TaskSetSubmitted, nets: Networks, reader: str
) -> None:
    inputs = task_inputs(message)
    dense = inputs.dense()
    rows, hosts = np.nonzero(dense)
    written = TaskInputs(
        host_names=inputs.host_names,
        task_bytes=dense.sum(axis=1),
        offsets=np.searchsorted(rows, np.arange(inputs.num_tasks + 1)),
        hosts=hosts,
        bytes_=dense[rows, hosts],
        shared=False,
    )
    ours, theirs = classify(inputs, nets, reader), classify(written, nets, reader)
    assert ours.keys() == theirs.keys()
    for name, tasks in ours.items():
        np.testing.assert_array_equal(tasks, theirs[name])


@given(task_sets())
def test_the_main_source_is_the_host_with_more_than_half(message: TaskSetSubmitted) -> None:
    inputs = task_inputs(message)
    raw = message.inputs
    for task, main in enumerate(main_source(inputs).tolist()):
        sizes = [0] * len(message.hosts)
        if isinstance(raw, SparseInputs):
            for entry in range(raw.offsets[task], raw.offsets[task + 1]):
                sizes[raw.hosts[entry]] += raw.bytes[entry]
        elif raw.task_bytes[task] > 0:
            sizes = list(raw.host_bytes)
        heavy = [host for host, size in enumerate(sizes) if 2 * size > sum(sizes)]
        if heavy and 2 * sizes[heavy[0]] * (1 - 1e-9) < sum(sizes):
            continue  # too close to a half for a float to tell
        assert main == (heavy[0] if heavy else -1)


@given(task_sets(), readers)
def test_more_rules_never_make_more_networks_than_hosts(
    message: TaskSetSubmitted, reader: str
) -> None:
    inputs = task_inputs(message)
    apart = Networks(hosts={host: f"own-{host}" for host in HOSTS})
    together = Networks(hosts=dict.fromkeys(HOSTS, "one"))
    for task in range(inputs.num_tasks):
        names = hosts_read(inputs, task)
        assert len(HostSets(inputs, apart).of(task, reader).networks) == len(names - {reader})
        assert len(HostSets(inputs, together).of(task, reader).networks) == bool(names - {reader})
