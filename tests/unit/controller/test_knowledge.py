"""What is remembered of stages that ran."""

from __future__ import annotations

from dagopt.controller.knowledge import MAX_STAGES, Knowledge, Measured


def measured(cpu_s: float, *, num_tasks: int = 2, spilled: float = 0.0) -> Measured:
    """Tasks that compute ``cpu_s`` and read 1 s and 100 bytes each."""
    return Measured(
        num_tasks=num_tasks,
        io_s=1.0 * num_tasks,
        cpu_s=cpu_s * num_tasks,
        read_bytes=100.0 * num_tasks,
        spilled_bytes=spilled,
    )


def learn(
    knowledge: Knowledge, found: Measured, *, per_core: int = 1, blocks: bool = False
) -> None:
    knowledge.learn("stage", found, tasks_per_core=per_core, reads_blocks=blocks)


def test_nothing_is_known_of_a_stage_that_did_not_run() -> None:
    knowledge = Knowledge()
    learn(knowledge, Measured())
    assert knowledge.find("stage") is None
    assert len(knowledge) == 0


def test_costs_are_means_of_a_task_and_then_of_runs() -> None:
    knowledge = Knowledge()
    learn(knowledge, measured(2.0))
    learn(knowledge, measured(4.0))
    cost = knowledge.find("stage")
    assert cost is not None
    assert (cost.cpu_s, cost.read_bytes, cost.io_s) == (3.0, 100.0, None)
    assert cost.origin == "this application"


def test_computing_is_proportional_to_the_bytes_where_both_are_known() -> None:
    knowledge = Knowledge()
    learn(knowledge, measured(2.0))
    cost = knowledge.find("stage")
    assert cost is not None
    assert cost.cpu_of(200.0) == 4.0
    assert cost.cpu_of(0.0) == 2.0


def test_reading_is_remembered_where_only_time_tells() -> None:
    knowledge = Knowledge()
    learn(knowledge, measured(2.0), blocks=True)
    learn(knowledge, measured(2.0), blocks=True)
    cost = knowledge.find("stage")
    assert cost is not None
    assert cost.io_s == 1.0


def test_the_fewest_tasks_a_core_that_spilled_are_remembered() -> None:
    knowledge = Knowledge()
    for per_core, spilled in ((4, 1.0), (3, 1.0), (2, 0.0), (4, 1.0)):
        learn(knowledge, measured(1.0, spilled=spilled), per_core=per_core)
    cost = knowledge.find("stage")
    assert cost is not None
    assert cost.memory_bound_from == 3


def test_the_least_recently_seen_stage_is_forgotten_first() -> None:
    knowledge = Knowledge()
    for number in range(MAX_STAGES):
        knowledge.learn(str(number), measured(1.0), tasks_per_core=1, reads_blocks=False)
    assert knowledge.find("0") is not None
    learn(knowledge, measured(1.0))
    assert len(knowledge) == MAX_STAGES
    assert knowledge.find("0") is not None
    assert knowledge.find("1") is None
