"""I/O cost against three nested loops, and what must make it grow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dagopt.cost.bandwidth import Bandwidths
from dagopt.cost.io_cost import all_tasks_s, reader_cost, source_hosts
from dagopt.model.network import Networks
from dagopt.model.task_set import TaskInputs, task_inputs
from dagopt.model.wire import TaskSetSubmitted
from dagopt.policy.grouping.host_sets import classify
from tests.property.strategies import HOSTS, bandwidths, networks, rates, task_sets

readers = st.sampled_from((*HOSTS, "elsewhere"))


def costs(
    inputs: TaskInputs, nets: Networks, reader: str, known: Bandwidths
) -> NDArray[np.float64]:
    cost = reader_cost(inputs, source_hosts(inputs, nets), reader, nets.of(reader), known)
    return all_tasks_s(inputs, cost)


def by_loops(
    inputs: TaskInputs, nets: Networks, reader: str, known: Bandwidths, task: int
) -> tuple[float, float]:
    """Seconds over the network and from the reader's own disks, latency left out."""
    network_s = local_s = 0.0
    for name, size in zip(inputs.host_names, inputs.dense()[task], strict=True):
        if name == reader:
            local_s += size / known.disk_bytes_per_s
        else:
            network_s += size / known.between(nets.of(reader), nets.of(name))
    return network_s, local_s


@given(task_sets(), networks(), readers, bandwidths())
def test_the_cost_of_every_task_is_the_sum_by_loops(
    message: TaskSetSubmitted, nets: Networks, reader: str, known: Bandwidths
) -> None:
    inputs = task_inputs(message)
    expected = [sum(by_loops(inputs, nets, reader, known, t)) for t in range(inputs.num_tasks)]
    # The sums of rows are differences of one running sum, so the error is that of the total.
    error = 1e-12 * (1 + sum(expected))
    np.testing.assert_allclose(costs(inputs, nets, reader, known), expected, rtol=1e-9, atol=error)


@given(task_sets(), networks(), readers, bandwidths())
def test_the_cost_of_a_class_is_that_of_its_tasks_and_their_latencies(
    message: TaskSetSubmitted, nets: Networks, reader: str, known: Bandwidths
) -> None:
    inputs = task_inputs(message)
    cost = reader_cost(inputs, source_hosts(inputs, nets), reader, nets.of(reader), known)
    for host_set, tasks in classify(inputs, nets, reader).items():
        parts = [by_loops(inputs, nets, reader, known, int(task)) for task in tasks]
        latency_s = known.latency_s * len(host_set.networks) * len(parts)
        network_s, local_s = cost.tasks_s(inputs, tasks.tolist(), host_set)
        total_s = sum(map(sum, parts))
        error_s = 1e-9 * (total_s + 1e-9)
        assert network_s == pytest.approx(
            sum(part[0] for part in parts) + latency_s, rel=1e-9, abs=error_s
        )
        assert local_s == pytest.approx(sum(part[1] for part in parts), rel=1e-9, abs=error_s)


@given(task_sets(), networks(), readers, bandwidths(), st.integers(2, 9))
def test_more_bytes_never_cost_less(
    message: TaskSetSubmitted, nets: Networks, reader: str, known: Bandwidths, factor: int
) -> None:
    inputs = task_inputs(message)
    more = replace(
        inputs,
        task_bytes=inputs.task_bytes * factor,
        bytes_=inputs.bytes_ if inputs.shared else inputs.bytes_ * factor,
    )
    less_s, more_s = costs(inputs, nets, reader, known), costs(more, nets, reader, known)
    np.testing.assert_allclose(more_s, factor * less_s, rtol=1e-6, atol=1e-9 * more_s.sum())


@given(task_sets(), rates, st.floats(1.001, 100))
def test_remote_bytes_cost_more_than_local_and_a_slower_network_more_than_a_fast_one(
    message: TaskSetSubmitted, rate: float, slower: float
) -> None:
    inputs = task_inputs(message)
    nets = Networks()
    fast = Bandwidths(network_bytes_per_s=rate, disk_bytes_per_s=rate * slower)
    slow = replace(fast, network_bytes_per_s=rate / slower)
    away_s = costs(inputs, nets, "elsewhere", fast)
    assert (costs(inputs, nets, "elsewhere", slow) >= away_s * (1 - 1e-9)).all()
    for reader in inputs.host_names:
        assert (
            costs(inputs, nets, reader, fast) <= away_s * (1 + 1e-9) + 1e-9 * away_s.sum()
        ).all()
