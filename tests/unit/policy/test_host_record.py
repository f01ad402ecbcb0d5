"""One record for each host and input host set."""

from __future__ import annotations

import pytest

from dagopt.cost.bandwidth import Bandwidths
from dagopt.model.network import parse_networks
from dagopt.model.task_set import task_inputs
from dagopt.model.wire import SparseInputs, TaskSetSubmitted
from dagopt.policy.grouping.host_record import host_records


def test_records_hold_the_costs_of_their_own_tasks_as_their_host_sees_them() -> None:
    inputs = task_inputs(
        TaskSetSubmitted(
            time_ms=0,
            stage=1,
            attempt=0,
            num_tasks=3,
            name="",
            scopes=[],
            inputs=SparseInputs(offsets=[0, 1, 2, 3], hosts=[0, 1, 0], bytes=[100, 200, 300]),
            hosts=["a", "c"],
            shuffle_types=["narrow"],
        )
    )
    bandwidths = Bandwidths(network_bytes_per_s=10.0, disk_bytes_per_s=100.0, latency_s=0.5)
    records = host_records(inputs, [("a", 1), ("c", 2)], parse_networks("r1=a;r2=c"), bandwidths)
    told = [
        (
            record.host,
            str(record.input_host_set),
            record.tasks.tolist(),
            record.io_s.tolist(),
            record.allocation_epoch,
        )
        for record in records
    ]
    assert told == [
        ("a", "r2", [1], [20.5], 1),
        ("a", "local", [0, 2], [1.0, 3.0], 1),
        ("c", "r1", [0, 2], [10.5, 30.5], 2),
        ("c", "local", [1], [2.0], 2),
    ]
    assert [record.total_io_s for record in records] == pytest.approx([20.5, 4.0, 41.0, 2.0])
