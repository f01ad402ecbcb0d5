"""What the grouping controller remembers of one task group."""

from __future__ import annotations

from dataclasses import dataclass, field

from dagopt.model.network import InputHostSet


@dataclass(slots=True, kw_only=True)
class GroupState:
    """Tasks of one input host set, launched together on one executor."""

    group: int
    executor: str
    host: str
    host_set: InputHostSet
    epoch: int
    tasks: tuple[int, ...]
    formed_s: float
    """Epoch seconds when it was formed: its delay begins."""
    launch_s: float
    """When its delay ends; once it was launched or given back, when that was."""
    io_s: float
    """Predicted seconds of reading all of it, alone on the link."""
    lead_s: float = 0.0
    """Seconds after its launch in which it does not use the link yet."""
    is_predicted: bool = True
    """False where the bandwidth is not known yet, and ``io_s`` the longest delay."""
    waiting: set[int] = field(default_factory=set)
    """Tasks that have not started."""
    reading: set[int] = field(default_factory=set)
    """Tasks that have not read their input."""
    open: set[int] = field(default_factory=set)
    """Tasks that have not ended."""

    @property
    def reading_s(self) -> float:
        """Predicted seconds from its launch until it has read, alone on the link."""
        return self.lead_s + self.io_s

    def __post_init__(self) -> None:
        self.waiting, self.reading, self.open = set(self.tasks), set(self.tasks), set(self.tasks)
