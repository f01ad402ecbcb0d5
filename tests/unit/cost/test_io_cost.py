"""I/O cost of single tasks, written out by hand."""

from __future__ import annotations

import pytest

from dagopt.cost.bandwidth import Bandwidths
from dagopt.cost.io_cost import all_tasks_s, reader_cost, source_hosts
from dagopt.model.network import InputHostSet, Networks, parse_networks
from dagopt.model.task_set import TaskInputs, task_inputs
from dagopt.model.wire import OuterInputs, SparseInputs, TaskSetSubmitted

NETWORKS = parse_networks("r1=a,b;r2=c")
BANDWIDTHS = Bandwidths(
    network_bytes_per_s=100.0,
    disk_bytes_per_s=1000.0,
    latency_s=0.5,
    learned={("r1", "r2"): 50.0},
)


def inputs_of(inputs: SparseInputs | OuterInputs, num_tasks: int) -> TaskInputs:
    return task_inputs(
        TaskSetSubmitted(
            time_ms=0,
            stage=1,
            attempt=0,
            num_tasks=num_tasks,
            name="",
            scopes=[],
            inputs=inputs,
            hosts=["a", "b", "c"],
            shuffle_types=["wide"],
        )
    )


def set_of(*networks: str, local: bool = False) -> InputHostSet:
    return InputHostSet(local=local, networks=networks)


#: Task 0 reads 1000 from a, 200 from b and 300 from c; task 1 reads nothing; task 2 50 from c.
INPUTS = inputs_of(
    SparseInputs(offsets=[0, 3, 3, 4], hosts=[0, 1, 2, 2], bytes=[1000, 200, 300, 50]), 3
)


def test_source_hosts_know_their_networks() -> None:
    sources = source_hosts(INPUTS, NETWORKS)
    assert sources.networks == ("r1", "r2")
    assert sources.code.tolist() == [0, 0, 1]
    assert sources.index == {"a": 0, "b": 1, "c": 2}


def test_own_bytes_cost_the_disk_and_others_the_network_between() -> None:
    cost = reader_cost(INPUTS, source_hosts(INPUTS, NETWORKS), "a", "r1", BANDWIDTHS)
    assert all_tasks_s(INPUTS, cost) == pytest.approx([1000 / 1000 + 200 / 100 + 300 / 50, 0, 1.0])


def test_a_group_costs_network_with_latency_and_disk_apart() -> None:
    cost = reader_cost(INPUTS, source_hosts(INPUTS, NETWORKS), "a", "r1", BANDWIDTHS)
    network_s, local_s = cost.tasks_s(INPUTS, [0, 2], set_of("r1", "r2", local=True))
    assert network_s == pytest.approx(200 / 100 + 300 / 50 + 50 / 50 + 2 * 2 * 0.5)
    assert local_s == pytest.approx(1000 / 1000)


def test_a_host_that_serves_nothing_reads_everything_over_the_network() -> None:
    cost = reader_cost(INPUTS, source_hosts(INPUTS, NETWORKS), "z", "r2", BANDWIDTHS)
    assert cost.own is None
    network_s, local_s = cost.tasks_s(INPUTS, [0], set_of("r1"))
    assert network_s == pytest.approx(15.0 + 0.5)
    assert local_s == 0.0


def test_a_shared_row_costs_by_the_task_bytes() -> None:
    inputs = inputs_of(OuterInputs(task_bytes=[400, 800], host_bytes=[2, 1, 1]), 2)
    cost = reader_cost(inputs, source_hosts(inputs, NETWORKS), "a", "r1", BANDWIDTHS)
    one = 200 / 1000 + 100 / 100 + 100 / 50
    assert all_tasks_s(inputs, cost) == pytest.approx([one, 2 * one])
    network_s, local_s = cost.tasks_s(inputs, [0], set_of("r2", local=True))
    assert network_s == pytest.approx(one - 0.2 + 0.5)
    assert local_s == pytest.approx(0.2)


def test_a_task_set_that_reads_nothing_costs_nothing() -> None:
    inputs = inputs_of(SparseInputs(offsets=[0, 0], hosts=[], bytes=[]), 1)
    cost = reader_cost(inputs, source_hosts(inputs, Networks()), "a", "default", BANDWIDTHS)
    assert all_tasks_s(inputs, cost).tolist() == [0]
    assert cost.tasks_s(inputs, [0], set_of()) == (0, 0)
