"""Training jobs on a simulated cluster under one policy, from the first arrival to the last end.

A plan is made at every interval while there are jobs. A job whose placement changes goes on to the end
of its step, stops, waits until the accelerators that it gets have been left by others, and is ready a
restart later. So an accelerator is never in two jobs, which every change checks. Between plans nothing
is stepped: a job moves from the end of one epoch to the next by arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dagopt.errors import InfeasibleError, InputError
from dagopt.model.assignment import Places, assign
from dagopt.model.training import ClusterView, Plan, TrainingJob, check_plan
from dagopt.sim.cluster.application import Application
from dagopt.sim.cluster.job import Fit, SimulatedJob, remembering_fit, split_batch
from dagopt.sim.cluster.policy import Oracle, Policy, packed

_STUCK_PLANS = 100_000
"""Plans in a row in which no job runs although some wait: such a policy would never end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A host that stops, with all its accelerators, and comes back."""

    host: int
    at_s: float
    for_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """What is simulated."""

    hosts: tuple[int, ...]
    """Accelerators of each host."""
    restart_s: float = 30.0
    """Seconds that a job loses when it is started or moved."""
    interval_s: float = 60.0
    """Seconds between plans."""
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """An accelerator in the hands of a job, from its restart to its last step."""

    job_id: str
    host: int
    place: int
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How one policy did."""

    policy: str
    ended_s: Mapping[str, float]
    """By job, when it was done."""
    num_moves: int
    """Restarts of jobs that had run before."""
    plan_s: tuple[float, ...]
    """Seconds that each plan took to make."""
    stays: tuple[Stay, ...]


@dataclass(slots=True, kw_only=True)
class _State:
    spec: ClusterSpec
    running: dict[str, SimulatedJob] = field(default_factory=dict)
    places: dict[str, Places] = field(default_factory=dict)
    since_s: dict[str, float] = field(default_factory=dict)
    free_s: dict[tuple[int, int], float] = field(default_factory=dict)
    ended_s: dict[str, float] = field(default_factory=dict)
    stays: list[Stay] = field(default_factory=list)
    num_moves: int = 0
    plan_s: list[float] = field(default_factory=list)


