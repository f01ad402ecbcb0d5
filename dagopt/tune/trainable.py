"""What users write: a trainable. And what its states and parameters look like to the engine.

A trainable is a small class::

    class Model:
        stackable = True

        def init(self, params, xp):  # the state: arrays in dicts, lists and tuples
            random = numpy.random.default_rng(params["seed"])
            return {"w": xp.asarray(random.normal(size=(16, 4)))}

        def step(self, state, batch, params, xp):  # one iteration; changes the state
            ...
            return {"loss": loss}

A *stackable* one promises that its step broadcasts over a leading trial axis. Then the arrays of the
state have one axis more in front, numbers in ``params`` that differ are arrays of shape ``(J, 1, 1)``,
and metrics have the shape ``(J,)``. So its arrays have two axes, a bias is ``(1, O)``, axes are counted
from the end, and a matrix is transposed with ``xp.swapaxes(a, -1, -2)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np

from dagopt.errors import InputError

State: TypeAlias = Any
"""Arrays in dicts, lists and tuples; of an unstackable trainable anything that can be pickled."""

Params: TypeAlias = Mapping[str, Any]
"""Parameters of a trial, its ``seed`` among them."""


class Trainable(Protocol):
    """The two methods that every trainable has.

    Optional are ``stackable`` (a bool, see above) and ``footprint(params, batch) -> int``: bytes that
    one iteration needs beside the batch, for what allocates memory that is not numpy's or cupy's.
    """

    def init(self, params: Params, xp: Any) -> State:
        """The state before the first iteration; ``xp`` is numpy or cupy."""

    def step(self, state: State, batch: Any, params: Params, xp: Any) -> Mapping[str, Any]:
        """One iteration: changes ``state`` in place and returns metrics, ``loss`` among them."""


def check_trainable(trainable: object, metric: str) -> None:
    """Check what can be seen without running it.

    Raises:
        InputError: a method is missing, or ``metric`` is no name.
    """
    if isinstance(trainable, type):
        raise InputError(
            f"trainable is the class {trainable.__name__}, expected an object: {trainable.__name__}(...)"
        )
    for name in ("init", "step"):
        if not callable(getattr(trainable, name, None)):
            raise InputError(
                f"trainable: {type(trainable).__name__} has no method {name}; expected"
                " init(params, xp) and step(state, batch, params, xp)"
            )
    if not metric:
        raise InputError("metric is '', expected the name of one of the step's metrics")


def leaves(state: State) -> list[Any]:
    """The arrays of a state, in the order of its structure; an empty list where it has others."""
    found: list[Any] = []
    return found if _collect(state, found) else []


def with_leaves(state: State, arrays: list[Any]) -> State:
    """A state of the same structure with other arrays in it."""
    return _rebuild(state, iter(arrays))


def state_bytes(state: State) -> int:
    """Bytes of a state's arrays."""
    return sum(int(leaf.nbytes) for leaf in leaves(state))


def model_type(trainable: object, state: State, params: Params) -> str:
    """What trials must have in common to be stacked: class, shapes, and parameters that are no numbers."""
    shapes = ",".join(f"{leaf.dtype}{list(leaf.shape)}" for leaf in leaves(state))
    others = ",".join(
        f"{name}={value!r}" for name, value in sorted(params.items()) if not is_number(value)
    )
    return f"{type(trainable).__name__} {_structure(state)} {shapes} {others}".strip()


def is_number(value: object) -> bool:
    """Whether a parameter's value can be put into an array with those of other trials."""
    return isinstance(value, (int, float, np.number)) and not isinstance(value, (bool, np.bool_))


def is_array(value: object) -> bool:
    """Whether it is an array of numpy or of a library like it."""
    return hasattr(value, "__array_priority__") or (
        hasattr(value, "dtype") and hasattr(value, "shape") and hasattr(value, "nbytes")
    )


def _collect(state: State, found: list[Any]) -> bool:
    if isinstance(state, dict):
        return all(_collect(state[key], found) for key in state)
    if isinstance(state, (list, tuple)):
        return all(_collect(part, found) for part in state)
    if is_array(state):
        found.append(state)
        return True
    return False


def _rebuild(state: State, arrays: Any) -> State:
    if isinstance(state, dict):
        return {key: _rebuild(part, arrays) for key, part in state.items()}
    if isinstance(state, (list, tuple)):
        parts = [_rebuild(part, arrays) for part in state]
        return parts if isinstance(state, list) else tuple(parts)
    return next(arrays)


def _structure(state: State) -> str:
    if isinstance(state, dict):
        return "{" + ",".join(f"{key}:{_structure(part)}" for key, part in state.items()) + "}"
    if isinstance(state, (list, tuple)):
        return "[" + ",".join(map(_structure, state)) + "]"
    return "*"
