"""When the next group of an input host set may start to read.

Groups that share an input host set use its links one after another: a group's delay ends when the
one before it has read its input. A set has as many *lanes* as there are links that can work at the
same time, the smaller of the hosts that serve it and the hosts that read from it, and a reading
host uses one lane of a set at a time. Groups of different sets have clocks of their own and do not
delay each other.

Source: US patent text of the family "group tasks for execution", claim 1 step 5 (a delay time from
each input host set); the lanes are ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dagopt.errors import InputError


@dataclass(slots=True)
class Lanes:
    """Reading of one input host set that is under way or planned."""

    num_lanes: int
    """Groups that can read at once without slowing each other down, at least 1."""

    until_s: dict[str, dict[int, float]] = field(default_factory=dict)
    """By reading host and group: when the group has read its input."""

    def __post_init__(self) -> None:
        if self.num_lanes < 1:
            raise InputError(f"num_lanes is {self.num_lanes}, must be >= 1")

    def start_s(self, host: str, now_s: float) -> float:
        """The earliest time at which another group on ``host`` may start to read.

        Not before the host's own groups have read, and not while every lane is in use.
        """
        start_s = max([now_s, *self.until_s.get(host, {}).values()])
        others = len(self.until_s) - (host in self.until_s)
        if others < self.num_lanes:
            return start_s
        # A host's groups follow each other, so it uses one lane until its last one has read.
        ends = (max(own.values()) for reader, own in self.until_s.items() if reader != host)
        busy = sorted((end_s for end_s in ends if end_s > start_s), reverse=True)
        return busy[self.num_lanes - 1] if len(busy) >= self.num_lanes else start_s

    def occupy(self, group: int, host: str, until_s: float) -> None:
        """A group on ``host`` reads, or will, until ``until_s``; a second call corrects it."""
        self.until_s.setdefault(host, {})[group] = until_s

    def free(self, group: int, host: str) -> None:
        """The group has read its input, or never will."""
        own = self.until_s.get(host, {})
        own.pop(group, None)
        if not own:
            self.until_s.pop(host, None)
