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

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, field

from dagopt.errors import InputError


@dataclass(slots=True)
class Lanes:
    """Reading of one input host set that is under way or planned."""

    num_lanes: int
    """Groups that can read at once without slowing each other down, at least 1."""

    until_s: dict[str, dict[int, float]] = field(default_factory=dict)
    """By reading host and group: when the group has read its input."""

    touched: set[str] = field(default_factory=set, compare=False)
    """Reading hosts of which anything was changed, until whoever plans launches clears it."""

    _end_s: dict[str, float] = field(default_factory=dict)
    """By reading host: when its last group has read. Its groups follow each other, so it uses one
    lane until then."""

    _ends_s: list[float] = field(default_factory=list)
    """The same, sorted."""

    def __post_init__(self) -> None:
        if self.num_lanes < 1:
            raise InputError(f"num_lanes is {self.num_lanes}, must be >= 1")

    def start_s(self, host: str, now_s: float) -> float:
        """The earliest time at which another group on ``host`` may start to read.

        Not before the host's own groups have read, and not while every lane is in use.
        """
        start_s = max(now_s, self._end_s.get(host, now_s))
        # Its own end is not after start_s, so it is none of those.
        num_busy = len(self._ends_s) - bisect_right(self._ends_s, start_s)
        return self._ends_s[-self.num_lanes] if num_busy >= self.num_lanes else start_s

    def occupy(self, group: int, host: str, until_s: float) -> None:
        """A group on ``host`` reads, or will, until ``until_s``; a second call corrects it."""
        own = self.until_s.setdefault(host, {})
        before_s = own.get(group)
        own[group] = until_s
        self._changed(host, before_s, until_s)

    def free(self, group: int, host: str) -> None:
        """The group has read its input, or never will."""
        own = self.until_s.get(host, {})
        before_s = own.pop(group, None)
        if not own:
            self.until_s.pop(host, None)
        self._changed(host, before_s, None)

    def _changed(self, host: str, before_s: float | None, after_s: float | None) -> None:
        """One of the host's groups is not to end at ``before_s``, but at ``after_s``."""
        if before_s == after_s:
            return
        self.touched.add(host)
        end_s = self._end_s.get(host)
        if end_s is not None:
            if before_s != end_s and (after_s is None or after_s <= end_s):
                return
            del self._ends_s[bisect_left(self._ends_s, end_s)]
        own = self.until_s.get(host)
        if own is None:
            del self._end_s[host]
            return
        self._end_s[host] = end_s = max(own.values())
        insort(self._ends_s, end_s)
