"""Trainables of the sweep and of its benchmark, in plain array operations that broadcast over trials.

All arrays of a state have two axes, so that a leading trial axis and parameters of shape (J, 1, 1)
broadcast: a bias is (1, O), and axes are counted from the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mlp:
    """One hidden layer, ReLU, gradient descent with momentum; classes, or one number a row.

    Parameters: ``lr``, and optionally ``momentum``, ``hidden`` and ``seed``.
    """

    num_inputs: int
    num_outputs: int
    num_hidden: int = 16
    classes: bool = True
    stackable: bool = True

    def init(self, params: Mapping[str, Any], xp: Any) -> dict[str, Any]:
        """He's initialisation, from the trial's seed."""
        import numpy as np

        random = np.random.default_rng(params["seed"])
        hidden = int(params.get("hidden", self.num_hidden))
        state = {}
        sizes = (("1", self.num_inputs, hidden), ("2", hidden, self.num_outputs))
        for layer, fan_in, fan_out in sizes:
            weights = random.normal(size=(fan_in, fan_out)) * (2 / fan_in) ** 0.5
            state["w" + layer] = xp.asarray(weights, dtype="float32")
            state["b" + layer] = xp.zeros((1, fan_out), dtype="float32")
        return {**state, **{"v" + name: xp.zeros_like(array) for name, array in state.items()}}

    def step(
        self, state: dict[str, Any], batch: Mapping[str, Any], params: Mapping[str, Any], xp: Any
    ) -> dict[str, Any]:
        """One mini-batch."""
        x, y = batch["x"], batch["y"]
        hidden = x @ state["w1"]
        hidden += state["b1"]
        xp.maximum(hidden, 0, out=hidden)
        out = hidden @ state["w2"]
        out += state["b2"]
        loss, error = loss_and_error(out, y, xp, classes=self.classes)
        back = error @ xp.swapaxes(state["w2"], -1, -2)
        back *= hidden > 0
        gradients = {
            "w2": xp.swapaxes(hidden, -1, -2) @ error,
            "b2": error.sum(axis=-2, keepdims=True),
            "w1": xp.swapaxes(x, -1, -2) @ back,
            "b1": back.sum(axis=-2, keepdims=True),
        }
        descend(state, gradients, params)
        return {"loss": loss}


@dataclass(frozen=True)
class Logistic:
    """One linear layer; parameters as those of :class:`Mlp` without ``hidden``."""

    num_inputs: int
    num_outputs: int
    classes: bool = True
    stackable: bool = True

    def init(self, params: Mapping[str, Any], xp: Any) -> dict[str, Any]:
        """Small random weights, from the trial's seed."""
        import numpy as np

        random = np.random.default_rng(params["seed"])
        weights = random.normal(size=(self.num_inputs, self.num_outputs)) * 0.01
        state = {
            "w": xp.asarray(weights, dtype="float32"),
            "b": xp.zeros((1, self.num_outputs), dtype="float32"),
        }
        return {**state, **{"v" + name: xp.zeros_like(array) for name, array in state.items()}}

    def step(
        self, state: dict[str, Any], batch: Mapping[str, Any], params: Mapping[str, Any], xp: Any
    ) -> dict[str, Any]:
        """One mini-batch."""
        x, y = batch["x"], batch["y"]
        out = x @ state["w"]
        out += state["b"]
        loss, error = loss_and_error(out, y, xp, classes=self.classes)
        gradients = {
            "w": xp.swapaxes(x, -1, -2) @ error,
            "b": error.sum(axis=-2, keepdims=True),
        }
        descend(state, gradients, params)
        return {"loss": loss}


def loss_and_error(out: Any, y: Any, xp: Any, *, classes: bool) -> tuple[Any, Any]:
    """Mean loss of each trial, and its gradient by ``out``: cross-entropy, or half the squared error."""
    num_rows = out.shape[-2]
    if not classes:
        error = out - y
        loss = 0.5 * (error * error).sum(axis=-1).mean(axis=-1)
        error /= num_rows
        return loss, error
    out -= out.max(axis=-1, keepdims=True)
    xp.exp(out, out=out)
    out /= out.sum(axis=-1, keepdims=True)
    loss = -xp.log((out * y).sum(axis=-1) + 1e-12).mean(axis=-1)
    out -= y
    out /= num_rows
    return loss, out


def descend(state: dict[str, Any], gradients: Mapping[str, Any], params: Mapping[str, Any]) -> None:
    """Gradient descent with momentum, in place."""
    momentum = params.get("momentum", 0.0)
    for name, gradient in gradients.items():
        velocity = state["v" + name]
        velocity *= momentum
        velocity += gradient * params["lr"]
        state[name] -= velocity
