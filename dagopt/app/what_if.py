"""What a recorded application would have gained: the same run again, under other rules.

The run is simulated as it was, which shows how far the simulation can be trusted, and then with the
controller that runs live, and with other numbers of slots. A saving is the recorded time times the
simulated ratio, so that what the simulation gets wrong in both runs alike does not count. Its bound has
two parts: how far the replay was from the recording, of the stage itself or as a rule of the
application, and a share of the change, since a replay does not show how well changes are predicted.

Where it is not known for which links tasks waited, dagopt's run is simulated in both ways of
:mod:`dagopt.app.source_links`: what is told is the likelier one, and the other lies within the bound.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dagopt.app.gpu_stages import GpuStageAdvice, gpu_advice
from dagopt.app.recorded import Recorded
from dagopt.app.shuffle_rates import recorded_shuffle_rates
from dagopt.controller.grouping import ControllerSettings, GroupingController
from dagopt.cost.bandwidth import NETWORK_BYTES_PER_S, Bandwidths
from dagopt.errors import InputError
from dagopt.events.observed_profile import observed_profile
from dagopt.model.stage_profile import StageProfiles, merge_profiles
from dagopt.policy.grouping.decide import GroupingSettings
from dagopt.sim.app_values import AppExecutor, AppRun, AppStage
from dagopt.sim.application import simulate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dagopt.model.decision import Decision
    from dagopt.model.stage_profile import StageProfile

_CHANGE_ERROR_FRACTION: Final = 0.3
"""Error of predicted changes: the largest seen between predicted and measured savings of the overlap
benchmark's cases, from the logs of its stock runs."""

_MOST_EXECUTORS: Final = 5000
"""The simulation's time grows with their square."""

_BITS: Final = 8
_MEGA: Final = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What is to be different from the recorded cluster; None leaves it as it was.

    One thing is of the recorded cluster itself, since logs do not say it.
    """

    num_executors: int | None = None
    """Executors, each like the recorded ones in turn, and there from the start."""

    num_gpus: int | None = None
    """GPUs of each executor."""

    link_mbit: float | None = None
    """Megabits per second of a host's link."""

    slots_per_core: int = 4
    """Most tasks that dagopt runs at once on a core, and the most that is tried without it."""

    recorded_slots_per_core: int = 1
    """Task slots that the recorded executors had for each of their real cores."""

    def __post_init__(self) -> None:
        if self.num_executors is not None and not 1 <= self.num_executors <= _MOST_EXECUTORS:
            raise InputError(f"executors is {self.num_executors}, must be 1 to {_MOST_EXECUTORS}")
        if self.num_gpus is not None and self.num_gpus < 0:
            raise InputError(f"gpus is {self.num_gpus}, must be at least 0")
        if self.link_mbit is not None and not 0 < self.link_mbit < math.inf:
            raise InputError(f"link-mbit is {self.link_mbit}, must be above 0")
        if not 1 <= self.slots_per_core <= 16:
            raise InputError(f"slots-per-core is {self.slots_per_core}, must be 1 to 16")
        if not 1 <= self.recorded_slots_per_core <= 64:
            raise InputError(
                f"recorded-slots-per-core is {self.recorded_slots_per_core}, must be 1 to 64"
            )

    @property
    def is_as_recorded(self) -> bool:
        """Whether Spark alone would run on it as it did."""
        return self.num_executors is None and self.num_gpus is None and self.link_mbit is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One way to run the application; arrays by stage, in the order of ``Recorded.stages``."""

    name: str
    run: AppRun
    stage_s: tuple[float, ...]
    """``(S,)`` predicted seconds of each stage."""
    bound_s: tuple[float, ...]
    """``(S,)`` how far each may be off."""
    elapsed_s: float
    """Predicted seconds of the application, to the end of its last stage."""
    elapsed_bound_s: float
    decisions: tuple[Decision, ...] = ()
    """Of the controller; empty without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """The recorded run, its replay, and the other ways."""

    recorded_s: tuple[float, ...]
    """``(S,)`` recorded seconds of each stage."""
    recorded_elapsed_s: float
    replay: Outcome
    """As it was, on the recorded cluster."""
    baseline: Outcome
    """As Spark runs it on the cluster asked for; the replay where nothing was asked for."""
    grouped: Outcome
    """With dagopt, on the cluster asked for."""
    boundaries: Outcome | None
    """With shuffles around GPU operators and no grouping; None where these would change nothing."""
    gpu_stages: dict[int, GpuStageAdvice]
    """By place in ``Recorded.stages``, of those whose tasks held GPUs."""
    other_slots: tuple[Outcome, ...]
    """Without dagopt, with other slots per core."""
    stage_error_fraction: float
    """Median of the replay's relative errors of stage times."""
    elapsed_error_fraction: float
    """The replay's relative error of the application's time."""

    @property
    def ways(self) -> tuple[Outcome, ...]:
        """All of them, each once."""
        base = () if self.baseline is self.replay else (self.baseline,)
        alone = () if self.boundaries is None else (self.boundaries,)
        return (self.replay, *base, self.grouped, *alone, *self.other_slots)


