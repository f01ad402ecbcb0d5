"""What a system must show to be task grouping: one test or more for each line of the list.

Every docstring begins with the line that it proves.
"""

from __future__ import annotations

import itertools

import pytest

from dagopt.controller.grouping import GroupingController
from dagopt.cost.bandwidth import Bandwidths
from dagopt.cost.io_cost import all_tasks_s, reader_cost, source_hosts
from dagopt.model.network import InputHostSet, Networks, parse_networks
from dagopt.model.task_set import TaskInputs, task_inputs
from dagopt.model.wire import FromPlanner, Launch
from dagopt.policy.grouping.host_record import host_records
from dagopt.policy.grouping.host_sets import HostSets, classify
from dagopt.sim.stage import SimRun
from tests.sim.cases import as_spark_runs_it, controller, grouped, spark_s, stage, twice
from tests.sim.cases import worked_example as worked
from tests.unit.controller import events as ev

RACKS = parse_networks("r1=a,b;r2=c,d")
KNOWN = Bandwidths(network_bytes_per_s=100.0, disk_bytes_per_s=1000.0)


def inputs_of(*rows: dict[str, int]) -> TaskInputs:
    return task_inputs(ev.submitted(rows))


def launches(out: list[FromPlanner]) -> list[Launch]:
    return [one for one in out if isinstance(one, Launch)]


def first_launches(live: GroupingController, now_s: float = 0.0) -> list[Launch]:
    """Of eight tasks that read 1 s from sa or sb in turn, on one executor of one core."""
    live.step(ev.added("1", cores=1), now_s)
    rows = [{"sa": 100} if task % 2 == 0 else {"sb": 100} for task in range(8)]
    out = launches(live.step(ev.submitted(rows), now_s))
    return out + launches(live.step(ev.started(out[0].tasks[0], "1"), now_s))


def test_01_input_host_sets_follow_the_previous_stages_hosts() -> None:
    """A task's input host set is computed from the hosts of the previous stage."""
    before = HostSets(inputs_of({"a": 1, "c": 1}), RACKS).of(0, "x")
    after = HostSets(inputs_of({"a": 1, "b": 1}), RACKS).of(0, "x")
    assert before == InputHostSet(local=False, networks=("r1", "r2"))
    assert after == InputHostSet(local=False, networks=("r1",))


def test_01_input_host_sets_follow_the_shuffle_type() -> None:
    """Changing the shuffle type changes the set: copies of a block are read from one host."""
    inputs = inputs_of({"a": 1, "c": 1})
    shuffled = HostSets(inputs, RACKS).of(0, "a")
    blocks = HostSets(inputs, RACKS, replicas=True).of(0, "a")
    assert shuffled == InputHostSet(local=True, networks=("r2",))
    assert blocks == InputHostSet(local=True, networks=())


def test_02_hosts_of_the_previous_stage_are_kept_until_the_task_set_ends() -> None:
    """Previous-stage hosts are kept and survive until the consuming stage is done."""
    live = ev.controller()
    live.step(ev.added("1", host="sa", cores=1), 0.0)
    live.step(ev.added("2", cores=1), 0.0)
    live.step(ev.submitted([{"sa": 900, "sb": 900}] * 6), 0.0)
    live.step(ev.removed("1"), 0.0)  # the host that served sa's part is no executor any more
    assert live.stages[1, 0].task_set.inputs.host_names == ("sa", "sb")
    live.step(ev.set_ended(), 1.0)
    assert live.stages == {}


def test_03_local_and_network_hosts_are_told_apart_by_the_reading_host() -> None:
    """Local and network hosts are told apart, per host that would run the task."""
    found = HostSets(inputs_of({"a": 1}), RACKS)
    assert found.of(0, "a") == InputHostSet(local=True, networks=())
    assert found.of(0, "c") == InputHostSet(local=False, networks=("r1",))


