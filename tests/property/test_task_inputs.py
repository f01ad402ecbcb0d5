"""Compressed inputs are what a dense matrix of the same bytes says."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from numpy.typing import NDArray

from dagopt.model.task_set import task_inputs
from dagopt.model.wire import SparseInputs, TaskSetSubmitted
from tests.property.strategies import task_sets


def dense_of(message: TaskSetSubmitted) -> NDArray[np.float64]:
    """The message's bytes by nested loops."""
    out = np.zeros((message.num_tasks, len(message.hosts)))
    raw = message.inputs
    for task in range(message.num_tasks):
        if isinstance(raw, SparseInputs):
            for entry in range(raw.offsets[task], raw.offsets[task + 1]):
                out[task, raw.hosts[entry]] += raw.bytes[entry]
        elif sum(raw.host_bytes) > 0:
            for host, size in enumerate(raw.host_bytes):
                out[task, host] = raw.task_bytes[task] * (size / sum(raw.host_bytes))
    return out


@given(task_sets())
def test_dense_is_the_message_by_loops(message: TaskSetSubmitted) -> None:
    np.testing.assert_allclose(task_inputs(message).dense(), dense_of(message), rtol=1e-12)


@given(task_sets())
def test_task_bytes_are_the_row_sums(message: TaskSetSubmitted) -> None:
    expected = dense_of(message).sum(axis=1)
    np.testing.assert_allclose(task_inputs(message).task_bytes, expected, rtol=1e-12)


@given(task_sets())
def test_bytes_from_one_host_are_a_column(message: TaskSetSubmitted) -> None:
    inputs, dense = task_inputs(message), dense_of(message)
    tasks = list(range(message.num_tasks))[::-2]
    for host in range(len(message.hosts)):
        np.testing.assert_allclose(
            inputs.of_tasks_from(tasks, host), dense[tasks, host], rtol=1e-12
        )
