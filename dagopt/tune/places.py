"""Where the phases of a sweep run: on all slots of the application, or on those that somebody gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from dagopt.errors import InputError
from dagopt.spark.phases import run_tasks
from dagopt.tune.phase import GroupOutcome, GroupWork
from dagopt.tune.worker import not_sent

Outcomes: TypeAlias = list[tuple[GroupOutcome, str]]
"""Of each work what was measured, and the file that has its states."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a phase has."""

    num_slots: int | None = None
    """None for as many as executors have."""
    longest_s: float | None = None
    """After which it should come to its boundary; None where nobody waits for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A sweep at a boundary; iterations are those of all trials together."""

    num_running: int
    """Trials that go on."""
    num_done: int
    num_left: int
    """At most: trials may be pruned."""
    loss: float | None
    """The best one so far of a trial's last iteration; None before there is one."""


class Places(Protocol):
    """Whatever gives a sweep its slots; each phase takes some, runs once, and has them no longer."""

    def take(self) -> Given:
        """Wait until the next phase may run."""

    def call(self, function: Callable[[Any], Any], told: str) -> Any:
        """What a function gives in a task of its own; called with None, and not between ``take`` and ``run``."""

    def run(
        self, worker: Any, works: Sequence[GroupWork], costs_s: Sequence[float], told: str
    ) -> Outcomes | None:
        """Run a phase's groups on what was taken.

        Args:
            worker: called in tasks, with a work each.
            works: of the groups.
            costs_s: seconds that each is taken to need, or numbers in proportion to them.
            told: description of the phase.

        Returns:
            None where the phase was lost, and what it did with it.
        """

    def boundary(self, progress: Progress) -> None:
        """Told before the first phase and after each."""

    def may_resume(self) -> bool:
        """Whether somebody may go on with a sweep that ends with an error now."""


class AllSlots:
    """All that executors have; tasks wait there for others of the application."""

    def __init__(self, context: Any, profile: Any) -> None:
        self._context, self._profile = context, profile

    def take(self) -> Given:
        """At once."""
        return Given()

    def call(self, function: Callable[[Any], Any], told: str) -> Any:
        """See :class:`Places`."""
        (found,) = run_tasks(self._context, function, [None], self._profile, told)
        return found

    def run(
        self,
        worker: Any,
        works: Sequence[GroupWork],
        costs_s: Sequence[float],  # noqa: ARG002  Spark starts them in order
        told: str,
    ) -> Outcomes | None:
        """A task a group. One that is lost with its executor runs again by Spark."""
        try:
            return run_tasks(self._context, worker, works, self._profile, told)
        except Exception as error:
            if told_module := not_sent(error):
                raise InputError(told_module) from error
            raise

    def boundary(self, progress: Progress) -> None:
        """Nobody wants to know."""

    def may_resume(self) -> bool:
        """Nobody."""
        return False
