"""One job in a simulated cluster: it trains, measures itself, is moved, and ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dagopt.cost.efficiency import step_gain
from dagopt.cost.fit_steps import StepSample, fit_steps
from dagopt.cost.goodput import best_goodput, job_columns
from dagopt.model.training import NOWHERE, JobView, Placement, TrainingJob, num_held
from dagopt.sim.cluster.application import Application

_LIKE_FRACTION = 0.1
"""A local batch this close to one that was measured on as many replicas teaches nothing new."""

Fit = Callable[[str, frozenset[StepSample]], tuple[float, ...]]
"""From an application's name and samples to coefficients; may remember what it fitted."""


def remembering_fit() -> Fit:
    """A fit that does the same work once."""
    known: dict[tuple[str, frozenset[StepSample]], tuple[float, ...]] = {}

    def fit(application: str, samples: frozenset[StepSample]) -> tuple[float, ...]:
        key = (application, samples)
        if key not in known:
            ordered = sorted(
                samples, key=lambda each: (each.num_hosts, each.num_replicas, each.local_batch)
            )
            known[key] = fit_steps(ordered).row()
        return known[key]

    return fit


@dataclass(slots=True, kw_only=True)
class SimulatedJob:
    """State of a job that has come; all times in seconds on the simulation's clock."""

    job: TrainingJob
    application: Application
    fit: Fit
    now_s: float
    placement: Placement = NOWHERE
    local_batch: int = 0
    num_accumulated: int = 0
    progress: float = 0.0
    epoch: int = 0
    ready_s: float = 0.0
    """When its last restart is over."""
    steps_since_s: float = 0.0
    """A moment at which a step began."""
    ended_s: float | None = None
    attained_s: float = 0.0
    num_starts: int = 0
    most_replicas: int = 0
    samples: dict[tuple[int, int, int], StepSample] = field(default_factory=dict)
    noise: tuple[float, float] = (0.0, 0.0)
    coefficients: tuple[float, ...] | None = None
    _fitted: int = 0

    @property
    def total(self) -> float:
        """Progress at its end, in steps of the initial batch."""
        return self.application.progress_at(self.application.num_epochs)

    def advance(self, to_s: float) -> None:
        """Go on to a later moment, or to its end if that comes first."""
        while self.ended_s is None and self.now_s < to_s:
            if not self.placement:
                self.now_s = to_s
            elif self.ready_s > self.now_s:
                self._pass(min(self.ready_s, to_s))
                self.steps_since_s = self.now_s
            else:
                self._train(to_s)

    def boundary_s(self) -> float:
        """When the step that runs now ends: the first moment at which it may be stopped."""
        if not self.placement or self.ready_s > self.now_s:
            return self.now_s
        step_s, _ = self._step()
        done = math.floor((self.now_s - self.steps_since_s) / step_s + 1e-9)
        at_s = self.steps_since_s + done * step_s
        return at_s if at_s >= self.now_s - 1e-9 * step_s else at_s + step_s

    def move(self, placement: Placement, *, ready_s: float) -> None:
        """Stop where it runs, and be ready somewhere else (or nowhere) at a moment."""
        self.placement = placement
        self.ready_s = ready_s
        self.steps_since_s = ready_s
        if placement:
            self.num_starts += 1
            self._choose_batch()

    def lose_step(self) -> None:
        """An accelerator failed: what it did since the last boundary is lost, and its place too."""
        if self.placement and self.ready_s <= self.now_s:
            step_s, rate = self._step()
            began_s = self.boundary_s() - step_s
            lost_s = self.now_s - began_s if began_s < self.now_s else 0.0
            floor = self.application.progress_at(self.epoch)
            self.progress = max(floor, self.progress - rate * min(lost_s, step_s))
        self.placement = NOWHERE

    def view(self, now_s: float) -> JobView:
        """What a policy is told of it."""
        if len(self.samples) > self._fitted:
            self.coefficients = self.fit(self.application.name, frozenset(self.samples.values()))
            self._fitted = len(self.samples)
        runs = bool(self.placement) and self.ready_s <= self.now_s
        return JobView(
            job=self.job,
            held=self.placement,
            remaining=max(0.0, self.total - self.progress),
            progress=self.progress,
            coefficients=self.coefficients,
            grad_sqr=self.noise[0],
            grad_var=self.noise[1],
            most_replicas=self.most_replicas,
            age_s=now_s - self.job.arrival_s,
            attained_s=self.attained_s,
            num_restarts=max(0, self.num_starts - 1),
            step_s=self._step()[0] if runs else 0.0,
            next_boundary_s=max(now_s, self.boundary_s()),
        )

    # Private methods

    def _train(self, to_s: float) -> None:
        """Train until then, or to the end of the epoch."""
        self._measure()
        _, rate = self._step()
        end = self.application.progress_at(self.epoch + 1)
        need_s = (end - self.progress) / rate
        if need_s > to_s - self.now_s:
            self.progress += rate * (to_s - self.now_s)
            self._pass(to_s)
            return
        self.progress = end
        self._pass(self.now_s + need_s)
        self.epoch += 1
        if self.epoch >= self.application.num_epochs:
            self.ended_s = self.now_s
        else:
            self._choose_batch()
            self.steps_since_s = self.now_s

    def _pass(self, to_s: float) -> None:
        self.attained_s += num_held(self.placement) * (to_s - self.now_s)
        self.now_s = to_s

    def _counts(self) -> tuple[int, ...]:
        return tuple(number for _, number in self.placement)

    def _batch(self) -> int:
        return num_held(self.placement) * self.local_batch * (self.num_accumulated + 1)

    def _step(self) -> tuple[float, float]:
        """Seconds of a whole step, and progress per second."""
        step_s, sync_s = self.application.step(self._counts(), self.local_batch)
        whole_s = step_s + (step_s - sync_s) * self.num_accumulated
        sqr, var = self.application.noise(self._batch(), self.epoch)
        scale = self._batch() / self.job.batches.initial
        return whole_s, float(step_gain(sqr, var, scale)) / whole_s

    def _measure(self) -> None:
        """Note what a step takes here, and how noisy its gradient is."""
        self.noise = self.application.noise(self._batch(), self.epoch)
        hosts, replicas = len(self.placement), num_held(self.placement)
        self.most_replicas = max(self.most_replicas, replicas)
        for one, other, local in self.samples:
            near = abs(local - self.local_batch) <= _LIKE_FRACTION * local
            if (one, other) == (hosts, replicas) and near:
                return
        step_s, sync_s = self.application.step(self._counts(), self.local_batch)
        self.samples[hosts, replicas, self.local_batch] = StepSample(
            num_hosts=hosts,
            num_replicas=replicas,
            local_batch=self.local_batch,
            step_s=step_s,
            sync_s=sync_s,
        )

    def _choose_batch(self) -> None:
        """The batch size that the job takes where it is now."""
        limits, replicas = self.job.batches, num_held(self.placement)
        if self.coefficients is not None and not self.job.is_batch_fixed:
            found = best_goodput(
                job_columns([self.view(self.now_s)]),
                np.array([len(self.placement)]),
                np.array([replicas]),
            )
            if found.per_s[0, 0] > 0:
                self.local_batch = int(found.local_batch[0, 0])
                self.num_accumulated = int(found.num_accumulated[0, 0])
                return
        batch = self.job.asked_batch
        if not self.job.is_batch_fixed:
            batch = max(limits.initial, limits.min_local * replicas)
        self.local_batch, self.num_accumulated = split_batch(
            batch, replicas, limits.max_local, limits.largest, initial=limits.initial
        )


def split_batch(
    batch: int, replicas: int, max_local: int, largest: int, *, initial: int
) -> tuple[int, int]:
    """Local batch and number of accumulated batches of a batch over replicas.

    A single replica above the ``initial`` batch accumulates, see ``cost.goodput``.
    """
    local = math.ceil(batch / replicas - 1e-8)
    accumulated = math.ceil(local / max_local - 1e-8) - 1
    if replicas == 1 and batch > initial:
        accumulated = max(1, accumulated)
    atomic = math.ceil(local / (accumulated + 1) - 1e-8)
    return max(1, min(atomic, largest // (replicas * (accumulated + 1)))), accumulated
