"""What a larger batch is worth: progress per step by the gradient noise scale.

A step on ``scale`` times the initial batch makes the progress of up to ``scale`` initial steps while
noise dominates the gradient, and of hardly more than one when it does not. The learning rate is taken
to be scaled along; that the model still converges there is the user's promise, made by ``max_batch``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def step_gain(grad_sqr: ArrayLike, grad_var: ArrayLike, scale: ArrayLike) -> NDArray[np.float64]:
    """Progress of one step, in steps of the initial batch.

    Args:
        grad_sqr: squared norm of the mean gradient at the initial batch size, any shape.
        grad_var: variance of the gradient there, same shape; ``grad_var / grad_sqr`` is the noise scale
            in initial batches.
        scale: batch size over initial batch size, > 0; broadcast.

    Returns:
        Between 1 and ``scale`` for ``scale >= 1``; 1 where nothing is known (both statistics 0).

    Source:
        A. Qiao et al., "Pollux: co-adaptive cluster scheduling for goodput-optimized deep learning",
        OSDI 2021, section 3.1; T. B. Johnson et al., "AdaScale SGD", ICML 2020.
    """
    sqr = np.maximum(np.asarray(grad_sqr, dtype=np.float64), 0.0)
    var = np.maximum(np.asarray(grad_var, dtype=np.float64), 0.0)
    bottom = var / np.asarray(scale, dtype=np.float64) + sqr
    known = bottom > 0
    gain: NDArray[np.float64] = np.where(known, (var + sqr) / np.where(known, bottom, 1.0), 1.0)
    return gain