def simulate(
    jobs: Sequence[TrainingJob],
    applications: Mapping[str, Application],
    make_policy: Callable[[Oracle], Policy],
    spec: ClusterSpec,
    *,
    timer: Callable[[], float] = lambda: 0.0,
    progress: Callable[[int, float], None] = lambda _done, _now_s: None,
    fit: Fit | None = None,
) -> Run:
    """Run all jobs to their ends.

    Args:
        jobs: each with an id of its own.
        applications: measurements by name.
        make_policy: the policy, from an oracle that it may keep.
        spec: the cluster.
        timer: seconds on any clock, to time plans with.
        progress: told after each plan how many jobs are done, and the time.
        fit: from samples to coefficients; runs that share one do the same work once.

    Raises:
        InputError: a job names an application that was not measured, or asks for more than there is.
        InfeasibleError: the policy leaves jobs waiting for ever.
    """
    _check(jobs, applications, spec)
    state = _State(spec=spec)
    oracle = _TraceOracle(state)
    policy = make_policy(oracle)
    fit = fit or remembering_fit()
    if not policy.tunes_batch:
        jobs = [replace(job, is_batch_fixed=True) for job in jobs]
    waiting = sorted(jobs, key=lambda job: (job.arrival_s, job.job_id), reverse=True)
    now_s, idle, before_s = 0.0, 0, 0.0
    while waiting or state.running:
        if not state.running:
            # Nothing to plan before the next arrival.
            skipped = int((waiting[-1].arrival_s - now_s) // spec.interval_s)
            now_s += max(0, skipped) * spec.interval_s
        now_s += spec.interval_s
        _fail_hosts(state, before_s, now_s)
        _advance(state, now_s)
        before_s = now_s
        while waiting and waiting[-1].arrival_s <= now_s:
            job = waiting.pop()
            state.running[job.job_id] = SimulatedJob(
                job=job, application=applications[job.application], fit=fit, now_s=now_s
            )
        if not state.running:
            continue
        cluster = ClusterView(
            capacity=_capacity(spec, now_s), restart_s=spec.restart_s, interval_s=spec.interval_s
        )
        views = [each.view(now_s) for each in state.running.values()]
        began = timer()
        plan = policy.plan(views, cluster, now_s)
        state.plan_s.append(timer() - began)
        check_plan(plan, views, cluster)
        _carry_out(state, plan, now_s)
        progress(len(state.ended_s), now_s)
        idle = 0 if state.places else idle + 1
        if idle > _STUCK_PLANS:
            raise InfeasibleError(f"{policy.name}: {len(state.running)} jobs wait and none runs")
    return Run(
        policy=policy.name,
        ended_s=state.ended_s,
        num_moves=state.num_moves,
        plan_s=tuple(state.plan_s),
        stays=tuple(state.stays),
    )


# Private functions


def _check(
    jobs: Sequence[TrainingJob], applications: Mapping[str, Application], spec: ClusterSpec
) -> None:
    total = sum(spec.hosts)
    seen: set[str] = set()
    for job in jobs:
        if job.job_id in seen:
            raise InputError(f"job {job.job_id} is there twice")
        seen.add(job.job_id)
        if job.application not in applications:
            raise InputError(
                f"job {job.job_id}: no measurements of {job.application}; "
                f"there are {', '.join(sorted(applications))}"
            )
        if job.asked_replicas > total:
            raise InputError(
                f"job {job.job_id} asks for {job.asked_replicas} accelerators, the cluster has {total}"
            )
    for failure in spec.failures:
        if not 0 <= failure.host < len(spec.hosts):
            raise InputError(f"failure of host {failure.host}: there are {len(spec.hosts)} hosts")


def _capacity(spec: ClusterSpec, now_s: float) -> tuple[int, ...]:
    down = {f.host for f in spec.failures if f.at_s <= now_s < f.at_s + f.for_s}
    return tuple(0 if host in down else number for host, number in enumerate(spec.hosts))


def _advance(state: _State, now_s: float) -> None:
    for job_id, job in list(state.running.items()):
        job.advance(now_s)
        if job.ended_s is not None:
            _leave(state, job_id, job.ended_s)
            state.ended_s[job_id] = job.ended_s
            del state.running[job_id]


def _fail_hosts(state: _State, before_s: float, now_s: float) -> None:
    """Jobs on a host that stops run until then, and hold nothing afterwards."""
    for failure in sorted(state.spec.failures, key=lambda each: (each.at_s, each.host)):
        if not before_s < failure.at_s <= now_s:
            continue
        _advance(state, failure.at_s)
        for job_id, places in list(state.places.items()):
            if any(host == failure.host for host, _ in places):
                state.running[job_id].lose_step()
                _leave(state, job_id, max(failure.at_s, state.running[job_id].now_s))


def _leave(state: _State, job_id: str, at_s: float) -> None:
    start_s = state.since_s.pop(job_id, at_s)
    for host, place in state.places.pop(job_id, ()):
        state.free_s[host, place] = at_s
        if at_s > start_s:
            state.stays.append(
                Stay(job_id=job_id, host=host, place=place, start_s=start_s, end_s=at_s)
            )


def _carry_out(state: _State, plan: Plan, now_s: float) -> None:
    """Stop what changes at its boundary, then start it on what has been left by then."""
    changed = [
        job_id for job_id, job in state.running.items() if plan.get(job_id, ()) != job.placement
    ]
    held = dict(state.places)
    for job_id in changed:
        job = state.running[job_id]
        job.advance(max(now_s, job.boundary_s()))
        at_s = job.ended_s if job.ended_s is not None else job.now_s
        _leave(state, job_id, at_s)
        if job.ended_s is not None:
            state.ended_s[job_id] = job.ended_s
            del state.running[job_id]
    running = {job_id: place for job_id, place in plan.items() if job_id in state.running}
    found = assign(running, held, state.spec.hosts)
    for job_id in changed:
        if job_id not in state.running:
            continue
        job = state.running[job_id]
        places = found.get(job_id, ())
        began_s = max([job.now_s, *(state.free_s.get(place, 0.0) for place in places)])
        if places:
            state.num_moves += job.num_starts > 0
            state.places[job_id], state.since_s[job_id] = places, began_s
        job.move(running.get(job_id, ()), ready_s=began_s + state.spec.restart_s)
    given = [place for places in state.places.values() for place in places]
    if len(set(given)) != len(given):
        raise AssertionError("an accelerator is in two jobs")


class _TraceOracle:
    """Knows what was measured, and how much of each job is left."""

    def __init__(self, state: _State) -> None:
        self._state = state
        self._known: dict[tuple[str, int, int], float] = {}

    def step_s(self, job_id: str, num_replicas: int) -> float:
        """Seconds of a step at the asked batch on hosts that are filled one after another."""
        running = self._state.running[job_id]
        job, app = running.job, running.application
        key = (app.name, job.asked_batch, num_replicas)
        if key not in self._known:
            limits = job.batches
            local, accumulated = split_batch(
                job.asked_batch, num_replicas, limits.max_local, limits.largest,
                initial=limits.initial,
            )  # fmt: skip
            counts = packed(num_replicas, max(self._state.spec.hosts))
            step_s, sync_s = app.step(counts, local)
            self._known[key] = step_s + (step_s - sync_s) * accumulated
        return self._known[key]

    def remaining_steps(self, job_id: str) -> float:
        """Steps at the asked batch until its end, at least 1."""
        running = self._state.running[job_id]
        app, batch = running.application, running.job.asked_batch
        whole = app.iterations_at(batch, app.num_epochs - 1)
        return max(1.0, whole - app.iterations_at(batch, running.epoch))
