"""A decision as the decision log and the report have it."""

from __future__ import annotations

import json

from dagopt.model.decision import Decision


def test_a_decision_is_json_with_all_its_fields() -> None:
    decision = Decision(
        time_s=12.5,
        stage=1,
        attempt=0,
        name="count at job.py:1",
        signature="count at job.py:1 [Exchange]",
        action="group",
        tasks_per_core=2,
        num_tasks=8,
        io_s=1.5,
        cpu_s=None,
        stock_s=None,
        predicted_s=None,
        input_host_sets=("local", "default"),
        reason="why",
    )
    assert json.loads(json.dumps(decision.to_dict())) == {
        "time_s": 12.5,
        "stage": 1,
        "attempt": 0,
        "name": "count at job.py:1",
        "signature": "count at job.py:1 [Exchange]",
        "action": "group",
        "tasks_per_core": 2,
        "num_tasks": 8,
        "io_s": 1.5,
        "cpu_s": None,
        "stock_s": None,
        "predicted_s": None,
        "input_host_sets": ["local", "default"],
        "reason": "why",
    }
