"""Time that one of several sharers gets of a resource.

Tasks that compute on one executor share its cores equally, and tasks that read on one host share
its link. The clock counts what one sharer that is there all the time has got: with n sharers of a
capacity C it advances by ``min(1, C / n)`` a second. Read it when a task starts to compute (or to
read) and when it stops; the difference is what the task would have taken on its own.

Source: egalitarian processor sharing, L. Kleinrock, "Time-shared systems: a theoretical treatment",
J. ACM 14(2), 1967.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ShareClock:
    """Seconds of service that one sharer has got so far."""

    capacity: float
    """Sharers that are served at full speed at once, > 0: cores of an executor, 1 for a link."""

    now_s: float
    sharers: int = 0
    """n, >= 0."""

    served_s: float = 0.0

    @property
    def rate(self) -> float:
        """Seconds of service a second that each sharer gets now."""
        return min(1.0, self.capacity / max(self.sharers, 1))

    def advance(self, now_s: float) -> float:
        """The reading at ``now_s``; an earlier time than the last one changes nothing."""
        if now_s > self.now_s:
            self.served_s += (now_s - self.now_s) * self.rate
            self.now_s = now_s
        return self.served_s

    def enter(self, now_s: float) -> float:
        """One more sharer; returns the reading to subtract when it leaves."""
        reading = self.advance(now_s)
        self.sharers += 1
        return reading

    def leave(self, now_s: float) -> float:
        """One sharer less; returns the reading."""
        reading = self.advance(now_s)
        self.sharers = max(0, self.sharers - 1)
        return reading