def what_if(found: Recorded, cluster: Cluster) -> WhatIf:
    """Replay an application as it was and with what could be different.

    Raises:
        InputError: another link is asked for, and no task of the run waited for its link.
    """
    recorded_s = tuple(stage.completed_s - stage.submitted_s for stage in found.traces)
    recorded_elapsed_s = max(stage.completed_s for stage in found.traces) - found.start_s
    first = simulate(found.stages, found.executors, slots_per_core=found.slots_per_core)
    simulated_s = _stage_s(first)
    errors = [
        abs(sim - rec) / rec for sim, rec in zip(simulated_s, recorded_s, strict=True) if rec > 0
    ]
    rule = statistics.median(errors) if errors else 0.0
    elapsed_error = (
        abs(first.elapsed_s - recorded_elapsed_s) / recorded_elapsed_s
        if recorded_elapsed_s > 0
        else 0.0
    )

    def outcome(
        name: str,
        run: AppRun,
        decisions: Sequence[Decision] = (),
        other: AppRun | None = None,
        gpu: dict[int, GpuStageAdvice] | None = None,
    ) -> Outcome:
        other = other or run
        form_error_s = [
            recording * gpu[place].ratio_error if gpu is not None and place in gpu else 0.0
            for place, recording in enumerate(recorded_s)
        ]
        stage_s, bound_s = [], []
        for now, instead, was, recording, form_s in zip(
            _stage_s(run), _stage_s(other), simulated_s, recorded_s, form_error_s, strict=True
        ):
            predicted = recording * now / was if was > 0 else recording
            own = abs(was - recording) / was if was > 0 else 0.0
            stage_s.append(predicted)
            change_s = abs(predicted - recording)
            unknown_s = recording * abs(now - instead) / was if was > 0 else 0.0
            bound_s.append(
                predicted * max(own, rule) + _CHANGE_ERROR_FRACTION * change_s + unknown_s + form_s
            )
        scale = recorded_elapsed_s / first.elapsed_s if first.elapsed_s > 0 else 1.0
        elapsed_s = run.elapsed_s * scale
        return Outcome(
            name=name,
            run=run,
            stage_s=tuple(stage_s),
            bound_s=tuple(bound_s),
            elapsed_s=elapsed_s,
            elapsed_bound_s=elapsed_s * max(elapsed_error, rule)
            + _CHANGE_ERROR_FRACTION * abs(elapsed_s - recorded_elapsed_s)
            + abs(run.elapsed_s - other.elapsed_s) * scale
            + sum(form_error_s),
            decisions=tuple(decisions),
        )

    stages, link_bytes_per_s = _on_link(found, cluster.link_mbit)
    executors = _like(found.executors, cluster)
    _check_fits(stages, executors)
    replay = outcome("as it was", first)
    base = (
        replay
        if cluster.is_as_recorded
        else outcome(
            "as Spark runs it",
            simulate(stages, executors, slots_per_core=found.slots_per_core),
        )
    )
    rates = recorded_shuffle_rates(found.traces, link_bytes_per_s)
    gpu_stages = {
        place: advice
        for place, trace in enumerate(found.traces)
        if (advice := gpu_advice(trace, executors, rates)) is not None
    }
    in_forms = _in_forms(stages, gpu_stages)

    def grouped(*, likely: bool) -> tuple[AppRun, GroupingController]:
        controller = _controller(found, link_bytes_per_s, cluster.slots_per_core)
        read = _in_forms(_as_read(found, stages, likely=likely), gpu_stages)
        return simulate(read, executors, controller=controller), controller

    grouped_run, controller = grouped(likely=True)
    other_run, _ = grouped(likely=False) if found.source_readings else (grouped_run, controller)
    return WhatIf(
        recorded_s=recorded_s,
        recorded_elapsed_s=recorded_elapsed_s,
        replay=replay,
        baseline=base,
        grouped=outcome(
            "with dagopt", grouped_run, list(controller.decisions), other_run, gpu_stages
        ),
        boundaries=outcome(
            "with boundaries alone",
            simulate(in_forms, executors, slots_per_core=found.slots_per_core),
            gpu=gpu_stages,
        )
        if in_forms is not stages
        else None,
        gpu_stages=gpu_stages,
        other_slots=tuple(
            outcome(
                f"{slots} slots per core everywhere",
                simulate(stages, executors, slots_per_core=slots),
            )
            for slots in (2, 4, 8, 16)
            if slots <= cluster.slots_per_core and slots != found.slots_per_core
        ),
        stage_error_fraction=rule,
        elapsed_error_fraction=elapsed_error,
    )


