"""Which accelerator a task has, for code that runs in it on an executor.

Spark gives a task addresses, such as ``2``. What CUDA calls that device depends on the environment
of the Python worker: with ``CUDA_VISIBLE_DEVICES=2,3`` it is device 0 there. Workers are used again
by tasks with other addresses, so this is looked up in each task, and the environment is not changed.

cupy is imported when a task asks for it, and only if it is installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import Any

from dagopt.errors import InputError

RESOURCE = "gpu"
"""What Spark's settings call the accelerator: ``spark.executor.resource.gpu.amount``."""


def device() -> int | None:
    """The index by which CUDA knows the first accelerator of this task; made current for cupy.

    None outside of a task, in a task whose resource profile has no GPU, and where the environment
    hides all of them.

    Raises:
        InputError: the address that Spark gave is no number, and ``CUDA_VISIBLE_DEVICES`` does not
            name it.
    """
    address = task_address()
    if address is None:
        return None
    index = device_index(address, os.environ.get("CUDA_VISIBLE_DEVICES"))
    if index is not None:
        _cupy_on(index)
    return index


def array_module() -> Any:
    """cupy, on this task's device, if the task has one that works; else numpy.

    Raises:
        InputError: see :func:`device`.
    """
    index = device()
    found = None if index is None else _cupy_on(index)
    return importlib.import_module("numpy") if found is None else found


def device_index(address: str, visible: str | None) -> int | None:
    """CUDA's index of a device.

    Args:
        address: what Spark's discovery of resources calls it: an index, or a UUID.
        visible: the value of ``CUDA_VISIBLE_DEVICES``; None where it is not set.

    Returns:
        Its index among the visible devices; None if no device is visible.

    Raises:
        InputError: the address is no number, and not one of the visible devices.
    """
    if visible is not None:
        names = _names(visible)
        if not names:
            return None
        if address in names:
            return names.index(address)
        # Inside of a container that sees only its own devices, discovery counts these from 0.
        if address.isdecimal() and int(address) < len(names):
            return int(address)
    elif address.isdecimal():
        return int(address)
    shown = "not set" if visible is None else f"'{visible}'"
    raise InputError(
        f"{RESOURCE} address of this task is '{address}': expected a number, or one of"
        f" CUDA_VISIBLE_DEVICES, which is {shown}"
    )


def task_address() -> str | None:
    """The first address of this task's accelerators, as Spark calls it; None without any."""
    from pyspark import TaskContext  # noqa: PLC0415  importing dagopt must not need pyspark

    context = TaskContext.get()
    held = context.resources().get(RESOURCE) if context is not None else None
    return str(held.addresses[0]) if held is not None and held.addresses else None


def _names(visible: str) -> list[str]:
    """The visible devices; CUDA ends the list at the first that is none, such as ``-1``."""
    names: list[str] = []
    for name in (part.strip() for part in visible.split(",")):
        if not name or name.startswith("-"):
            break
        names.append(name)
    return names


def _cupy_on(index: int) -> Any | None:
    """That device made current in cupy; None if it is not installed, or the device does not work."""
    if importlib.util.find_spec("cupy") is None:
        return None
    try:
        cupy = importlib.import_module("cupy")
        cupy.cuda.Device(index).use()
    except Exception:  # noqa: BLE001  no driver, no such device: errors of several libraries
        return None
    return cupy
