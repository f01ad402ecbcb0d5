"""Learn stage profiles from event logs: the use case of ``dagopt learn``."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dagopt.app.each_log import FailedLog, of_each
from dagopt.errors import InputError
from dagopt.events.observed_profile import observed_profile
from dagopt.events.profile_file import write_profile
from dagopt.events.read import EventLog, LogHealth, find_event_logs, read_trace
from dagopt.model.stage_profile import StageProfile, StageProfiles, is_gpu_part, merge_profiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from dagopt.events.log_paths import LogPath
    from dagopt.events.trace import ApplicationTrace


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnSummary:
    """What was read, what was not, and what came of it."""

    output: Path
    """The file written."""

    num_logs: int
    """Logs found."""

    num_logs_read: int
    """Logs that were event logs."""

    failed: tuple[FailedLog, ...]
    """The others, in the order of their paths."""

    num_stages: int
    """Stage attempts in the logs."""

    num_unknown_stages: int
    """Those of them that have too little data to learn from."""

    num_profiles: int
    """Signatures in the file written."""

    num_broken_lines: int
    """Lines that were passed over, over all logs."""

    problems: tuple[str, ...]
    """The first broken line and the break of each file, with their places."""


def learn(
    source: LogPath,
    output: Path,
    *,
    force: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
) -> LearnSummary:
    """Read every event log at or below ``source`` and write the profiles of their stages.

    Args:
        source: an event log, a rolling log's folder, or a folder of either.
        output: the Parquet file to write.
        force: whether a file that is there is replaced.
        progress: called with logs done, logs in all, and the path of the one that is next; at
            the end with an empty path.

    Raises:
        InputError: ``output`` is there and ``force`` is not, ``source`` holds no event log, no
            stage in it has enough data, or ``output`` cannot be written.
    """
    _check_output(output, force=force)
    logs = find_event_logs(source)
    runs, failed = of_each(logs, _read_run, progress)
    profiles = StageProfiles(_oldest_first(runs))
    num_stages = sum(run.num_stages for run in runs)
    if not len(profiles):
        raise InputError(
            f"{source}: none of the {num_stages} stages has enough task data to learn from"
        )
    write_profile(output, profiles.by_signature.values())
    return LearnSummary(
        output=output,
        num_logs=len(logs),
        num_logs_read=len(runs),
        failed=failed,
        num_stages=num_stages,
        num_unknown_stages=sum(run.num_unknown_stages for run in runs),
        num_profiles=len(profiles),
        num_broken_lines=sum(run.health.num_broken for run in runs),
        problems=tuple(problem for run in runs for problem in run.health.problems),
    )


# Private functions


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """What is kept of one log: profiles, not tasks."""

    start_s: float
    profiles: tuple[StageProfile, ...]
    num_stages: int
    num_unknown_stages: int
    health: LogHealth


def _check_output(output: Path, *, force: bool) -> None:
    if output.is_dir():
        raise InputError(f"{output}: is a folder, must be a file to write")
    if output.exists() and not force:
        raise InputError(f"{output} exists; --force overwrites")
    if not output.parent.is_dir():
        raise InputError(f"{output}: the folder {output.parent} does not exist")


def _read_run(log: EventLog) -> _Run:
    trace, health = read_trace(log)
    profiles = _run_profiles(trace)
    return _Run(
        start_s=trace.start_s,
        profiles=profiles,
        num_stages=len(trace.stages),
        num_unknown_stages=len(trace.stages)
        - sum(p.num_runs for p in profiles if not is_gpu_part(p.signature)),
        health=health,
    )


def _run_profiles(trace: ApplicationTrace) -> tuple[StageProfile, ...]:
    """One profile a signature: inside one application no stage is more recent than another."""
    observed: dict[str, list[StageProfile]] = {}
    for stage in trace.stages:
        profile = observed_profile(stage)
        if profile is None:
            continue
        observed.setdefault(profile.signature, []).append(profile)
        for name in stage.gpu_parts:
            part = dataclasses.replace(profile, signature=name)
            observed.setdefault(name, []).append(part)
    return tuple(merge_profiles(same, older_weight=1.0) for same in observed.values())


def _oldest_first(runs: Iterable[_Run]) -> list[StageProfile]:
    """Profiles in the order in which their applications started, those without a start first."""
    in_order = sorted(runs, key=lambda run: -math.inf if math.isnan(run.start_s) else run.start_s)
    return [profile for run in in_order for profile in run.profiles]
