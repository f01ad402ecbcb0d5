"""All that is decided for one application: when tasks start, and in which form GPU stages run.

``step(event, now_s)`` is the only way in, as for each of the controllers below it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dagopt.controller.boundary import BoundaryController
from dagopt.controller.grouping import GroupingController
from dagopt.model.wire import FromJvm, FromPlanner, GpuStage, SliceDone


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
        if isinstance(event, (GpuStage, SliceDone)):
            return self.boundary.step(event, now_s)
        return self.grouping.step(event, now_s)

    @property
    def num_decisions(self) -> int:
        """All that were ever taken."""
        return self.grouping.num_decisions + self.boundary.num_decisions

    def new_decisions(self, num_grouping: int, num_boundary: int) -> list[dict[str, Any]]:
        """Decisions taken since there were so many of each kind, those of each kind in order."""
        grouping = list(self.grouping.decisions)
        boundary = list(self.boundary.decisions)
        new_grouping = self.grouping.num_decisions - num_grouping
        new_boundary = self.boundary.num_decisions - num_boundary
        return [
            *(one.to_dict() for one in grouping[len(grouping) - new_grouping :]),
            *(one.to_dict() for one in boundary[len(boundary) - new_boundary :]),
        ]
