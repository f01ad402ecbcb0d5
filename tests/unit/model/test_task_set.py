"""Inputs of a task set: what a message may say, and what is refused with which words."""

from __future__ import annotations

import numpy as np
import pytest

from dagopt.errors import InputError
from dagopt.model.task_set import MAX_TASKS, row_sums, task_inputs
from dagopt.model.wire import OuterInputs, SparseInputs, TaskSetSubmitted


def message(
    inputs: SparseInputs | OuterInputs, *, num_tasks: int, hosts: list[str]
) -> TaskSetSubmitted:
    return TaskSetSubmitted(
        time_ms=0,
        stage=7,
        attempt=1,
        num_tasks=num_tasks,
        name="count at job.py:1",
        scopes=[],
        inputs=inputs,
        hosts=hosts,
        shuffle_types=["wide"],
    )


def sparse(offsets: list[int], hosts: list[int], sizes: list[int]) -> SparseInputs:
    return SparseInputs(offsets=offsets, hosts=hosts, bytes=sizes)


def test_sparse_inputs_are_kept_by_rows() -> None:
    inputs = task_inputs(
        message(sparse([0, 2, 2, 3], [0, 1, 1], [5, 7, 9]), num_tasks=3, hosts=["a", "b"])
    )
    assert (inputs.num_tasks, inputs.num_hosts, inputs.shared) == (3, 2, False)
    assert inputs.task_bytes.tolist() == [12, 0, 9]
    assert inputs.dense().tolist() == [[5, 7], [0, 0], [0, 9]]
    assert inputs.of_tasks_from([2, 0], 1).tolist() == [9, 7]
    assert inputs.of_tasks_from([], 1).tolist() == []


def test_a_host_twice_in_one_row_adds_up() -> None:
    inputs = task_inputs(message(sparse([0, 2], [0, 0], [5, 7]), num_tasks=1, hosts=["a"]))
    assert inputs.dense().tolist() == [[12]]
    assert inputs.of_tasks_from([0], 0).tolist() == [12]


def test_outer_inputs_are_the_product_of_the_margins() -> None:
    inputs = task_inputs(
        message(
            OuterInputs(task_bytes=[10, 20], host_bytes=[1, 0, 3]),
            num_tasks=2,
            hosts=["a", "b", "c"],
        )
    )
    assert inputs.shared
    assert inputs.task_bytes.tolist() == [10, 20]
    assert inputs.dense().tolist() == [[2.5, 0, 7.5], [5, 0, 15]]
    assert inputs.of_tasks_from([1, 0], 2).tolist() == [15, 7.5]
    assert inputs.of_tasks_from([1], 1).tolist() == [0]


def test_outer_inputs_without_bytes_on_any_host_are_empty() -> None:
    inputs = task_inputs(
        message(OuterInputs(task_bytes=[10], host_bytes=[0]), num_tasks=1, hosts=["a"])
    )
    assert inputs.task_bytes.tolist() == [0]
    assert inputs.dense().tolist() == [[0]]


def test_a_task_set_that_reads_from_no_host_is_fine() -> None:
    inputs = task_inputs(message(sparse([0, 0, 0], [], []), num_tasks=2, hosts=[]))
    assert inputs.task_bytes.tolist() == [0, 0]
    assert inputs.dense().shape == (2, 0)


def test_arrays_cannot_be_written() -> None:
    inputs = task_inputs(message(sparse([0, 1], [0], [5]), num_tasks=1, hosts=["a"]))
    for array in (inputs.task_bytes, inputs.offsets, inputs.hosts, inputs.bytes_):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize(
    ("inputs", "num_tasks", "hosts", "problem"),
    [
        (sparse([0], [], []), 0, [], f"num_tasks is 0, must be 1 to {MAX_TASKS}"),
        (
            sparse([0], [], []),
            MAX_TASKS + 1,
            [],
            f"num_tasks is {MAX_TASKS + 1}, must be 1 to {MAX_TASKS}",
        ),
        (sparse([0, 0], [], []), 1, ["a", "a"], "hosts names a host twice"),
        (sparse([0, 1], [0], [1]), 2, ["a"], "offsets must be 3 rising numbers from 0"),
        (sparse([], [], []), 1, ["a"], "offsets must be 2 rising numbers from 0"),
        (sparse([1, 1], [0], [1]), 1, ["a"], "offsets must be 2 rising numbers from 0"),
        (sparse([0, 2, 1], [0], [1]), 2, ["a"], "offsets must be 3 rising numbers from 0"),
        (sparse([0, 2], [0], [1, 2]), 1, ["a"], "hosts and bytes must have 2 entries"),
        (sparse([0, 1], [0], []), 1, ["a"], "hosts and bytes must have 1 entries"),
        (sparse([0, 1], [1], [1]), 1, ["a"], "a host index is outside 0..0"),
        (sparse([0, 1], [-1], [1]), 1, ["a"], "a host index is outside 0..0"),
        (sparse([0, 1], [0], [-1]), 1, ["a"], "a byte count is negative"),
        (
            OuterInputs(task_bytes=[1], host_bytes=[1]),
            2,
            ["a"],
            "task_bytes must have 2 entries, host_bytes 1",
        ),
        (
            OuterInputs(task_bytes=[1], host_bytes=[]),
            1,
            ["a"],
            "task_bytes must have 1 entries, host_bytes 1",
        ),
        (OuterInputs(task_bytes=[-1], host_bytes=[1]), 1, ["a"], "a byte count is negative"),
        (OuterInputs(task_bytes=[1], host_bytes=[-1]), 1, ["a"], "a byte count is negative"),
    ],
)
def test_a_contradiction_is_refused_with_stage_and_field(
    inputs: SparseInputs | OuterInputs, num_tasks: int, hosts: list[str], problem: str
) -> None:
    with pytest.raises(InputError) as caught:
        task_inputs(message(inputs, num_tasks=num_tasks, hosts=hosts))
    assert str(caught.value) == f"stage 7.1: {problem}"


def test_row_sums_of_empty_runs_are_zero() -> None:
    sums = row_sums(np.array([1.0, 2.0, 3.0]), np.array([0, 0, 2, 2, 3]))
    assert sums.tolist() == [0, 3, 0, 3]
