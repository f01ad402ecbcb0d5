"""Which of many recorded applications would have gained most: ``dagopt advise`` on a folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dagopt.app.advise import advise_log
from dagopt.app.each_log import FailedLog, of_each

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dagopt.app.advise import Advice
    from dagopt.app.what_if import Cluster
    from dagopt.events.read import EventLog


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedApplication:
    """What is kept of one application; seconds, None where unknown."""

    path: str
    app_id: str | None
    name: str | None
    spark_version: str | None
    recorded_s: float | None
    saved_s: float | None
    """Negative where it would have taken longer."""
    bound_s: float | None
    """How far ``saved_s`` may be off."""
    verdict: str

    @property
    def sure_s(self) -> float:
        """The seconds that are saved in any case; 0 where it may be none."""
        if self.saved_s is None or self.bound_s is None:
            return 0.0
        return max(0.0, self.saved_s - self.bound_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """The applications of a folder, and the files that are no event logs."""

    applications: tuple[RankedApplication, ...]
    """Those first that certainly save most, then those that took longest, then the unknown ones."""

    failed: tuple[FailedLog, ...]


def rank(
    logs: Sequence[EventLog],
    cluster: Cluster,
    progress: Callable[[int, int, str], None] | None = None,
) -> Ranking:
    """Advice on every log, of which only the sums are kept.

    Args:
        logs: as :func:`~dagopt.events.read.find_event_logs` finds them.
        cluster: what is to be different from the recorded clusters.
        progress: called with logs done, logs in all, and the path of the next one; at the end
            with an empty path.

    Raises:
        InputError: none of the logs can be read.
    """
    found, failed = of_each(logs, lambda log: _ranked(advise_log(log, cluster)), progress)
    found.sort(
        key=lambda each: (-each.sure_s, each.saved_s is None, -(each.recorded_s or 0), each.path)
    )
    return Ranking(applications=tuple(found), failed=failed)


# Private functions


def _ranked(advice: Advice) -> RankedApplication:
    gain = advice.gain
    return RankedApplication(
        path=advice.path,
        app_id=advice.trace.app_id,
        name=advice.trace.name,
        spark_version=advice.trace.spark_version,
        recorded_s=gain.outcome.recorded_elapsed_s if gain is not None else None,
        saved_s=gain.saved_s if gain is not None else None,
        bound_s=gain.bound_s if gain is not None else None,
        verdict=advice.verdict,
    )
