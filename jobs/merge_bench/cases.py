"""What the benchmark trains: the same trainable, data, seeds and parameters in every mode."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from jobs.sweep_models import Mlp

NUM_TRIALS = 64
DAGOPT, SERIAL, SPARK_TASK, OPTUNA, RAY = "dagopt", "serial", "spark-task", "optuna", "ray-tune"
MODES = (SERIAL, SPARK_TASK, OPTUNA, RAY, DAGOPT)

NUM_BATCHES = 50
EDGE = 96
"""Pixels of an image's side in the case whose data are decoded."""


@dataclass(frozen=True, slots=True)
class Table:
    """Random rows and labels that are in memory, cut into batches."""

    num_inputs: int
    num_outputs: int
    batch_size: int

    def batches(self, seed: int) -> list[dict[str, Any]]:
        """One pass."""
        random = np.random.default_rng(seed)
        found = []
        for _ in range(NUM_BATCHES):
            x = random.normal(size=(self.batch_size, self.num_inputs)).astype(np.float32)
            labels = (np.abs(x[:, :3]).sum(axis=1) * 2).astype(int) % self.num_outputs
            found.append({"x": x, "y": np.eye(self.num_outputs, dtype=np.float32)[labels]})
        return found


class Shared:
    """One table for all trials."""

    def __init__(self, table: Table) -> None:
        self._batches = table.batches(0)

    def __call__(self, _: Mapping[str, Any]) -> list[dict[str, Any]]:
        """One pass."""
        return self._batches


class Separate:
    """A table for each trial."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def dataset(self, params: Mapping[str, Any]) -> str:
        """Name of a trial's table."""
        return f"table {params['seed']}"

    def __call__(self, params: Mapping[str, Any]) -> list[dict[str, Any]]:
        """One pass."""
        return self._table.batches(params["seed"])


class Images:
    """JPEG images, decoded again in each pass, as 8 by 8 means."""

    def __init__(self, batch_size: int) -> None:
        from PIL import Image

        random = np.random.default_rng(0)
        self._batch_size = batch_size
        self._images = []
        for _ in range(NUM_BATCHES * batch_size):
            coarse = random.integers(0, 255, size=(8, 8, 3), dtype=np.uint8)
            stream = io.BytesIO()
            Image.fromarray(coarse).resize((EDGE, EDGE)).save(stream, "JPEG")
            self._images.append(stream.getvalue())

    def __call__(self, _: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """One pass."""
        for first in range(0, len(self._images), self._batch_size):
            pixels = [decoded(one) for one in self._images[first : first + self._batch_size]]
            x = np.stack(pixels)
            labels = (x[:, :16].sum(axis=1) > 0).astype(int) + 2 * (x[:, 16:32].sum(axis=1) > 0)
            yield {"x": x, "y": np.eye(4, dtype=np.float32)[labels]}


def decoded(jpeg: bytes) -> Any:
    """Grey means of 8 by 8 tiles of an image, ``(64,)``, about -1 to 1."""
    from PIL import Image

    pixels = np.asarray(Image.open(io.BytesIO(jpeg)).convert("L"), dtype=np.float32)
    tiles = pixels.reshape(8, EDGE // 8, 8, EDGE // 8).mean(axis=(1, 3))
    return (tiles.reshape(-1) - 128) / 64


@dataclass(frozen=True)
class Case:
    """One sweep."""

    name: str
    table: Table | None
    num_hidden: int
    num_iterations: int
    is_separate: bool = False

    @cached_property
    def data(self) -> Any:
        """Its data set."""
        if self.table is None:
            return Images(32)
        return Separate(self.table) if self.is_separate else Shared(self.table)

    @property
    def trainable(self) -> Mlp:
        """Its model."""
        if self.table is None:
            return Mlp(64, 4, self.num_hidden)
        return Mlp(self.table.num_inputs, self.table.num_outputs, self.num_hidden)

    def params(self, trial: int) -> dict[str, Any]:
        """Parameters of a trial."""
        random = np.random.default_rng((1, trial))
        found: dict[str, Any] = {
            "lr": float(10 ** random.uniform(-3, -1)),
            "momentum": float(random.uniform(0, 0.9)),
            "seed": trial,
        }
        return {**found, "hidden": self.num_hidden + trial} if self.is_separate else found


SMALL = "small MLP"
MEDIUM = "medium MLP"
DECODED = "decoded data"
APART = "separate data"
CASES = {
    case.name: case
    for case in (
        Case(SMALL, Table(16, 4, 32), 16, 3000),
        Case(MEDIUM, Table(64, 10, 128), 64, 800),
        Case(DECODED, None, 16, 50),
        Case(APART, Table(64, 10, 128), 64, 400, is_separate=True),
    )
}
WARM_UP = Case("warm-up", Table(16, 4, 32), 16, 60)


def train(case: Case, trial: int, num_iterations: int | None = None) -> list[float]:
    """Losses of one trial, by nothing but init and steps."""
    trainable, params = case.trainable, case.params(trial)
    state = trainable.init(params, np)
    losses: list[float] = []
    wanted = num_iterations or case.num_iterations
    while len(losses) < wanted:
        for batch in case.data(params):
            losses.append(float(trainable.step(state, batch, params, np)["loss"]))
            if len(losses) == wanted:
                break
    return losses
