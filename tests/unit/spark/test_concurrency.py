"""More slots than cores before Spark 4.3, per cluster manager."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagopt.spark.concurrency import raise_slots

PARTITIONS = {
    "spark.sql.leafNodeDefaultParallelism",
    "spark.sql.adaptive.coalescePartitions.minPartitionNum",
}


def test_kubernetes_keeps_its_request() -> None:
    base = {"spark.executor.cores": "4", "spark.executor.instances": "3"}
    raised = raise_slots(base, master="k8s://https://h", slots_per_core=4, cores=None)
    assert raised.conf == {
        "spark.task.cpus": "4",
        "spark.executorEnv.OMP_NUM_THREADS": "1",
        "spark.executor.cores": "16",
        "spark.kubernetes.executor.request.cores": "4",
        **dict.fromkeys(PARTITIONS, "12"),
    }


def test_a_request_of_the_user_stays() -> None:
    base = {"spark.kubernetes.executor.request.cores": "500m"}
    raised = raise_slots(base, master="k8s://h", slots_per_core=2, cores=None)
    assert "spark.kubernetes.executor.request.cores" not in raised.conf
    assert raised.conf["spark.executor.cores"] == "2"


def test_local_cluster_gets_the_cores_in_its_url() -> None:
    raised = raise_slots({}, master="local-cluster[2, 3, 1024]", slots_per_core=4, cores=None)
    assert raised.conf == {
        "spark.task.cpus": "4",
        "spark.executorEnv.OMP_NUM_THREADS": "1",
        "spark.master": "local-cluster[2,12,1024]",
        **dict.fromkeys(PARTITIONS, "6"),
    }


def test_yarn_needs_the_cores_on_purpose() -> None:
    base = {"spark.executor.cores": "4"}
    kept = raise_slots(base, master="yarn", slots_per_core=4, cores=None)
    assert kept.conf == {}
    assert "say how many physical cores an executor has" in kept.note
    raised = raise_slots(base, master="yarn", slots_per_core=4, cores=4)
    assert raised.conf["spark.executor.cores"] == "16"
    assert raised.note == "executors ask YARN for 16 vcores instead of 4"


def test_standalone_needs_the_cores_on_purpose_and_raises_its_limit() -> None:
    base = {"spark.cores.max": "8"}
    assert raise_slots(base, master="spark://h:1", slots_per_core=2, cores=None).conf == {}
    raised = raise_slots(base, master="spark://h:1", slots_per_core=2, cores=4)
    assert raised.conf == {
        "spark.task.cpus": "2",
        "spark.executorEnv.OMP_NUM_THREADS": "1",
        "spark.executor.cores": "8",
        "spark.cores.max": "16",
        **dict.fromkeys(PARTITIONS, "8"),
    }


def test_tasks_of_several_cores_stay_as_many() -> None:
    base = {"spark.task.cpus": "2", "spark.executor.cores": "4"}
    raised = raise_slots(base, master="k8s://h", slots_per_core=3, cores=None)
    assert raised.conf["spark.task.cpus"] == "6"
    assert raised.conf["spark.executor.cores"] == "12"
    assert raised.conf["spark.executorEnv.OMP_NUM_THREADS"] == "2"


@pytest.mark.parametrize(
    ("master", "base", "reason"),
    [
        ("local[4]", {}, "local[4] has no resource profiles"),
        ("local", {}, "local has no resource profiles"),
        ("yarn", {"spark.dynamicAllocation.enabled": "TRUE"}, "dynamic allocation"),
        ("k8s://h", {"spark.task.resource.gpu.amount": "1"}, "custom resources"),
        ("k8s://h", {"spark.task.cpus": "0.5"}, "spark.task.cpus is 0.5"),
    ],
)
def test_where_it_cannot_be_nothing_is_set(master: str, base: dict[str, str], reason: str) -> None:
    kept = raise_slots(base, master=master, slots_per_core=4, cores=4)
    assert kept.conf == {}
    assert kept.note.startswith("concurrency stays that of Spark alone: ")
    assert reason in kept.note


def test_partition_counts_of_the_user_stay() -> None:
    base = {"spark.default.parallelism": "100"}
    raised = raise_slots(base, master="local-cluster[1,1,512]", slots_per_core=2, cores=None)
    assert not PARTITIONS & set(raised.conf)


@given(
    cores=st.integers(1, 64),
    slots_per_core=st.integers(2, 16),
    task_cpus=st.integers(1, 8),
    master=st.sampled_from(["yarn", "k8s://h", "spark://h:7077", "local-cluster[2,8,1024]", ""]),
)
def test_as_many_default_tasks_run_as_before(
    cores: int, slots_per_core: int, task_cpus: int, master: str
) -> None:
    base = {"spark.task.cpus": str(task_cpus)}
    conf = raise_slots(base, master=master, slots_per_core=slots_per_core, cores=cores).conf
    raised_cores, raised_cpus = int(conf["spark.executor.cores"]), int(conf["spark.task.cpus"])
    assert raised_cores // raised_cpus == cores // task_cpus
    # A task of one slot is what dagopt can lower the cpus to.
    assert raised_cores // task_cpus == slots_per_core * cores // task_cpus
