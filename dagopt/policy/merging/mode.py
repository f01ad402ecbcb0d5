"""How a group runs: the mode with the least predicted time, and why.

Source: US patent text of the family "job merging for hyperparameter tuning", claim 5 (the model graph
of a group is optimised). The modes and their costs are ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from dagopt.cost.merge_time import in_turn_s, stacked_s
from dagopt.model.trial import Candidate, Mode
from dagopt.policy.merging.request import model_graph


def choose_mode(group: Sequence[Candidate]) -> tuple[Mode, float, str]:
    """The mode of trials of one branch.

    Returns:
        The mode, seconds of one iteration in it, and the reason: the seconds of each mode.
    """
    apart_s = in_turn_s(group, shared_input=False)
    if len(group) == 1:
        return "alone", apart_s, f"one trial: {_ms(apart_s)} an iteration"
    shared_s = in_turn_s(group, shared_input=True)
    by_trial = {one.trial: one for one in group}
    stacks = [[by_trial[trial] for trial in stack] for stack in model_graph(group, "stacked")]
    seconds: dict[Mode, float] = {"shared pass": shared_s}
    if len(stacks) < len(group):
        seconds["stacked"] = stacked_s(stacks)
    mode = min(seconds, key=lambda each: (seconds[each], each))
    told = [f"{each} {_ms(seconds[each])}" for each in sorted(seconds, key=seconds.__getitem__)]
    if "stacked" not in seconds:
        told.append("no two have one shape")
    return mode, seconds[mode], f"{', '.join(told)}, apart {_ms(apart_s)} an iteration"


def _ms(time_s: float) -> str:
    return f"{time_s * 1e3:.3g} ms"
