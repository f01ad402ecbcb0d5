"""First-fit decreasing: candidates of one branch into groups under a device's capacity.

Candidates come with the largest footprint first, and each goes into the first group with room in
memory. So that slots end together, a branch that has several slots is cut into as many runs of equal
time, and the search for room begins at the group of the candidate's run: neighbours, which can be
stacked, stay together, and with one slot it is plain first-fit decreasing.

Source: US patent text of the family "job merging for hyperparameter tuning", claims 1 and 4, says
that candidates are grouped; first-fit decreasing is ours (D. S. Johnson, "Near-optimal bin packing
algorithms", MIT, 1973).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dagopt.errors import InputError
from dagopt.model.trial import Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What one accelerator, or one CPU slot, has."""

    memory_bytes: int
    """> 0."""

    headroom_fraction: float = 0.1
    """Share that is left free, >= 0 and < 1."""

    num_slots: int = 1
    """How many there are, >= 1."""

    def __post_init__(self) -> None:
        if self.memory_bytes <= 0 or self.num_slots < 1 or not 0 <= self.headroom_fraction < 1:
            raise InputError(
                f"memory_bytes {self.memory_bytes} must be > 0, num_slots {self.num_slots} >= 1,"
                f" headroom_fraction {self.headroom_fraction} >= 0 and < 1"
            )

    @property
    def usable_bytes(self) -> int:
        """Memory less headroom."""
        return int(self.memory_bytes * (1 - self.headroom_fraction))


def first_fit(
    ordered: Sequence[Candidate],
    fits: Callable[[Sequence[Candidate]], bool],
    num_runs: int,
) -> list[list[Candidate]]:
    """Each candidate in the first group with room, from that of its run on.

    Args:
        ordered: the candidates, those to place first at the front.
        fits: whether a group of these has room in memory.
        num_runs: slots that the branch may fill, >= 1.

    Returns:
        The groups, none of them empty; more than ``num_runs`` where memory does not suffice.
    """
    groups: list[list[Candidate]] = [[] for _ in range(num_runs)]
    share_s = sum(one.run_s for one in ordered) / num_runs
    before_s = 0.0
    for place, one in enumerate(ordered):
        middle = (
            (before_s + one.run_s / 2) / share_s if share_s else place * num_runs / len(ordered)
        )
        before_s += one.run_s
        first = min(int(middle), num_runs - 1)
        turn = [*range(first, len(groups)), *range(first)]
        found = next((index for index in turn if fits([*groups[index], one])), None)
        if found is None:
            # What fits nowhere, not even alone, is still to run.
            empty = next((index for index in turn if not groups[index]), None)
            found = len(groups) if empty is None else empty
        if found == len(groups):
            groups.append([])
        groups[found].append(one)
    return [group for group in groups if group]


def longest_first(
    singles: Sequence[Candidate],
    fits: Callable[[Sequence[Candidate]], bool],
    num_runs: int,
) -> list[list[Candidate]]:
    """Candidates that share nothing, the longest first, each into the group with the least time.

    Args and result are those of :func:`first_fit`.
    """
    groups: list[list[Candidate]] = [[] for _ in range(num_runs)]
    times_s = [0.0] * num_runs
    for one in sorted(singles, key=lambda each: (-each.run_s, each.trial)):
        turn = sorted(range(len(groups)), key=lambda index: (times_s[index], index))
        found = next(
            (index for index in turn if not groups[index] or fits([*groups[index], one])), None
        )
        if found is None:
            found = len(groups)
            groups.append([])
            times_s.append(0.0)
        groups[found].append(one)
        times_s[found] += one.run_s
    return [group for group in groups if group]
