"""Memory that trials of a sweep need on an accelerator, alone and merged.

A trial's memory in an iteration is a function of its data set, its batch size and its model type:

    model      = parameters * bytes of one * (1 weights + 1 gradients + k optimizer states)
    activation = batch size * activation bytes of a sample
    input      = batch size * bytes of a sample
    workspace  = what the accelerator's libraries take

corrected by the peaks that were measured in the current and in earlier iterations: the larger counts.
Trials that are merged read one batch and use one workspace. Not modelled: fragmentation, which the
headroom is for, and memory that a library keeps after its use.

Source: US patent text of the family "job merging for hyperparameter tuning", claim 1 (the in-GPU
consumption of an iteration from training data set, batch size and model-type parameters, for current
and previous iterations) and claim 5 (overall memory of a merge request). The formulas are ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dagopt.errors import InputError
from dagopt.model.trial import Footprint


def predicted_footprint(
    *,
    num_parameters: int,
    bytes_per_parameter: int,
    num_optimizer_states: int,
    batch_size: int,
    sample_bytes: float,
    activation_bytes_per_sample: float,
    workspace_bytes: int,
) -> Footprint:
    """The footprint before anything was measured.

    Args:
        num_parameters: weights of the model, >= 0.
        bytes_per_parameter: 4 for float32, > 0.
        num_optimizer_states: numbers that the optimizer keeps for each weight, >= 0.
        batch_size: rows of a batch, >= 0.
        sample_bytes: bytes of one row of the data set, >= 0.
        activation_bytes_per_sample: what the model type keeps of one row, >= 0.
        workspace_bytes: of the accelerator, >= 0.

    Raises:
        InputError: an argument is out of its range.
    """
    values = {
        "num_parameters": num_parameters,
        "bytes_per_parameter": bytes_per_parameter,
        "num_optimizer_states": num_optimizer_states,
        "batch_size": batch_size,
        "sample_bytes": sample_bytes,
        "activation_bytes_per_sample": activation_bytes_per_sample,
    }
    for name, value in values.items():
        if not 0 <= value < math.inf:
            raise InputError(f"{name} is {value}, must be >= 0 and finite")
    weights_bytes = num_parameters * bytes_per_parameter
    return Footprint(
        model_bytes=weights_bytes * (1 + num_optimizer_states),
        activation_bytes=weights_bytes + math.ceil(batch_size * activation_bytes_per_sample),
        input_bytes=math.ceil(batch_size * sample_bytes),
        workspace_bytes=workspace_bytes,
    )


def corrected(footprint: Footprint, peaks_bytes: Sequence[int]) -> Footprint:
    """The footprint after what was measured: never below the largest peak.

    Args:
        footprint: as predicted.
        peaks_bytes: peaks of the trial alone, input included, of the current and earlier iterations.
    """
    missing_bytes = max(peaks_bytes, default=0) - footprint.total_bytes
    if missing_bytes <= 0:
        return footprint
    return replace(footprint, activation_bytes=footprint.activation_bytes + missing_bytes)


def merged_bytes(stacks: Sequence[Sequence[Footprint]], *, shared_input: bool) -> int:
    """Overall memory of a group's model graph.

    Stacks run one after another, so only one has its activations in memory at a time, and the
    trials of one stack have theirs at once.

    Args:
        stacks: footprints of the trials of each stack.
        shared_input: whether all read the same batch; else each trial holds its own while it runs.
    """
    every = [footprint for stack in stacks for footprint in stack]
    if not every:
        return 0
    models = sum(footprint.model_bytes for footprint in every)
    activations = max(sum(footprint.activation_bytes for footprint in stack) for stack in stacks)
    inputs = max(footprint.input_bytes for footprint in every)
    if not shared_input:
        activations = 0
        inputs = max(footprint.activation_bytes + footprint.input_bytes for footprint in every)
    return models + activations + inputs + max(footprint.workspace_bytes for footprint in every)
