"""Seconds of one iteration of a group of trials, in each mode.

A step alone is calls of array operations and their arithmetic. The calls cost the same however
large the arrays are, so trials that are stacked pay for them once:

    alone, co-located = sum of (read + step)
    shared pass       = read + sum of steps
    stacked           = read + sum over stacks of (calls + sum of (step - calls))

Where a stacked iteration was measured, that share counts. Not modelled: caches; the engine measures
how many trials of a stack are best taken at a time.

Source: ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from dagopt.model.trial import Candidate

CALLS_S = 40e-6
"""Prior for the calls of a step: some 30 array operations of about a microsecond."""


def in_turn_s(trials: Sequence[Candidate], *, shared_input: bool) -> float:
    """Seconds of an iteration of all, each stepped by itself."""
    steps_s = sum(trial.step_s for trial in trials)
    reads_s = [trial.read_s for trial in trials]
    return steps_s + (max(reads_s, default=0.0) if shared_input else sum(reads_s))


def stacked_s(stacks: Sequence[Sequence[Candidate]]) -> float:
    """Seconds of an iteration in which each stack is one step, input included."""
    every = [trial for stack in stacks for trial in stack]
    return max((trial.read_s for trial in every), default=0.0) + sum(map(_stack_s, stacks))


def _stack_s(stack: Sequence[Candidate]) -> float:
    if len(stack) == 1:
        return stack[0].step_s
    measured = [trial.stacked_step_s for trial in stack if trial.stacked_step_s is not None]
    if len(measured) == len(stack):
        return sum(measured)
    calls_s = min(CALLS_S, *(trial.step_s for trial in stack))
    return calls_s + sum(trial.step_s - calls_s for trial in stack)
