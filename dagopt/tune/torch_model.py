"""PyTorch modules as trainables: parameters are stacked with ``torch.func``.

The step is gradient descent with momentum on a loss of the module's output. One trial is computed with
``functional_call`` and ``grad``; several by the same function under ``vmap`` over the stacked
parameters, so the module itself needs to know nothing of trials. Modules with buffers that a forward
pass changes, such as batch normalisation, are stacked by no ``vmap`` and must set ``stackable=False``.

torch is imported when a step runs. States are numpy arrays, so that they move like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dagopt.tune.trainable import Params


class TorchModel:
    """A trainable from a module.

    Args:
        make: ``make(params)`` gives a new module; its initial weights are drawn after torch was seeded
            with the trial's ``seed``.
        loss: ``loss(output, batch)`` gives a scalar tensor.
        inputs: key of the batch that the module is called with.
        stackable: whether trials of one shape may be computed under ``vmap``.
    """

    def __init__(
        self,
        make: Callable[[Params], Any],
        loss: Callable[[Any, Mapping[str, Any]], Any],
        *,
        inputs: str = "x",
        stackable: bool = True,
    ) -> None:
        self._make = make
        self._loss = loss
        self._inputs = inputs
        self.stackable = stackable
        self._modules: dict[str, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Without modules: each process makes its own."""
        return {**self.__dict__, "_modules": {}}

    def init(self, params: Params, xp: Any) -> dict[str, dict[str, Any]]:  # noqa: ARG002  the protocol's
        """Weights and velocities by the names of the module's parameters."""
        import torch  # noqa: PLC0415  an extra

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(params["seed"]))
            module = self._make(params)
        weights = {name: value.detach().numpy().copy() for name, value in module.named_parameters()}
        velocities = {name: np.zeros_like(value) for name, value in weights.items()}
        return {"weights": weights, "velocities": velocities}

    def step(self, state: Any, batch: Mapping[str, Any], params: Params, xp: Any) -> dict[str, Any]:  # noqa: ARG002
        """One iteration; of several trials where the arrays have one axis more."""
        import torch  # noqa: PLC0415

        tensors = {name: torch.from_numpy(value) for name, value in state["weights"].items()}
        given = {
            key: torch.from_numpy(value) if isinstance(value, np.ndarray) else value
            for key, value in batch.items()
        }
        module = self._module(state["weights"], params)

        def loss_of(weights: dict[str, Any]) -> Any:
            output = torch.func.functional_call(module, weights, (given[self._inputs],))
            return self._loss(output, given)

        function = torch.func.grad_and_value(loss_of)
        if self._is_stacked(module, tensors):
            function = torch.func.vmap(function)
        gradients, loss = function(tensors)
        for name, weight in state["weights"].items():
            velocity = state["velocities"][name]
            velocity *= _fitting(params.get("momentum", 0.0), weight)
            velocity += gradients[name].detach().numpy() * _fitting(params["lr"], weight)
            np.subtract(weight, velocity, out=weight)
        return {"loss": loss.detach().numpy()}

    def _module(self, weights: Mapping[str, Any], params: Params) -> Any:
        """A module of that shape, made once a process; ``meta`` weights are replaced at each call."""
        key = ",".join(f"{name}{value.shape[-2:]}" for name, value in weights.items())
        shaping = ((n, v) for n, v in params.items() if not isinstance(v, (float, np.ndarray)))
        key += repr(sorted((n, v) for n, v in shaping if n != "seed"))
        if key not in self._modules:
            self._modules[key] = self._make(params)
        return self._modules[key]

    def _is_stacked(self, module: Any, tensors: Mapping[str, Any]) -> bool:
        name, own = next(iter(module.named_parameters()))
        return bool(tensors[name].dim() == own.dim() + 1)


def _fitting(value: Any, weight: Any) -> Any:
    """A parameter of shape ``(J, 1, 1)`` with as many axes as stacked weights have."""
    if not isinstance(value, np.ndarray):
        return value
    return value.reshape(-1, *([1] * (weight.ndim - 1)))
