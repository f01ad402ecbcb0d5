"""A sweep as a job: what users write, what its tasks do, and what its phases tell the policy.

For the policy an iteration of a sweep is one of all its running trials, which its accelerators share
without synchronising. Fewer accelerators have larger groups, whose trials share reads and steps, so what
one more is worth is measured like that of any job.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dagopt.cost.fit_steps import StepSample
from dagopt.errors import InputError
from dagopt.policy.merging.candidates import CandidateRules
from dagopt.spark.devices import task_address
from dagopt.spark.phases import is_frame
from dagopt.train.job import Load, check_limits
from dagopt.train.records import Report, Slot, shape_of
from dagopt.tune import Tuner
from dagopt.tune.phase import GroupWork
from dagopt.tune.places import Outcomes, Progress
from dagopt.tune.start import check_pickle


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepJob:
    """A sweep of hyper-parameters; what is not explained here is as for :class:`dagopt.tune.Tuner`.

    Raises:
        InputError: a value is wrong; others are told when the job is submitted.
    """

    plans_itself: ClassVar[bool] = True

    name: str
    """Letters, digits, dots, dashes and underlines; at most 64."""
    trainable: Any
    data: Any
    space: Any
    num_trials: int
    max_iterations: int
    """Of a trial that is not pruned."""
    study: Any = None
    """Default: one in memory."""
    metric: str = "loss"
    batch_size: int = 32
    memory: str | None = None
    """Of an accelerator; default: measured."""
    headroom_fraction: float = 0.1
    max_running: int | None = None
    phase_iterations: int | None = None
    """Default: as many as make boundaries cheap and keep others waiting no longer than an interval."""
    seed: int = 0
    callback: Callable[..., None] | None = None
    rules: CandidateRules | None = None
    max_accelerators: int | None = None
    """Most that it may get; default: one a running trial."""
    deadline_s: float = 600.0
    """Seconds after a boundary was due in which the phase must come to it; else it is stopped, and planned
    again."""
    max_restarts: int = 3
    """How often a phase in a row is lost before the job fails."""

    def __post_init__(self) -> None:
        least = {"num_trials": 1, "max_iterations": 1}
        if self.max_running is not None:
            least["max_running"] = 1
        check_limits(self, least)

    def tuner(self, spark: Any, path: str, profile: Any) -> Tuner:
        """What runs it.

        Args:
            spark: the session.
            path: folder of its boundaries and states.
            profile: of its tasks.

        Raises:
            InputError: an argument is wrong, or the trainable or the data cannot be pickled.
        """
        if self.space is None:
            raise InputError(f"job {self.name}: space is missing")
        try:
            tuner = self._tuner(spark, path, profile)
            check_pickle("trainable", self.trainable)
            if not is_frame(self.data):
                check_pickle("data", self.data)
        except InputError as error:
            raise InputError(f"job {self.name}: {error}") from error
        return tuner

    def _tuner(self, spark: Any, path: str, profile: Any) -> Tuner:
        return Tuner(
            spark,
            self.trainable,
            self.data,
            self.space if self.study is None else self.study,
            self.num_trials,
            self.max_iterations,
            space=None if self.study is None else self.space,
            metric=self.metric,
            batch_size=self.batch_size,
            checkpoint=path,
            profile=profile,
            memory=self.memory,
            headroom_fraction=self.headroom_fraction,
            max_running=self.max_running,
            phase_iterations=self.phase_iterations,
            seed=self.seed,
            callback=self.callback,
            progress=False,
            rules=self.rules,
        )

    def load(self) -> Load:
        """See :class:`dagopt.train.job.Job`."""
        num_running = min(self.num_trials, self.max_running or self.num_trials)
        return self._load(num_running, 0, self.num_trials * self.max_iterations)

    def load_at(self, progress: Progress) -> Load:
        """The same at a boundary."""
        done = progress.num_done
        return self._load(max(1, progress.num_running), done, done + progress.num_left)

    def _load(self, num_running: int, done: int, total: int) -> Load:
        return Load(
            done=done,
            total=total,
            unit=num_running,
            batch=num_running,
            part=num_running,
            most_accelerators=min(num_running, self.max_accelerators or num_running),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotOutcome:
    """What the task of a slot gives."""

    address: str
    """The accelerator that Spark gave it."""
    found: list[Any]
    """For each of its works."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotWorker:
    """Called in tasks, each with the works of its slot: they run one after another."""

    function: Callable[[Any], Any]

    def __call__(self, works: Sequence[Any], hosts: Sequence[str]) -> SlotOutcome:  # noqa: ARG002
        """Do them; they do not talk to those of other slots."""
        return SlotOutcome(
            address=task_address() or "", found=[self.function(one) for one in works]
        )


def spread(costs_s: Sequence[float], num_slots: int) -> list[list[int]]:
    """Places of the works that each slot has, so that slots end together: the longest go first."""
    shares: list[list[int]] = [[] for _ in range(num_slots)]
    ends = [(0.0, slot) for slot in range(num_slots)]
    for at in sorted(range(len(costs_s)), key=lambda at: (-costs_s[at], at)):
        end_s, slot = heapq.heappop(ends)
        shares[slot].append(at)
        heapq.heappush(ends, (end_s + costs_s[at], slot))
    return shares


def sweep_report(
    works: Sequence[GroupWork],
    outcomes: Outcomes,
    shares: Sequence[Sequence[int]],
    slots: Collection[Slot],
    addresses: tuple[str, ...],
) -> Report:
    """What a phase's groups were, for the policy.

    Args:
        works: of all groups.
        outcomes: of each.
        shares: places of the works of each slot.
        slots: where it ran.
        addresses: of their accelerators.
    """
    groups = [outcome for outcome, _ in outcomes]
    num_hosts, num_replicas = shape_of(slots)
    num_trials = sum(len(work.trials) for work in works)
    each_s = [one.elapsed_s / work.num_iterations for work, one in zip(works, groups, strict=True)]
    step_s = max(1e-6, *(sum(each_s[at] for at in share) for share in shares))
    start_s = min(one.start_s for one in groups)
    work_s = max(sum(groups[at].elapsed_s for at in share) for share in shares)
    return Report(
        addresses=addresses,
        num_iterations=sum(len(each.losses) for one in groups for each in one.trials),
        start_s=start_s,
        end_s=max(one.start_s + one.elapsed_s for one in groups),
        work_s=work_s,
        step_s=step_s,
        sample=StepSample(
            num_hosts=num_hosts,
            num_replicas=num_replicas,
            local_batch=-(-num_trials // num_replicas),
            step_s=step_s,
            sync_s=0.0,
        ),
        is_guess=any(work.watch for work in works),
    )
