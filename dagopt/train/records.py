"""What is known of the jobs of a scheduler: their states, measured steps, and where they ran."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal

from dagopt.cost.accelerator_metrics import KEPT, AcceleratorMetrics, IterationRecord
from dagopt.cost.fit_steps import StepSample, fit_steps
from dagopt.cost.step_time import StepTime
from dagopt.model.topology import Accelerator
from dagopt.model.training import BatchLimits, JobView, Placement, TrainingJob
from dagopt.train.job import Job, Load, TrainJob, share_of
from dagopt.train.worker import PhaseOutcome

_LIKE = 0.2
"""Step times that differ by less of them are the same."""

Status = Literal["waiting", "running", "done", "failed", "cancelled"]


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """One accelerator: its executor, and its place there."""

    executor: str
    place: int


def shape_of(slots: Collection[Slot]) -> tuple[int, int]:
    """Hosts and accelerators of slots, by which steps are measured: each executor counts as a host."""
    return len({slot.executor for slot in slots}), len(slots)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRun:
    """A phase that came to its boundary."""

    job: str
    number: int
    slots: tuple[Slot, ...]
    addresses: tuple[str, ...]
    """What Spark called the accelerators, by rank."""
    first: int
    """Iterations done before."""
    num_iterations: int
    start_s: float
    """Epoch seconds of its first iteration's start."""
    end_s: float
    """Of its last one's end."""
    overhead_s: float
    """Seconds from its launch to its report in which it did not iterate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTimes:
    """What one rank of a phase measured in its last iterations; seconds of each."""

    compute_s: tuple[float, ...]
    sync_s: tuple[float, ...]
    """Of the sums, once all ranks were there."""
    num_micro_batches: int
    """That it computes in an iteration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a phase of any job did up to its boundary."""

    addresses: tuple[str, ...]
    num_iterations: int
    """As its user counts them."""
    start_s: float
    end_s: float
    work_s: float
    """Seconds in which it iterated."""
    step_s: float = 0.0
    """Of an iteration of the whole job."""
    sample: StepSample | None = None
    """The same for the policy's model; None where nothing was measured."""
    gradient_bytes: int = 0
    ranks: tuple[RankTimes, ...] = ()
    """What each measured; none of a sweep, whose accelerators do not wait for each other."""
    is_guess: bool = False
    """Whether phases to come are faster; it counts as long as there is nothing else."""


