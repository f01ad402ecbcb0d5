"""All that is decided for one application: when tasks start, and in which form GPU stages run.

``step(event, now_s)`` is the only way in, as for each of the controllers below it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from dagopt.controller.boundary import BoundaryController
from dagopt.controller.grouping import GroupingController
from dagopt.model.wire import FromJvm, FromPlanner
from dagopt.model.wire_gpu import CpuOnlyDone, GpuStage, RestDone, SliceDone, Slices

if TYPE_CHECKING:
    from collections.abc import Sequence


class _Entry(Protocol):
    def to_dict(self) -> dict[str, Any]: ...


@dataclass(slots=True, kw_only=True)
class ApplicationController:
    """One controller a mechanism; an event goes to the one that it is about."""

    grouping: GroupingController
    boundary: BoundaryController

    def step(self, event: FromJvm, now_s: float) -> list[FromPlanner]:
        """Take in one event and say what is to be done about it.

        Raises:
            InputError: the event contradicts itself; nothing has changed then.
        """
        if isinstance(event, (GpuStage, SliceDone, RestDone, CpuOnlyDone, Slices)):
            return self.boundary.step(event, now_s)
        return self.grouping.step(event, now_s)

    @property
    def num_entries(self) -> tuple[int, ...]:
        """All that were ever taken: decisions of each kind, and uses of GPUs that followed."""
        boundary = self.boundary
        return (
            self.grouping.num_decisions,
            boundary.num_decisions,
            boundary.num_shifts,
            boundary.num_uses,
        )

    def new_entries(self, since: tuple[int, ...]) -> list[dict[str, Any]]:
        """What came since there were so many of each kind, those of each kind in order."""
        kinds: tuple[Sequence[_Entry], ...] = (
            self.grouping.decisions,
            self.boundary.decisions,
            self.boundary.shifts,
            self.boundary.uses,
        )
        return [
            entry.to_dict()
            for kind, old, now in zip(kinds, since, self.num_entries, strict=True)
            for entry in islice(kind, len(kind) - (now - old), None)
        ]
