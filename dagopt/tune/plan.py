"""How long phases are, and what is tried before anything starts."""

from __future__ import annotations

import importlib
import math
import os
import pickle
from dataclasses import dataclass
from typing import Any, Final

from dagopt.errors import InputError
from dagopt.spark.phases import dumps, each_partition, is_frame
from dagopt.tune.checkpoint import Store
from dagopt.tune.data import Feed, batch_bytes
from dagopt.tune.frame_data import FOLDER, FrameData, write_partition
from dagopt.tune.records import Records
from dagopt.tune.trainable import state_bytes

WATCHED: Final = 5
"""Iterations of a new trial by itself, before anything is decided about it."""

_PHASE_S: Final = 30.0
"""Length of a phase where boundaries are only for checkpoints."""

_OVERHEAD_S: Final = 0.2
"""Prior for what a boundary costs: planning, files, and a Spark job."""

_FIRST_FRACTION: Final = 0.1
"""Share of the iterations in the first merged phase: what it measures balances the others."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Iterations between boundaries."""

    max_iterations: int
    fixed: int | None
    """What the user asked for."""
    prunes: bool
    """Whether trials may end at boundaries."""

    def phase_iterations(self, records: Records, num_slots: int) -> int:
        """Iterations of the next phase, >= 1.

        Where trials may be pruned, boundaries may take a tenth of the time, and there are about 20.
        """
        if self.fixed is not None:
            return self.fixed
        running = records.running()
        reads_s = {one.dataset: records.read_s.get(one.dataset, 0.0) for one in running}
        work_s = sum(one.stacked_step_s or one.step_s for one in running)
        iteration_s = max((work_s + sum(reads_s.values())) / num_slots, 1e-9)
        left = max(self.max_iterations - one.position for one in running)
        overhead_s = max(records.overhead_s, _OVERHEAD_S / 4) if records.phases else _OVERHEAD_S
        if self.prunes:
            return max(
                1, math.ceil(10 * overhead_s / iteration_s), math.ceil(self.max_iterations / 20)
            )
        merged_before = any(one.mode != "watch" for one in records.phases)
        if not merged_before and left * iteration_s * _FIRST_FRACTION > 2 * overhead_s:
            return math.ceil(left * _FIRST_FRACTION)
        return max(1, math.ceil(_PHASE_S / iteration_s))


def prepare_data(data: Any, store: Store, batch_size: int, application: str) -> Any:
    """The data set as tasks use it; a DataFrame's partitions are written to the store.

    Raises:
        InputError: a DataFrame has no rows.
    """
    if not is_frame(data):
        return data
    path = store.path
    found = each_partition(
        data, lambda number, batches: write_partition(path, application, number, batches)
    )
    files = tuple(name for name, num_rows in found if num_rows)
    if not files:
        raise InputError("data: the DataFrame has no rows")
    store.keep(FOLDER, files)
    return FrameData(path=path, files=files, batch_size=batch_size)


def try_one(trainable: Any, data: Any, params: dict[str, Any]) -> int:
    """Make the state of one trial in this process, and read a batch.

    Returns:
        Bytes that the trial needs at least: state, gradients and batch, or its own ``footprint``.

    Raises:
        InputError: the state, the trainable or the data cannot be pickled, or there is no batch.
    """
    numpy = importlib.import_module("numpy")
    for what, value in (("trainable", trainable), ("data", data)):
        _check_pickle(what, value)
    try:
        state = trainable.init(params, numpy)
    except Exception:  # noqa: BLE001  the trial fails with its traceback when it runs
        return 0
    _check_pickle("state", state)
    batch = Feed(data, params, 0, 0).read()
    own = getattr(trainable, "footprint", None)
    own_bytes = 0 if own is None else int(own(params, batch))
    return max(own_bytes, 2 * state_bytes(state)) + batch_bytes(batch)


def own_capacity_bytes(num_slots: int, profile: Any) -> int:
    """Memory of a slot where the user said nothing.

    Of CPU slots the driver's machine shared by them; executors are taken to be alike. Of accelerators
    that of the driver's first one, or without one no limit that is known.
    """
    if profile is None:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // num_slots
    try:
        cupy = importlib.import_module("cupy")
        return int(cupy.cuda.Device(0).mem_info[1])
    except Exception:  # noqa: BLE001  no cupy, no driver, no device: errors of several libraries
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _check_pickle(what: str, value: Any) -> None:
    try:
        pickle.loads(dumps(value))  # noqa: S301  what was just pickled
    except Exception as error:
        raise InputError(
            f"{what} cannot be pickled, so it cannot move between tasks: {error}"
        ) from error