def training_report(
    job: TrainJob, slots: Collection[Slot], outcomes: Sequence[PhaseOutcome]
) -> Report:
    """Of a training, from what its ranks say."""
    num_hosts, num_replicas = shape_of(slots)
    first = outcomes[0]
    step_s = statistics.median(first.step_s)
    # Whoever comes last does not wait for others.
    sums_s = [min(each) for each in zip(*(one.sync_s for one in outcomes), strict=True)]
    sync_s = min(statistics.median(sums_s), 0.99 * step_s) if num_replicas > 1 else 0.0
    # Micro-batches of an iteration are computed one after another, and synchronised once.
    turns = -(-job.num_micro_batches // num_replicas)
    return Report(
        addresses=tuple(one.address for one in outcomes),
        num_iterations=len(first.losses),
        start_s=min(one.start_s for one in outcomes),
        end_s=max(one.end_s for one in outcomes),
        work_s=first.end_s - first.start_s,
        step_s=step_s,
        sample=StepSample(
            num_hosts=num_hosts,
            num_replicas=num_replicas,
            local_batch=job.load().part,
            step_s=max((step_s - sync_s) / turns + sync_s, 1e-6),
            sync_s=sync_s,
        ),
        gradient_bytes=first.gradient_bytes,
        ranks=tuple(
            RankTimes(
                compute_s=tuple(max(0.0, whole - sums) for whole, sums in _last(one)),
                sync_s=tuple(sums_s[-KEPT:]),
                num_micro_batches=len(share_of(job, one.rank, num_replicas)),
            )
            for one in outcomes
        ),
    )


def _last(outcome: PhaseOutcome) -> list[tuple[float, float]]:
    """Seconds of the last iterations of a rank, and of its sums in them."""
    return list(zip(outcome.step_s, outcome.sync_s, strict=True))[-KEPT:]


@dataclass(slots=True, kw_only=True)
class Stay:
    """A job on accelerators for a phase, also one that was lost; seconds on the scheduler's clock."""

    job: str
    slots: tuple[Slot, ...]
    from_s: float
    """When the phase was launched."""
    until_s: float | None = None
    """When its accelerators were free again; None while it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A job that went on elsewhere, or on another number of accelerators."""

    job: str
    iteration: int
    before: tuple[Slot, ...]
    after: tuple[Slot, ...]
    lost_s: float
    """Seconds between the last iteration there and the first one here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """A job, as its user sees it."""

    name: str
    status: Status
    iteration: int
    """Iterations done, at its last boundary; of a sweep those of all trials together."""
    num_iterations: int
    """To do in all; of a sweep at most."""
    num_accelerators: int
    """That it holds now."""
    num_moves: int
    num_restarts: int
    """Phases that were lost, and begun again."""
    losses: tuple[float, ...] = field(repr=False)
    """Of the global batch, one an iteration; of a sweep the best so far, one a boundary."""
    error: str
    """Traceback or reason where it failed."""


@dataclass(slots=True, kw_only=True)
class Record:
    """State of one job; times in seconds on the scheduler's clock."""

    job: Job
    arrived_s: float
    load: Load
    asks: bool = True
    """Whether it is to have accelerators as soon as there are some."""
    has_asked: bool = True
    """Whether it did so ever."""
    status: Status = "waiting"
    losses: list[float] = field(default_factory=list)
    state: str = ""
    """File of the state at the last boundary."""
    slots: tuple[Slot, ...] = ()
    """Where its phase runs."""
    last: PhaseRun | None = None
    """The phase before."""
    began_s: float = 0.0
    """When its phase was launched."""
    phase_s: float = 0.0
    asked_s: float | None = None
    """When its phase was asked for a boundary."""
    steps_s: dict[tuple[int, int], float] = field(default_factory=dict)
    """Seconds of an iteration by hosts and accelerators."""
    num_phases: int = 0
    """Launched so far."""
    num_moves: int = 0
    num_restarts: int = 0
    num_lost: int = 0
    """Phases lost in a row."""
    num_taken: int = 0
    """Besides, phases in a row whose accelerators somebody else had."""
    attained_s: float = 0.0
    error: str = ""
    log: list[str] = field(default_factory=list)
    samples: dict[tuple[int, int], StepSample] = field(default_factory=dict)
    has_guessed: bool = False
    """Whether they are of phases that were slower than others will be."""
    gradient_bytes: int = 0
    fitted: tuple[float, ...] | None = None
    metrics: AcceleratorMetrics = field(default_factory=AcceleratorMetrics)
    """Of each accelerator that it ran on; none of a sweep."""

    @property
    def is_over(self) -> bool:
        """Whether it will not run again."""
        return self.status in ("done", "failed", "cancelled")

    @property
    def due_s(self) -> float:
        """When its phase should come to its boundary."""
        end_s = self.began_s + self.phase_s
        return end_s if self.asked_s is None else min(end_s, self.asked_s)

    def measure(self, report: Report) -> bool:
        """Learn from a phase; whether it was the first on so many accelerators and hosts."""
        sample = report.sample
        if sample is None or (report.is_guess and self.samples and not self.has_guessed):
            return False
        if self.has_guessed and not report.is_guess:
            self.samples.clear()
            self.steps_s.clear()
        self.has_guessed = report.is_guess
        shape = sample.num_hosts, sample.num_replicas
        self.steps_s[shape] = report.step_s
        self.gradient_bytes = report.gradient_bytes
        before = self.samples.get(shape)
        # A fit takes longer than the rest of a plan, so it is made when it would tell something new.
        if before is None or abs(sample.step_s - before.step_s) > _LIKE * before.step_s:
            self.samples[shape] = sample
            self.fitted = None
        return before is None

    def observe(self, report: Report, accelerators: Sequence[Accelerator]) -> None:
        """Keep what each accelerator of a phase measured.

        Args:
            report: of the phase, before its iterations count as done.
            accelerators: of its ranks, in their order.
        """
        members, size = frozenset(accelerators), len(accelerators)
        for accelerator, rank in zip(accelerators, report.ranks, strict=False):
            first = self.load.done + report.num_iterations - len(rank.sync_s)
            for at, (compute_s, sync_s) in enumerate(
                zip(rank.compute_s, rank.sync_s, strict=True), first
            ):
                record = IterationRecord(
                    iteration=at,
                    compute_s=compute_s,
                    sync_s=sync_s if size > 1 else 0.0,
                    transfer_bytes=2 * (size - 1) * report.gradient_bytes // size,
                    members=members,
                    num_micro_batches=rank.num_micro_batches,
                )
                self.metrics = self.metrics.recorded(accelerator, record)

    def view(self, held: Placement, prior: StepTime, now_s: float) -> JobView:
        """What the policy is told of it."""
        if self.samples and self.fitted is None:
            self.fitted = fit_steps(list(self.samples.values()), known=prior).row()
        load = self.load
        at_work_s = max(0.0, now_s - self.began_s) if self.slots else 0.0
        step_s = self.steps_s.get(shape_of(self.slots), 0.0)
        # A phase that runs tells nothing before its boundary.
        ahead = at_work_s / step_s if step_s > 0 else 0.0
        total = load.total / load.unit
        done = max(0.0, min(load.done / load.unit + ahead, total - 1.0))
        return JobView(
            job=TrainingJob(
                job_id=self.job.name,
                arrival_s=self.arrived_s,
                application=self.job.name,
                batches=BatchLimits(
                    initial=load.batch, largest=load.batch, min_local=1, max_local=load.part
                ),
                max_replicas=load.most_accelerators,
                asked_replicas=load.most_accelerators,
                asked_batch=load.batch,
                is_batch_fixed=True,
            ),
            held=held,
            remaining=total - done,
            progress=done,
            coefficients=self.fitted,
            most_replicas=max((replicas for _, replicas in self.samples), default=0),
            age_s=now_s - self.arrived_s,
            attained_s=self.attained_s + at_work_s * len(self.slots),
            num_restarts=self.num_moves,
            step_s=step_s,
            next_boundary_s=now_s + step_s,
        )

    def shown(self) -> JobStatus:
        """For the user."""
        return JobStatus(
            name=self.job.name,
            status=self.status,
            iteration=self.load.done,
            num_iterations=self.load.total,
            num_accelerators=len(self.slots),
            num_moves=self.num_moves,
            num_restarts=self.num_restarts,
            losses=tuple(self.losses),
            error=self.error,
        )
