"""The three trainings of ``train_jobs.py`` and its benchmark: digits, delays of flights, photographs.

Each computes for real, on numpy, and then waits under a lock for its device until a micro-batch has taken
``micro_s``: two cores of a machine cannot stand for several accelerators, and with the wait time is
shared between accelerators as it would be. With ``micro_s`` of 0, and outside of tasks, there is no wait.
"""

from __future__ import annotations

import fcntl
import functools
import io
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dagopt.spark.devices import task_address
from jobs import datasets
from jobs.gpu_inference import example_photographs

CROPS, CROP_PIXELS, IMAGE_PIXELS = 100, 64, 16
"""Of each photograph; edge of a crop; edge to which it is shrunk."""


def write_examples(folder: Path) -> None:
    """Write the examples of all trainings to a folder."""
    x, y = datasets.digits()
    np.savez(folder / "digits.npz", x=x, y=y)
    x, y = datasets.flights(20_000)
    np.savez(folder / "flights.npz", x=x, y=y)
    crops, sizes = io.BytesIO(), []
    photographs = list(example_photographs().values())
    random = np.random.default_rng(0)
    for number in range(CROPS * len(photographs)):
        picture = photographs[number % len(photographs)]
        left, top = (int(random.integers(0, edge - CROP_PIXELS)) for edge in picture.size)
        crop = picture.crop((left, top, left + CROP_PIXELS, top + CROP_PIXELS))
        before = crops.tell()
        crop.save(crops, "JPEG")
        sizes.append(crops.tell() - before)
    labels = np.arange(len(sizes)) % len(photographs)
    np.savez(
        folder / "photographs.npz",
        jpeg=np.frombuffer(crops.getvalue(), np.uint8),
        ends=np.cumsum(sizes),
        y=np.eye(len(photographs), dtype=np.float32)[labels],
    )


@functools.cache
def examples(file: str) -> dict[str, NDArray[Any]]:
    """The arrays of a file, read once a process."""
    with np.load(file) as found:
        return dict(found)


@functools.cache
def decoded(file: str, index: int) -> NDArray[np.float32]:
    """Pixels of a crop, decoded once a process."""
    from PIL import Image

    found = examples(file)
    first = found["ends"][index - 1] if index else 0
    content = found["jpeg"][first : found["ends"][index]].tobytes()
    with Image.open(io.BytesIO(content)) as crop:
        small = crop.resize((IMAGE_PIXELS, IMAGE_PIXELS))
    pixels = np.asarray(small, np.float32).ravel()
    return pixels / np.float32(255) - np.float32(0.5)


@dataclass(frozen=True)
class Network:
    """One hidden layer and momentum; the learning rate warms up and decays with the iteration."""

    file: str
    """Its examples, see :func:`write_examples`."""
    micro_s: float = 0.0
    """Seconds that a device takes for a micro-batch."""
    lock_dir: str = ""
    """Where the devices' locks are."""
    hidden: int = 32
    rate: float = 0.05
    momentum: float = 0.9
    half_life: int = 400
    """Iterations in which the learning rate falls to a half."""
    classes: bool = True

    @property
    def num_examples(self) -> int:
        """Examples of a pass."""
        return len(examples(self.file)["y"])

    def init(self, seed: int) -> dict[str, dict[str, Any]]:
        """He's initialisation."""
        random = np.random.default_rng(seed)
        x, y = self.batch(np.zeros(1, np.int64))
        weights: dict[str, Any] = {}
        for layer, fan_in, fan_out in (
            ("1", x.shape[1], self.hidden),
            ("2", self.hidden, y.shape[1]),
        ):
            drawn = random.normal(size=(fan_in, fan_out)) * (2 / fan_in) ** 0.5
            weights["w" + layer] = drawn.astype(np.float32)
            weights["b" + layer] = np.zeros(fan_out, np.float32)
        return {"weights": weights, "velocity": {k: np.zeros_like(v) for k, v in weights.items()}}

    def batch(self, indices: NDArray[np.int64]) -> tuple[Any, Any]:
        """Inputs, ``(B, F)``, and what is learnt of them, ``(B, C)``."""
        found = examples(self.file)
        return found["x"][indices], found["y"][indices]

    def gradients(
        self, state: Mapping[str, Any], batch: tuple[Any, Any]
    ) -> tuple[float, dict[str, Any]]:
        """Cross-entropy, or half the squared error, and its gradients."""
        with self._device():
            x, y = batch
            w = state["weights"]
            hidden = np.maximum(x @ w["w1"] + w["b1"], 0)
            out = hidden @ w["w2"] + w["b2"]
            if self.classes:
                out -= out.max(axis=1, keepdims=True)
                out = np.exp(out)
                out /= out.sum(axis=1, keepdims=True)
                loss = -np.log((out * y).sum(axis=1) + 1e-12).mean()
                error = (out - y) / len(x)
            else:
                error = out - y
                loss = 0.5 * (error**2).sum(axis=1).mean()
                error = error / len(x)
            back = (error @ w["w2"].T) * (hidden > 0)
            found = {
                "w1": x.T @ back,
                "b1": back.sum(axis=0),
                "w2": hidden.T @ error,
                "b2": error.sum(axis=0),
            }
        return float(loss), found

    def update(self, state: dict[str, Any], gradients: Mapping[str, Any], iteration: int) -> None:
        """Gradient descent with momentum."""
        rate = self.rate * min(1.0, (iteration + 1) / 20) * 0.5 ** (iteration / self.half_life)
        for name, gradient in gradients.items():
            velocity = state["velocity"][name]
            velocity *= self.momentum
            velocity -= np.float32(rate) * gradient
            state["weights"][name] += velocity

    @contextmanager
    def _device(self) -> Iterator[None]:
        """Holds the task's device for ``micro_s``."""
        address = task_address()
        if not self.micro_s or address is None:
            yield
            return
        # Executors of a local cluster have the same addresses; each has a Python daemon of its own.
        with (Path(self.lock_dir) / f"gpu-{os.getppid()}-{address}").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            until_s = time.monotonic() + self.micro_s
            yield
            time.sleep(max(0.0, until_s - time.monotonic()))


class Photographs(Network):
    """From which photograph a crop is; crops are JPEG, decoded as they are read."""

    def batch(self, indices: NDArray[np.int64]) -> tuple[Any, Any]:
        """Pixels from -0.5 to 0.5, and the photograph."""
        x = [decoded(self.file, int(index)) for index in indices]
        return np.stack(x), examples(self.file)["y"][indices]
