"""Stages drawn at random: groups are not slower than Spark alone, and near what is possible.

Covered: all-to-all stages of equal tasks. Not a law yet: tasks of unequal sizes, and tasks that read
from one host each, where a launch order that fits by chance may beat the groups.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.cases import Stage, controller, spark_s, stage, twice


@st.composite
def equal_tasks(draw: st.DrawFn) -> Stage:
    """Every task reads the same from every executor's host, and perhaps from one more."""
    num_executors = draw(st.integers(1, 3))
    hosts = [f"h{number}" for number in range(1, num_executors + 1)]
    hosts += ["elsewhere"] if num_executors == 1 or draw(st.booleans()) else []
    task_bytes = draw(st.sampled_from((2e8, 1e9, 4e9)))
    row = {host: task_bytes / len(hosts) for host in hosts}
    num_tasks = draw(st.integers(2, 24))
    cpu_s = draw(st.sampled_from((0.0, 0.2, 1.0, 4.0)))
    cores = draw(st.integers(1, 4))
    return stage([row] * num_tasks, cpu_s, num_executors=num_executors, cores=cores)


@st.composite
def balanced(draw: st.DrawFn) -> tuple[Stage, float]:
    """Full waves that read about as long as they compute, and the least time they can take."""
    num_executors, cores = draw(st.integers(1, 3)), draw(st.integers(2, 4))
    hosts = [f"h{number}" for number in range(1, num_executors + 1)] + ["elsewhere"]
    row = dict.fromkeys(hosts, 1e9 / len(hosts))
    num_tasks = num_executors * cores * draw(st.integers(3, 5))
    io_s = num_executors / len(hosts)
    cpu_s = draw(st.floats(0.7, 1.4)) * cores * io_s
    found = stage([row] * num_tasks, cpu_s, num_executors=num_executors, cores=cores)
    link_s = num_tasks / num_executors * io_s
    out_s = num_tasks * 1.0 / len(hosts)  # all that leaves one host
    return found, max(link_s, out_s, num_tasks * cpu_s / (num_executors * cores), io_s + cpu_s)


@settings(max_examples=30)
@given(equal_tasks())
def test_groups_are_at_most_a_twentieth_and_one_fetch_slower_than_spark_alone(
    found: Stage,
) -> None:
    limit_s = 1.05 * spark_s(found) + found.fetch_s
    for run in twice(found, controller()):
        assert run.elapsed_s <= limit_s + 0.01


@settings(max_examples=20)
@given(balanced())
def test_a_balanced_stage_takes_at_most_a_quarter_and_one_fetch_more_than_it_must(
    case: tuple[Stage, float],
) -> None:
    found, least_s = case
    _, again = twice(found, controller())
    assert again.elapsed_s <= 1.25 * least_s + found.fetch_s


@settings(max_examples=15)
@given(equal_tasks())
def test_the_same_stage_runs_the_same_way_again(found: Stage) -> None:
    first, second = twice(found, controller()), twice(found, controller())
    assert [run.runs for run in first] == [run.runs for run in second]
    assert [run.simulation.launches for run in first] == [run.simulation.launches for run in second]
