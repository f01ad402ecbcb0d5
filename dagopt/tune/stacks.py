"""States of several trials as one: arrays with a leading trial axis, taken some trials at a time.

How many trials a stack is best taken at a time depends on caches: many small models together, larger
ones a few. The engine asks for a width; slices along the trial axis are views, so that changing it
costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dagopt.tune.trainable import Params, State, is_number, leaves, with_leaves


class Stack:
    """Trials of one model type that are stepped together.

    Args:
        trials: their numbers.
        states: their states, with equal structure, shapes and types; copied.
        params: their parameters.
        xp: numpy or cupy.
    """

    def __init__(
        self,
        trials: Sequence[int],
        states: Sequence[State],
        params: Sequence[Params],
        xp: Any,
    ) -> None:
        self.trials = tuple(trials)
        self._template = states[0]
        columns = zip(*(leaves(state) for state in states), strict=True)
        self._arrays = [xp.stack(column) for column in columns]
        self._params = stacked_params(params, self._arrays, xp)
        self._parts: list[tuple[State, dict[str, Any], list[Any]]] = []
        self.width = 0
        self.take(len(self.trials))

    def take(self, width: int) -> None:
        """Step so many trials at a time from now on."""
        if width == self.width:
            return
        self.width = width
        self._parts = []
        for first in range(0, len(self.trials), width):
            views = [array[first : first + width] for array in self._arrays]
            params = {
                name: value[first : first + width] if getattr(value, "ndim", 0) == 3 else value
                for name, value in self._params.items()
            }
            self._parts.append((with_leaves(self._template, views), params, views))

    def step(self, trainable: Any, batch: Any, metric: str, xp: Any) -> Any:
        """One iteration of all.

        Returns:
            The metric of each trial, of shape ``(J,)``.

        Raises:
            ValueError: the step gave another shape, or changed that of the state.
        """
        found = []
        for place, (state, params, views) in enumerate(self._parts):
            value = xp.asarray(trainable.step(state, batch, params, xp)[metric])
            if value.size != len(views[0]):
                raise ValueError(f"{metric} has shape {value.shape}, expected ({len(views[0])},)")
            found.append(value.reshape(-1))
            after = leaves(state)
            if any(leaf is not view for leaf, view in zip(after, views, strict=True)):
                # The step put new arrays into the state instead of changing those in it.
                for leaf, view in zip(after, views, strict=True):
                    if leaf.shape != view.shape:
                        raise ValueError(f"state has shape {leaf.shape}, expected {view.shape}")
                    view[...] = leaf
                self._parts[place] = (with_leaves(self._template, views), params, views)
        return found[0] if len(found) == 1 else xp.concatenate(found)

    def state(self, index: int) -> State:
        """The state of one trial; its arrays are views."""
        return with_leaves(self._template, [array[index] for array in self._arrays])


def stacked_params(params: Sequence[Params], arrays: Sequence[Any], xp: Any) -> dict[str, Any]:
    """Parameters of several trials: what is equal as it is, other numbers as ``(J, 1, 1)`` arrays.

    Arrays have the type of the state's floats: a number alone takes that of the array that it meets.
    """
    floats = [array.dtype for array in arrays if array.dtype.kind == "f"]
    result: dict[str, Any] = {}
    for name, first in params[0].items():
        values = [one[name] for one in params]
        if all(value == first for value in values) or not is_number(first):
            result[name] = first
            continue
        whole = all(isinstance(value, int) for value in values)
        kind = None if whole or not floats else xp.result_type(*floats)
        result[name] = xp.asarray(values, dtype=kind).reshape(-1, 1, 1)
    return result


def same_results(
    one: Sequence[float], other: Sequence[float], states: Sequence[tuple[State, State]], xp: Any
) -> bool:
    """Whether losses and states agree: what the check of a first step asks.

    Equal but for rounding: 1e-5 relative for losses, and for a state's array 1e-4 of its largest
    number.
    """
    if not xp.allclose(xp.asarray(one), xp.asarray(other), rtol=1e-5, atol=1e-9, equal_nan=True):
        return False
    for first, second in states:
        for a, b in zip(leaves(first), leaves(second), strict=True):
            if a.shape != b.shape:
                return False
            scale = float(abs(a).max()) if a.size else 0.0
            if not xp.allclose(a, b, rtol=0, atol=1e-4 * scale + 1e-12, equal_nan=True):
                return False
    return True


def metric_of(metrics: Mapping[str, Any], name: str) -> float:
    """One metric of an unstacked step.

    Raises:
        KeyError: the step did not return it; the message says what it did return.
    """
    if name not in metrics:
        raise KeyError(f"step returned no {name!r}, only {sorted(metrics)}")
    value = metrics[name]
    return float(value.item() if hasattr(value, "item") else value)