def test_04_hosts_of_one_network_are_one_entry_and_networks_do_not_merge() -> None:
    """Two network hosts in one network give one entry; different networks do not merge."""
    inputs = inputs_of({"a": 1, "b": 1}, {"a": 1}, {"b": 1}, {"c": 1})
    classes = classify(inputs, RACKS, "x")
    found = {str(name): tasks.tolist() for name, tasks in classes.items()}
    assert found == {"r1": [0, 1, 2], "r2": [3]}


def test_05_every_task_is_in_exactly_one_class_and_none_is_empty() -> None:
    """Tasks with equal sets are classed together (the law is in tests/property)."""
    inputs = inputs_of({"a": 1}, {}, {"c": 1}, {"a": 0}, {"b": 2, "d": 1})
    found = [tasks.tolist() for tasks in classify(inputs, RACKS, "a").values()]
    assert all(found)
    assert sorted(itertools.chain(*found)) == list(range(5))


def test_06_each_task_has_its_own_cost_that_grows_with_bytes_and_remoteness() -> None:
    """Each task has its own I/O cost; cost grows with bytes and with remoteness."""
    inputs = inputs_of({"a": 100}, {"a": 200}, {"c": 100})
    cost = reader_cost(inputs, source_hosts(inputs, RACKS), "a", "r1", KNOWN)
    assert all_tasks_s(inputs, cost) == pytest.approx([0.1, 0.2, 1.0])


def test_07_a_new_allocation_triggers_recalculation() -> None:
    """A new resource allocation to the driver triggers recalculation."""
    live = ev.controller()
    first_launches(live)
    before = live.num_recalculations
    out = launches(live.step(ev.added("2", cores=1), 0.0))
    assert live.num_recalculations == before + 1
    assert {one.executor for one in out} == {"2"}


def test_08_a_finished_group_triggers_recalculation_and_its_slot_is_used_again() -> None:
    """Completion of a task group triggers recalculation, and its resources go to a next group."""
    live = ev.controller()
    task = first_launches(live)[0].tasks[0]
    before = live.num_recalculations
    live.step(ev.fetched(task, "1"), 1.0)
    out = launches(live.step(ev.ended(task, "1", to_s=2.0, wait_s=1.0), 2.0))
    assert live.num_recalculations == before + 1
    assert {one.executor for one in out} == {"1"}


def test_09_nothing_else_triggers_recalculation() -> None:
    """With neither event, nothing is recalculated."""
    live = ev.controller()
    task = first_launches(live)[0].tasks[0]
    before = live.num_recalculations
    live.step(ev.fetched(task, "1", 10, done=False), 0.2)
    live.step(ev.fetched(task, "1", 90, done=False), 0.9)
    live.step(ev.fetched(task, "1"), 1.0)
    live.step(ev.removed("7"), 1.0)
    live.step(ev.submitted([{"sa": 100}] * 4, stage=2), 1.0)
    live.step(ev.set_ended(2), 1.0)
    assert live.num_recalculations == before


def test_09_a_whole_stage_recalculates_once_an_executor_and_once_a_group() -> None:
    """With neither event, nothing is recalculated: counted over a simulated stage."""
    live = controller()
    run = grouped(worked(2.0), live)
    groups = {launch.group for launch in run.simulation.launches}
    assert live.num_recalculations == 1 + len(groups)


def test_10_there_is_one_record_for_each_host_and_input_host_set() -> None:
    """There is one host record for each (host, input host set), from the per-task I/O costs."""
    inputs = inputs_of({"a": 100}, {"a": 200}, {"c": 100})
    found = host_records(inputs, [("a", 1), ("c", 1), ("x", 2)], RACKS, KNOWN)
    keys = [(record.host, record.input_host_set) for record in found]
    assert len(keys) == len(set(keys)) == 6
    for record in found:
        assert record.total_io_s == pytest.approx(float(record.io_s.sum()))
        assert record.tasks.size > 0


