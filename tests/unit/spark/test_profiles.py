"""Requests for GPUs against what executors have; tests/spark/test_gpu_profile.py has real ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyspark
import pytest

import dagopt
from dagopt.errors import InfeasibleError, InputError
from dagopt.spark import profiles
from dagopt.spark.launch import PLUGIN
from dagopt.spark.profiles import ExecutorSize, GpuRequest, check, configured_size, slots_of_a_core

SMALL = ExecutorSize(gpus=1.0, cores=4.0, memory_bytes=2**30)


def request(**fields: Any) -> GpuRequest:
    return GpuRequest(**{"gpus": 1, "cpus": 1, "memory_bytes": None, **fields})


class FakeContext:
    """A SparkContext as far as gpu_profile looks; its executors have not come yet."""

    def __init__(self, master: str, conf: dict[str, str], version: str = "4.3.0") -> None:
        self.master, self.version = master, version
        self._conf = conf
        nothing = SimpleNamespace(size=lambda: 0)
        store = SimpleNamespace(executorList=lambda _: nothing)
        self._jsc = SimpleNamespace(sc=lambda: SimpleNamespace(statusStore=lambda: store))

    def getConf(self) -> Any:  # noqa: N802  Spark's name
        return SimpleNamespace(getAll=lambda: list(self._conf.items()))


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float]]:
    """(GPUs, CPU slots) of each profile that was built."""
    calls: list[tuple[float, float]] = []

    def build(asked: GpuRequest, cpus: float) -> object:
        calls.append((asked.gpus, cpus))
        return object()

    monkeypatch.setattr(profiles, "_build", build)
    return calls


def start(monkeypatch: pytest.MonkeyPatch, context: FakeContext) -> None:
    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", context)


CLUSTER = {"spark.executor.resource.gpu.amount": "2", "spark.executor.cores": "8"}


def test_equal_requests_get_one_profile(
    monkeypatch: pytest.MonkeyPatch, built: list[tuple[float, float]]
) -> None:
    start(monkeypatch, FakeContext("spark://host:7077", CLUSTER))
    first = dagopt.gpu_profile()
    assert first is not None
    assert dagopt.gpu_profile(gpus=1.0, cpus=1) is first
    assert dagopt.gpu_profile(cpus=2) is not first
    assert built == [(1, 1), (1, 2)]
    # Another application has its own.
    start(monkeypatch, FakeContext("spark://host:7077", CLUSTER))
    assert dagopt.gpu_profile() is not first


def test_a_request_that_no_executor_can_meet_fails_at_once(
    monkeypatch: pytest.MonkeyPatch, built: list[tuple[float, float]]
) -> None:
    start(monkeypatch, FakeContext("local-cluster[1,4,2048]", {}))
    with pytest.raises(InfeasibleError) as caught:
        dagopt.gpu_profile(cpus=8)
    assert str(caught.value) == (
        "gpu_profile: a task asks for 1 GPUs, 8 cores, and no executor can ever run it: they have"
        " 0 GPUs, 4 cores, 1.0 GiB"
        " (spark.executor.resource.gpu.amount, spark.executor.cores, spark.executor.memory)"
    )
    assert built == []


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        (request(), True),
        (request(gpus=0.25, cpus=4), True),
        (request(gpus=2), False),
        (request(cpus=4.5), False),
        (request(memory_bytes=2**30), True),
        (request(memory_bytes=2**31), False),
    ],
)
def test_what_fits(asked: GpuRequest, fits: bool) -> None:  # noqa: FBT001  parametrized
    if fits:
        check(asked, [SMALL])
    else:
        with pytest.raises(InfeasibleError):
            check(asked, [SMALL])


def test_one_executor_that_fits_is_enough() -> None:
    check(request(gpus=2), [SMALL, ExecutorSize(gpus=2.0, cores=None, memory_bytes=None)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gpus": 0}, "gpus is 0, must be 0.5 or less, or a whole number"),
        ({"gpus": 0.7}, "gpus is 0.7, must be 0.5 or less, or a whole number"),
        ({"gpus": 1.5}, "gpus is 1.5, must be 0.5 or less, or a whole number"),
        ({"cpus": 0}, "cpus is 0, must be > 0"),
        ({"memory": "lots"}, "expected a size such as 512k, 16m or 1g, got 'lots'"),
    ],
)
def test_a_wrong_argument(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        dagopt.gpu_profile(**arguments)
    assert str(caught.value) == message


def test_it_needs_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", None)
    with pytest.raises(InputError, match="expected a running Spark session, got none"):
        dagopt.gpu_profile()


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_local_mode_gets_none_and_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, master: str
) -> None:
    start(monkeypatch, FakeContext(master, {}))
    assert dagopt.gpu_profile(cpus=64) is None
    (line,) = caplog.messages
    assert line.startswith(f"dagopt: {master} has no stage-level scheduling")
    assert "local-cluster[1,4,2048]" in line


def test_cores_are_multiplied_where_executors_offer_more_slots_than_cores(
    monkeypatch: pytest.MonkeyPatch, built: list[tuple[float, float]]
) -> None:
    conf = {
        "spark.plugins": PLUGIN,
        "spark.task.cpus": "4",
        "spark.executor.cores": "16",
        "spark.executor.resource.gpu.amount": "1",
    }
    start(monkeypatch, FakeContext("spark://host:7077", conf, version="4.1.4"))
    dagopt.gpu_profile(cpus=4)
    assert built == [(1, 16)]
    with pytest.raises(InfeasibleError, match=r"asks for 1 GPUs, 5 cores.* have 1 GPUs, 4 cores"):
        dagopt.gpu_profile(cpus=5)
    assert slots_of_a_core(conf, "4.3.0") == 1


def test_fractions_of_a_core_need_a_new_spark(
    monkeypatch: pytest.MonkeyPatch, built: list[tuple[float, float]]
) -> None:
    start(monkeypatch, FakeContext("spark://host:7077", CLUSTER, version="4.2.1"))
    with pytest.raises(InputError, match=r"cpus is 0\.5, must be a whole number before Spark 4\.3"):
        dagopt.gpu_profile(cpus=0.5)
    start(monkeypatch, FakeContext("spark://host:7077", CLUSTER))
    dagopt.gpu_profile(cpus=0.5)
    assert built == [(1, 0.5)]


@pytest.mark.parametrize(
    ("master", "conf", "cores"),
    [
        ("local-cluster[2, 4, 1024]", {}, 4),
        ("local-cluster[2,4,1024]", {"spark.executor.cores": "2"}, 2),
        ("yarn", {}, 1),
        ("k8s://host", {}, 1),
        ("spark://host:7077", {}, None),  # all that the worker has
    ],
)
def test_the_size_of_executors_by_the_configuration(
    master: str, conf: dict[str, str], cores: int | None
) -> None:
    assert configured_size(conf, master).cores == cores


def test_a_number_without_a_unit_is_mebibytes() -> None:
    conf = {"spark.executor.memory": "512"}
    assert configured_size(conf, "yarn").memory_bytes == 512 * 2**20
