"""Which job gets which accelerators next: the scheduler's state, without Spark and without a clock.

A phase comes to its boundary when a plan gives its job other accelerators, and after some intervals in any
case. There a job gives all its accelerators back, and gets those of the newest plan as soon as nobody
else is on them; so no accelerator is in two phases, which every launch checks. A plan is made when jobs
come or end, when executors do, when a job ran for the first time on so many accelerators, and once an
interval.
"""

from __future__ import annotations

import logging
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dagopt.errors import InfeasibleError, InputError, last_line
from dagopt.model.topology import ExecutorResources
from dagopt.train.cluster import Cluster, Links, accelerators_of, cluster_of
from dagopt.train.job import Job, Load, TrainJob
from dagopt.train.kept import Past
from dagopt.train.records import (
    JobStatus,
    Move,
    PhaseRun,
    Record,
    Report,
    Slot,
    Status,
    Stay,
    shape_of,
    training_report,
)
from dagopt.train.targets import Policy, Targets, targets
from dagopt.train.worker import PhaseOutcome

logger = logging.getLogger(__name__)

_FIRST_PHASE = 0.25
"""Intervals of a job's first phase on so many accelerators: it shows how fast the job is there."""

_LONGEST_PHASE = 4.0
"""Intervals after which a job comes to a boundary in any case: so much is lost with an executor."""

_LONGEST_ALONE = 1.0
"""The same for jobs whose phases cannot be asked for their boundary."""

_FIRST_RESTART_S = 1.0
"""Seconds that a restart is taken to cost before one was measured."""

_MOST_TAKEN = 20
"""Phases in a row that may be lost for reasons that have nothing to do with the job."""

_NUM_RECENT = 20
"""Phases whose overhead counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A phase that begins."""

    job: Job
    slots: tuple[Slot, ...]
    number: int
    first: int
    """Iterations done."""
    phase_s: float
    """Seconds after which it comes to a boundary, unless it is asked for one before."""
    state: str
    """File of the state; empty before the first iteration."""