# Private functions


def _stage_s(run: AppRun) -> list[float]:
    return [end - start for start, end in zip(run.start_s, run.end_s, strict=True)]


def _on_link(found: Recorded, link_mbit: float | None) -> tuple[Sequence[AppStage], float | None]:
    if link_mbit is None:
        return found.stages, found.link_bytes_per_s
    if found.link_bytes_per_s is None:
        raise InputError(
            "link-mbit: no task of this run waited for shuffle blocks, so the log does not say what "
            "its links carry"
        )
    wanted = link_mbit * _MEGA / _BITS
    factor = found.link_bytes_per_s / wanted
    stages = [
        dataclasses.replace(
            stage,
            tasks=[dataclasses.replace(task, io_s=task.io_s * factor) for task in stage.tasks],
        )
        for stage in found.stages
    ]
    return stages, wanted


def _as_read(found: Recorded, stages: Sequence[AppStage], *, likely: bool) -> Sequence[AppStage]:
    """Stages with their reading in the likely way, or in the other one, where there are two."""
    if not found.source_readings:
        return stages
    as_read = list(stages)
    for place, reading in found.source_readings.items():
        if reading.is_likely == likely:
            was, now = found.stages[place], stages[place]
            as_read[place] = dataclasses.replace(
                now,
                tasks=[
                    # Both ways change alike with the link.
                    dataclasses.replace(task, io_s=io_s * (task.io_s / old.io_s if old.io_s else 1))
                    for task, old, io_s in zip(now.tasks, was.tasks, reading.io_s, strict=True)
                ],
            )
    return as_read


def _in_forms(
    stages: Sequence[AppStage], gpu_stages: dict[int, GpuStageAdvice]
) -> Sequence[AppStage]:
    """GPU stages with their tasks as much shorter as their forms are; others as they are."""
    ratios = {place: advice.time_ratio for place, advice in gpu_stages.items()}
    if all(ratio == 1.0 for ratio in ratios.values()):
        return stages
    return [
        dataclasses.replace(
            stage,
            tasks=[
                dataclasses.replace(
                    task,
                    io_s=task.io_s * ratio,
                    cpu_s=task.cpu_s * ratio,
                    launch_s=task.launch_s * ratio,
                )
                for task in stage.tasks
            ],
        )
        if (ratio := ratios.get(place, 1.0)) < 1.0
        else stage
        for place, stage in enumerate(stages)
    ]


def _check_fits(stages: Sequence[AppStage], executors: Sequence[AppExecutor]) -> None:
    for stage in stages:
        if not any(
            each.cores >= stage.task_cpus and each.gpus >= stage.task_gpus for each in executors
        ):
            raise InputError(
                f"a task of stage {stage.stage} takes {stage.task_cpus:g} cores and "
                f"{stage.task_gpus:g} GPUs, which no executor would have"
            )


def _like(executors: tuple[AppExecutor, ...], cluster: Cluster) -> tuple[AppExecutor, ...]:
    if cluster.num_gpus is not None:
        executors = tuple(dataclasses.replace(each, gpus=cluster.num_gpus) for each in executors)
    number = cluster.num_executors
    if number is None:
        return executors
    per_host = max(1, round(len(executors) / len({each.host for each in executors})))
    return tuple(
        dataclasses.replace(
            executors[place % len(executors)],
            executor=str(place + 1),
            host=f"host-{place // per_host + 1}",
            added_s=0.0,
            removed_s=math.inf,
        )
        for place in range(number)
    )


def _controller(
    found: Recorded, link_bytes_per_s: float | None, slots_per_core: int
) -> GroupingController:
    """The live controller, knowing what ``dagopt learn`` would tell it of this run."""
    observed: dict[str, list[StageProfile]] = {}
    for trace, stage in zip(found.traces, found.stages, strict=True):
        profile = observed_profile(trace)
        if profile is not None:
            if found.slots_per_core > 1:
                alone_s = statistics.fmean(task.cpu_s for task in stage.tasks)
                profile = dataclasses.replace(profile, cpu_s_per_task=alone_s)
            observed.setdefault(profile.signature, []).append(profile)
    profiles = [merge_profiles(same, older_weight=1.0) for same in observed.values()]
    bandwidths = Bandwidths(network_bytes_per_s=link_bytes_per_s or NETWORK_BYTES_PER_S)
    settings = ControllerSettings(
        bandwidths=bandwidths, grouping=GroupingSettings(max_tasks_per_core=slots_per_core)
    )
    return GroupingController(settings, StageProfiles(profiles))
