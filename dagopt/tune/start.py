"""What is done before anything starts: data of a DataFrame is written, and one trial is tried."""

from __future__ import annotations

import importlib
import pickle
from typing import Any

from dagopt.errors import InputError
from dagopt.policy.merging.candidates import CandidateRules
from dagopt.spark.phases import PastFrame, dumps, each_partition, is_frame
from dagopt.tune.checkpoint import Store
from dagopt.tune.data import Feed, batch_bytes
from dagopt.tune.frame_data import FOLDER, FrameData, write_partition
from dagopt.tune.trainable import state_bytes


def check_kinds(memory: Any, headroom_fraction: Any, seed: Any, rules: Any) -> None:
    """Check arguments that are looked at late, or in tasks.

    Raises:
        InputError: one is wrong.
    """
    is_share = isinstance(headroom_fraction, (int, float)) and 0 <= headroom_fraction < 1
    for name, value, is_right, expected in (
        ("memory", memory, memory is None or isinstance(memory, str), "a size such as 4g, or None"),
        ("headroom_fraction", headroom_fraction, is_share, "a number >= 0 and < 1"),
        ("seed", seed, isinstance(seed, int), "a whole number"),
        ("rules", rules, rules is None or isinstance(rules, CandidateRules), "CandidateRules"),
    ):
        if not is_right:
            raise InputError(f"{name} is {value!r}, expected {expected}")


def prepare_data(data: Any, store: Store, batch_size: int, application: str) -> Any:
    """The data set as tasks use it; a DataFrame's partitions are written to the store.

    Raises:
        InputError: a DataFrame has no rows, or is another application's.
    """
    if not is_frame(data):
        return data
    if isinstance(data, PastFrame):
        raise InputError(
            "data: the DataFrame was not written when its application ended; submit the job again"
        )
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
        check_pickle(what, value)
    try:
        state = trainable.init(params, numpy)
    except Exception:  # noqa: BLE001  the trial fails with its traceback when it runs
        return 0
    check_pickle("state", state)
    try:
        batch = Feed(data, params, 0, 0).read()
    except InputError:
        raise
    except Exception:  # noqa: BLE001  as above
        return 2 * state_bytes(state)
    own = getattr(trainable, "footprint", None)
    own_bytes = 0 if own is None else int(own(params, batch))
    return max(own_bytes, 2 * state_bytes(state)) + batch_bytes(batch)


def check_pickle(what: str, value: Any) -> None:
    """Check that tasks can have it.

    Raises:
        InputError: it cannot be pickled; the message begins with ``what``.
    """
    try:
        pickle.loads(dumps(value))  # noqa: S301  what was just pickled
    except Exception as error:
        raise InputError(
            f"{what} cannot be pickled, so it cannot move between tasks: {error}"
        ) from error
