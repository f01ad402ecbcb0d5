"""What a training application does in truth, from measurements: what policies only learn by running.

Step times come from placements that were measured; between them they are interpolated by hosts, replicas
and local batch. Statistics of the gradient come from trainings to the end at several batch sizes; between
these they are interpolated too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dagopt.errors import InputError
from dagopt.model.training import BatchLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """One training to the end at one batch size, a row an epoch."""

    progress: NDArray[np.float64]
    """``(E,)`` steps of the initial batch that each epoch's end is worth, ascending."""
    iterations: NDArray[np.float64]
    """``(E,)`` steps made until then."""
    grad_sqr: NDArray[np.float64]
    grad_var: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """The measurements of one application."""

    name: str
    batches: BatchLimits
    placements: Mapping[tuple[int, ...], NDArray[np.float64]]
    """By accelerators on each host, ``(B, 3)``: local batch ascending, seconds of a step, and of it the
    synchronisation."""
    scaling: NDArray[np.float64]
    """``(M, 5)``: hosts, replicas, local batch, seconds of a step, and of its synchronisation."""
    trainings: Mapping[int, Training]
    """By batch size, ascending."""
    num_epochs: int
    is_batch_fixed: bool = False
    """Whether its users train it at one batch size only."""
    max_replicas: int = 64

    _known: dict[tuple[tuple[int, ...], int], tuple[float, float]] = field(
        default_factory=dict, compare=False, repr=False
    )
    _between: list[Any] = field(default_factory=list, compare=False, repr=False)

    def step(self, counts: tuple[int, ...], local_batch: int) -> tuple[float, float]:
        """Seconds of a step, and of its synchronisation, without accumulation.

        Args:
            counts: accelerators on each host, each > 0; their order does not matter.
            local_batch: examples on each.

        Raises:
            InputError: nothing comparable was measured.
        """
        shape = min(counts[at:] + counts[:at] for at in range(len(counts)))
        key = (shape, local_batch)
        if key not in self._known:
            table = self.placements.get(shape)
            if table is None:
                self._known[key] = self._interpolate(len(shape), sum(shape), local_batch)
            else:
                step = float(np.interp(local_batch, table[:, 0], table[:, 1]))
                sync = float(np.interp(local_batch, table[:, 0], table[:, 2]))
                self._known[key] = (step, sync)
        return self._known[key]

    def progress_at(self, epoch: int) -> float:
        """Progress at the end of that many epochs, in steps of the initial batch."""
        if epoch == 0:
            return 0.0
        return min(float(run.progress[epoch - 1]) for run in self.trainings.values())

    def iterations_at(self, batch: int, epoch: int) -> float:
        """Steps at a fixed batch size until the end of that many epochs."""
        if epoch == 0:
            return 0.0
        return self._weighted(batch, "iterations", epoch - 1)

    def noise(self, batch: int, epoch: int) -> tuple[float, float]:
        """Squared norm and variance of the gradient in an epoch, as seen at a batch size."""
        return self._weighted(batch, "grad_sqr", epoch), self._weighted(batch, "grad_var", epoch)

    def _weighted(self, batch: int, attribute: str, epoch: int) -> float:
        sizes = list(self.trainings)
        values = [float(getattr(run, attribute)[epoch]) for run in self.trainings.values()]
        return float(np.interp(batch, sizes, values))

    def _interpolate(self, hosts: int, replicas: int, local_batch: int) -> tuple[float, float]:
        # Slow to import, and needed by simulations alone.
        from scipy.interpolate import LinearNDInterpolator, NearestNDInterpolator  # noqa: PLC0415

        if not self._between:
            means: dict[tuple[int, int, float], list[NDArray[np.float64]]] = {}
            for shape, table in self.placements.items():
                for row in table:
                    means.setdefault((len(shape), sum(shape), row[0]), []).append(row[1:])
            rows = [(*key, *np.mean(found, axis=0)) for key, found in means.items()]
            points = np.vstack([np.array(rows).reshape(-1, 5), self.scaling.reshape(-1, 5)])
            if len(points) == 0:
                raise InputError(f"{self.name}: no step was measured")
            # A trace of few placements spans no volume to interpolate in.
            spans = len(points) > 4 and np.linalg.matrix_rank(points[:, :3] - points[0, :3]) == 3
            if spans:
                self._between.append(LinearNDInterpolator(points[:, :3], points[:, 3:]))
            self._between.append(NearestNDInterpolator(points[:, :3], points[:, 3:], rescale=True))
        for interpolator in self._between:
            step, sync = np.ravel(interpolator([[hosts, replicas, local_batch]]))
            if np.isfinite(step) and np.isfinite(sync):
                return float(step), float(sync)
        raise InputError(f"{self.name}: no step time of {replicas} replicas on {hosts} hosts")