class Board:
    """All jobs and accelerators; methods are called one at a time, with times that do not fall.

    Args:
        policy: what decides.
        interval_s: seconds between plans.
        links: among accelerators.
    """

    def __init__(self, policy: Policy, interval_s: float, links: Links) -> None:
        self.records: dict[str, Record] = {}
        self.runs: list[PhaseRun] = []
        self.moves: list[Move] = []
        self.stays: list[Stay] = []
        self.cluster = Cluster()
        self._policy = policy
        self._interval_s = interval_s
        self._links = links
        self._targets: Targets = {}
        self._planned_s: float | None = None
        self._overheads_s: list[float] = []

    # What happens

    def set_executors(self, executors: Sequence[ExecutorResources]) -> None:
        """The executors that are there now; those of running phases may be missing."""
        if accelerators_of(executors) == self.cluster.accelerators:
            return
        self.cluster = cluster_of(executors, self._links)
        self._planned_s = None
        if not self.cluster.hosts:
            logger.warning("dagopt: no executor with an accelerator is there, training jobs wait")
            for record in self.records.values():
                if not record.is_over:
                    record.log.append("dagopt: waits for executors")

    def submit(self, job: Job, now_s: float, past: Past | None = None) -> None:
        """A job has come, or goes on from what it did before; then it makes do with what there is.

        Raises:
            InputError: there is one of that name.
            InfeasibleError: it asks for more accelerators than there are.
        """
        if past is None:
            self.check([job])
        self.records[job.name] = record = Record(
            job=job,
            arrived_s=now_s,
            load=job.load(),
            asks=not job.plans_itself,
            has_asked=not job.plans_itself,
        )
        if past is not None:
            past.put_into(record)
        if not self.cluster.hosts:
            record.log.append("dagopt: waits for executors")
        self._planned_s = None

    def check(self, jobs: Sequence[Job]) -> None:
        """Whether jobs can be submitted together; raises what :meth:`submit` does."""
        names = set(self.records)
        for job in jobs:
            if job.name in names:
                raise InputError(f"job {job.name} is there already")
            names.add(job.name)
            if job.max_accelerators is not None and job.max_accelerators > self.num_accelerators:
                raise InfeasibleError(
                    f"job {job.name} asks for {job.max_accelerators} accelerators, the cluster has"
                    f" {self.num_accelerators}"
                )

    def launches(self, now_s: float) -> list[Launch]:
        """The phases that begin now."""
        if not self.cluster.hosts or all(record.is_over for record in self.records.values()):
            return []
        if self._planned_s is None or now_s - self._planned_s >= self._interval_s:
            try:
                self._plan(now_s)
            except Exception:
                # Jobs go on where they are, until the next plan.
                logger.exception("dagopt: no new plan for the training jobs")
            self._planned_s = now_s
        waiting = [
            one for one in self.records.values() if one.asks and not one.is_over and not one.slots
        ]
        busy = {slot for record in self.records.values() for slot in record.slots}
        there = {slot for slots in self.cluster.hosts.values() for slot in slots}
        found = []
        for record in waiting:
            slots = self._targets.get(record.job.name, ())
            if not slots or busy & set(slots) or not set(slots) <= there:
                continue
            busy |= set(slots)
            found.append(self._launch(record, slots, now_s))
        self._check()
        return found

    def stops(self, now_s: float) -> list[str]:
        """The jobs whose phase is to come to its boundary, each once: they have other accelerators."""
        found = []
        for name, record in self.records.items():
            if not record.slots or record.asked_s is not None or record.job.plans_itself:
                continue
            if self._targets.get(name) != record.slots:
                record.asked_s = now_s
                found.append(name)
        return found

    def reached(self, name: str, outcomes: Sequence[PhaseOutcome], now_s: float) -> None:
        """A phase came to its boundary, or its job raised; outcomes in the order of ranks."""
        record = self.records[name]
        first = outcomes[0]
        errors = [one.error for one in outcomes if one.error]
        lost = [one.lost for one in outcomes if one.lost]
        if lost and not errors:
            self.lost(name, lost[0], now_s)
            return
        record.log += first.output.splitlines()
        if errors or not first.losses:
            self._free(record, now_s)
            if not record.is_over:
                why = errors[0] if errors else "a phase made no iteration"
                self._end(record, "failed", why)
            return
        assert isinstance(record.job, TrainJob)  # others report themselves  # noqa: S101
        self.came(name, training_report(record.job, record.slots, outcomes), now_s)
        if record.is_over:
            return
        record.losses += first.losses
        record.state = first.state
        record.load = replace(record.load, done=len(record.losses))
        if record.load.done >= record.load.total:
            self._end(record, "done", "")

    def came(self, name: str, report: Report, now_s: float) -> None:
        """A phase of any job came to its boundary."""
        record = self.records[name]
        slots, launched_s = record.slots, record.began_s
        self._free(record, now_s)
        if record.is_over:
            return
        run = PhaseRun(
            job=name,
            number=record.num_phases - 1,
            slots=slots,
            addresses=report.addresses,
            first=record.load.done,
            num_iterations=report.num_iterations,
            start_s=report.start_s,
            end_s=report.end_s,
            overhead_s=max(0.0, now_s - launched_s - report.work_s),
        )
        self._note(record, run)
        accelerators = self.cluster.on(slots, report.addresses)
        if accelerators is not None:
            record.observe(report, accelerators)
        record.num_lost = record.num_taken = 0
        if record.measure(report):
            self._planned_s = None

    # Of jobs that plan their phases themselves

    def ask(self, name: str) -> None:
        """The job is to have accelerators for a phase."""
        record = self.records[name]
        if not record.has_asked:
            self._planned_s = None
        record.asks = record.has_asked = True

    def progress(self, name: str, load: Load, loss: float | None) -> None:
        """The job is at a boundary; ``loss`` is the best one so far, if there is one."""
        record = self.records[name]
        if record.is_over:
            return
        if load.most_accelerators != record.load.most_accelerators:
            self._planned_s = None
        # A sweep that was resumed tells its last boundary again.
        is_new = load.done != record.load.done or not record.losses
        record.load = load
        record.losses += [loss] if loss is not None and is_new else []

    def expect(self, name: str, phase_s: float) -> None:
        """The phase that begins takes so long at least."""
        record = self.records[name]
        record.phase_s = max(record.phase_s, phase_s)

    def end(self, name: str, status: Status, error: str, now_s: float) -> None:
        """The job has ended, and holds accelerators no longer."""
        record = self.records[name]
        if not record.is_over:
            self._end(record, status, error)
        if record.slots:
            self._free(record, now_s)

    def lost(self, name: str, why: str, now_s: float, *, is_taken: bool = False) -> None:
        """A phase was lost, with what it did since its boundary: it begins again.

        Args:
            name: of its job.
            why: for the user.
            now_s: seconds.
            is_taken: its tasks did not get its accelerators, for which the job can do nothing.
        """
        record = self.records[name]
        self._free(record, now_s)
        if record.is_over:
            return
        record.num_restarts += 1
        record.num_taken += is_taken
        record.num_lost += not is_taken
        record.log.append(f"dagopt: back to iteration {record.load.done}: {why}")
        if record.num_lost > record.job.max_restarts or record.num_taken > _MOST_TAKEN:
            times = record.num_taken if is_taken else record.num_lost
            self._end(record, "failed", f"{why}, {times} times in a row")

    def cancel(self, name: str) -> None:
        """A job is to end; a phase that runs must be stopped by the caller.

        Raises:
            InputError: there is no such job.
        """
        record = self.record(name)
        if not record.is_over:
            self._end(record, "cancelled", "")

    def close(self, status: Status, why: str, now_s: float) -> None:
        """Nothing runs any more, and nothing will: jobs that are not over end so."""
        for name in self.records:
            self.end(name, status, why, now_s)

    # What is known

    def record(self, name: str) -> Record:
        """A job by its name.

        Raises:
            InputError: there is none.
        """
        if name not in self.records:
            known = ", ".join(sorted(self.records)) or "none"
            raise InputError(f"there is no job {name}; there are {known}")
        return self.records[name]

    def jobs(self) -> list[JobStatus]:
        """All jobs, in the order in which they came."""
        return [record.shown() for record in self.records.values()]

    @property
    def num_accelerators(self) -> int:
        """That are there now."""
        return sum(map(len, self.cluster.hosts.values()))

    def overdue(self, now_s: float) -> list[str]:
        """Jobs whose phase is past its deadline."""
        return [
            name
            for name, record in self.records.items()
            if record.slots and now_s - record.due_s > record.job.deadline_s
        ]

    # Private methods

    def _launch(self, record: Record, slots: tuple[Slot, ...], now_s: float) -> Launch:
        longest = _LONGEST_ALONE if record.job.plans_itself else _LONGEST_PHASE
        intervals = longest if shape_of(slots) in record.samples else _FIRST_PHASE
        record.phase_s = self._interval_s * intervals
        record.asked_s = None
        record.asks = not record.job.plans_itself
        record.slots, record.began_s, record.status = slots, now_s, "running"
        record.num_phases += 1
        self.stays.append(Stay(job=record.job.name, slots=slots, from_s=now_s))
        done = record.load.done
        places = ", ".join(f"{slot.executor}:{slot.place}" for slot in slots)
        record.log.append(f"dagopt: phase {record.num_phases}, iteration {done}, on {places}")
        return Launch(
            job=record.job,
            slots=slots,
            number=record.num_phases - 1,
            first=done,
            phase_s=record.phase_s,
            state=record.state,
        )

    def _free(self, record: Record, now_s: float) -> None:
        if not record.slots:
            return
        for stay in reversed(self.stays):
            if stay.job == record.job.name:
                stay.until_s = now_s
                break
        record.attained_s += len(record.slots) * max(0.0, now_s - record.began_s)
        record.slots = ()
        if not record.is_over:
            record.status = "waiting"

    def _end(self, record: Record, status: Status, error: str) -> None:
        record.status, record.error = status, error
        told = f"{status} at iteration {record.load.done}{': ' if error else ''}{last_line(error)}"
        record.log.append(f"dagopt: {told}")
        if status == "failed":
            logger.warning("dagopt: job %s %s", record.job.name, told)
        self._targets.pop(record.job.name, None)
        self._planned_s = None

    def _note(self, record: Record, run: PhaseRun) -> None:
        self.runs.append(run)
        self._overheads_s.append(run.overhead_s)
        before = record.last
        record.last = run
        if before is not None and before.slots != run.slots:
            record.num_moves += 1
            self.moves.append(
                Move(
                    job=run.job,
                    iteration=run.first,
                    before=before.slots,
                    after=run.slots,
                    lost_s=max(0.0, run.start_s - before.end_s),
                )
            )

    def _plan(self, now_s: float) -> None:
        recent_s = self._overheads_s[-_NUM_RECENT:]
        self._targets = targets(
            self._policy,
            [one for one in self.records.values() if one.has_asked and not one.is_over],
            self.cluster,
            self._targets,
            self._links,
            restart_s=statistics.median(recent_s) if recent_s else _FIRST_RESTART_S,
            interval_s=self._interval_s,
            now_s=now_s,
        )

    def _check(self) -> None:
        given = [slot for record in self.records.values() for slot in record.slots]
        if len(set(given)) != len(given):
            raise AssertionError("an accelerator is given twice")
