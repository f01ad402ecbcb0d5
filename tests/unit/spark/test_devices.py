"""Which device a task has, with fakes of Spark's task and of cupy."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pyspark
import pytest

import dagopt
from dagopt.errors import InputError
from dagopt.spark.devices import device_index

Task = Callable[..., None]


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Task:
    """``task("2", visible="2,3")``: from now on this is a task that holds these addresses."""

    def hold(*addresses: str, visible: str | None = None) -> None:
        gpu = SimpleNamespace(addresses=list(addresses))
        context = SimpleNamespace(resources=lambda: {"gpu": gpu} if addresses else {})
        monkeypatch.setattr(pyspark.TaskContext, "get", staticmethod(lambda: context))
        if visible is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    return hold


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A cupy that has two devices; the list holds those that were made current."""
    used: list[int] = []

    class Device:
        def __init__(self, index: int) -> None:
            self.index = index

        def use(self) -> None:
            if self.index > 1:
                raise RuntimeError("invalid device ordinal")
            used.append(self.index)

    fake: Any = ModuleType("cupy")
    fake.cuda = SimpleNamespace(Device=Device)
    fake.__spec__ = importlib.util.spec_from_loader("cupy", loader=None)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    return used


@pytest.fixture
def no_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "cupy" else found(name)
    )


@pytest.mark.parametrize(
    ("address", "visible", "index"),
    [
        ("0", None, 0),
        ("3", None, 3),
        ("2", "2,3", 0),
        ("3", " 2 , 3 ", 1),
        ("0", "2,3", 0),  # discovered inside of a container
        ("1", "0,1", 1),
        ("GPU-b", "GPU-a,GPU-b", 1),
        ("0", "", None),
        ("0", "-1", None),
        ("1", "1,-1,2", 0),
    ],
)
def test_the_index_is_that_among_the_visible_devices(
    address: str, visible: str | None, index: int | None
) -> None:
    assert device_index(address, visible) == index


@pytest.mark.parametrize(("address", "visible"), [("GPU-a", None), ("5", "2,3"), ("GPU-c", "0")])
def test_an_address_that_names_no_device(address: str, visible: str | None) -> None:
    shown = "not set" if visible is None else f"'{visible}'"
    with pytest.raises(InputError) as caught:
        device_index(address, visible)
    assert str(caught.value) == (
        f"gpu address of this task is '{address}': expected a number, or one of"
        f" CUDA_VISIBLE_DEVICES, which is {shown}"
    )


def test_the_device_of_a_task_is_made_current(task: Task, cupy: list[int]) -> None:
    task("3", visible="2,3")
    assert dagopt.device() == 1
    assert cupy == [1]
    assert dagopt.array_module() is sys.modules["cupy"]


def test_a_worker_that_is_used_again_takes_the_next_task_s_device(
    task: Task, cupy: list[int]
) -> None:
    for address in ("0", "1", "0"):
        task(address)
        dagopt.array_module()
    assert cupy[::2] == [0, 1, 0]


def test_a_device_that_is_not_there_gives_numpy(task: Task, cupy: list[int]) -> None:
    task("7")
    assert dagopt.device() == 7
    assert dagopt.array_module() is np
    assert cupy == []


@pytest.mark.usefixtures("no_cupy")
def test_without_cupy_it_is_numpy(task: Task) -> None:
    task("0")
    assert dagopt.device() == 0
    assert dagopt.array_module() is np


def test_a_task_without_a_gpu_has_none(task: Task, cupy: list[int]) -> None:
    task()
    assert dagopt.device() is None
    assert dagopt.array_module() is np
    assert cupy == []


def test_outside_of_a_task_there_is_none() -> None:
    assert dagopt.device() is None
    assert dagopt.array_module() is np
