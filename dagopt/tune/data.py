"""Input of a sweep: batches of a data set, pass after pass, in the same order for every trial.

A data set is a callable: ``data(params)`` gives one pass, an iterable or a sequence of batches. What
it reads may depend on parameters: ``dataset(params)``, where the callable has it, names the data set,
and trials with different names share no pass. A sequence is indexed, so that a phase that begins
within a pass need not read what lies before.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dagopt.errors import InputError
from dagopt.tune.trainable import Params, is_array


def dataset_name(data: Any, params: Params) -> str:
    """Name of what a trial reads."""
    named = getattr(data, "dataset", None)
    return (
        str(named(params))
        if callable(named)
        else str(getattr(data, "__name__", type(data).__name__))
    )


class Feed:
    """The batches of one group, from where its trials stand.

    Args:
        data: the data set.
        params: of one of the trials.
        position: iterations done.
        pass_length: batches of a pass; 0 where it is not known yet.
    """

    def __init__(self, data: Any, params: Params, position: int, pass_length: int) -> None:
        self._data = data
        self._params = params
        self.pass_length = pass_length
        self.num_passes = 0
        self._place = 0
        self._batches = self._pass()
        if isinstance(self._batches, Sequence):
            self.pass_length = len(self._batches)
        self._skip(position)

    def read(self) -> Any:
        """The next batch.

        Raises:
            InputError: a pass has no batch.
        """
        if isinstance(self._batches, Sequence):
            batch = self._batches[self._place % self.pass_length]
            self._place += 1
            return batch
        batch = next(self._batches, self)
        if batch is self:
            self.pass_length = self._place
            self._batches = self._pass()
            self._place = 0
            batch = next(self._batches, self)
        self._place += 1
        return batch

    def _skip(self, position: int) -> None:
        if self.pass_length:
            position %= self.pass_length
        if isinstance(self._batches, Sequence):
            self._place = position
            return
        if self.pass_length:
            self._place = sum(1 for _ in itertools.islice(self._batches, position))
            return
        for _ in range(position):
            self.read()

    def _pass(self) -> Any:
        found = self._data(self._params)
        self.num_passes += 1
        if isinstance(found, Sequence):
            if not found:
                raise _no_batch(self._data)
            return found
        batches: Iterator[Any] = iter(found)
        first = next(batches, self)
        if first is self:
            raise _no_batch(self._data)
        return itertools.chain([first], batches)


def _no_batch(data: Any) -> InputError:
    return InputError(f"data: {type(data).__name__} gave no batch, expected at least one")


def batch_bytes(batch: Any) -> int:
    """Bytes of the arrays in a batch."""
    if is_array(batch):
        return int(batch.nbytes)
    if isinstance(batch, Mapping):
        return sum(map(batch_bytes, batch.values()))
    if isinstance(batch, (list, tuple)):
        return sum(map(batch_bytes, batch))
    return len(batch) if isinstance(batch, (bytes, str)) else 0


def batch_rows(batch: Any) -> int:
    """Rows of a batch: the length of its first array; 0 where it has none."""
    if is_array(batch):
        return int(batch.shape[0]) if batch.shape else 0
    parts = batch.values() if isinstance(batch, Mapping) else batch
    if isinstance(batch, (Mapping, list, tuple)):
        return next((rows for rows in map(batch_rows, parts) if rows), 0)
    return 0