def test_11_groups_never_mix_allocation_epochs() -> None:
    """Tasks of different allocation epochs are never in one group."""
    live = ev.controller()
    first_launches(live)
    live.step(ev.added("2", host="h1", cores=1), 0.0)  # a later allocation on the same host
    epochs = {name: executor.epoch for name, executor in live.tasks.executors.items()}
    groups = list(live.stages[1, 0].groups.values())
    assert epochs == {"1": 1, "2": 2}
    assert {group.executor for group in groups} == {"1", "2"}
    for group in groups:
        assert group.epoch == epochs[group.executor]


def test_12_a_delay_counts_from_its_own_input_host_set() -> None:
    """Every group has a delay, computed per input host set; groups of one set queue up."""
    assert [one.delay_ms for one in first_launches(ev.controller())] == [0, 1000]


def test_12_groups_of_other_sets_do_not_delay_each_other() -> None:
    """Groups of different sets do not delay each other."""
    apart = ev.controller(networks=parse_networks("r1=sa;r2=sb"))
    assert [one.delay_ms for one in first_launches(apart)] == [0, 0]


@pytest.mark.parametrize("cpu_s", [2.0, 8.0])
def test_13_no_task_starts_before_its_planned_start(cpu_s: float) -> None:
    """The executor obeys the delay (measured start >= planned start)."""
    live = controller()
    for run in twice(worked(cpu_s), live):
        planned_s = run.simulation.planned_s
        assert planned_s.keys() == {one.task for one in run.runs}
        for one in run.runs:
            assert one.start_s >= planned_s[one.task] - 1e-6


def overlap_s(runs: list[SimRun], begin_s: float = 0.0) -> float:
    """Seconds in which some task reads while another one computes."""
    times = sorted({time for run in runs for time in (run.start_s, run.read_s, run.end_s)})
    total_s = 0.0
    for from_s, to_s in itertools.pairwise([begin_s, *times]):
        middle_s = (from_s + to_s) / 2
        reads = any(run.start_s < middle_s < run.read_s for run in runs)
        computes = any(run.read_s < middle_s < run.end_s for run in runs)
        total_s += (to_s - from_s) * (reads and computes)
    return total_s


@pytest.mark.parametrize("cpu_s", [2.0, 8.0])
def test_14_reading_and_computing_overlap_and_the_cpu_is_used_more(cpu_s: float) -> None:
    """I/O of a later group runs while an earlier group is in its CPU phase; CPU use is higher."""
    case = worked(cpu_s)
    assert overlap_s(as_spark_runs_it(case)) == pytest.approx(0.0, abs=1e-6)
    for run in twice(case, controller()):
        assert overlap_s(run.runs, run.simulation.begin_s) >= 7.0
        # The same work in less time is more use of the same cores.
        assert run.elapsed_s < spark_s(case)


@pytest.mark.parametrize(("cpu_s", "spark", "at_most"), [(2.0, 20.0, 18.0), (8.0, 32.0, 26.0)])
def test_15_the_worked_example(cpu_s: float, spark: float, at_most: float) -> None:
    """The two rows of the worked example hold in a simulator to within a small tolerance."""
    case = worked(cpu_s)
    assert spark_s(case) == pytest.approx(spark)
    first, again = twice(case, controller())
    assert first.elapsed_s <= 1.02 * at_most
    assert again.elapsed_s <= 1.005 * at_most


def test_15_with_one_group_the_schedule_is_sparks_own() -> None:
    """With one group the schedule equals the unmodified one."""
    case = stage([{"source": 1e9}] * 8, 2.0)
    assert grouped(case, controller()).runs == as_spark_runs_it(case)


def test_15_a_stage_that_computes_is_sparks_own_once_it_is_known() -> None:
    """Where there is nothing to overlap the schedule equals the unmodified one."""
    case = stage([{"source": 1e6}] * 24, 3.0)
    _, again = twice(case, controller(Networks()))
    assert again.simulation.launches == []
    assert again.elapsed_s == pytest.approx(spark_s(case))
