"""How long the next phase is, and what its tasks do."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dagopt.model.trial import Candidate, TrialGroup
from dagopt.policy.merging.packing import Capacity
from dagopt.policy.merging.regroup import regroup
from dagopt.tune.phase import GroupWork
from dagopt.tune.records import Records

WATCHED: Final = 5
"""Iterations of a new trial by itself, before anything is decided about it."""

_PHASE_S: Final = 30.0
"""Length of a phase where boundaries are only for checkpoints."""

_OVERHEAD_S: Final = 0.2
"""Prior for what a boundary costs: planning, files, and a Spark job."""

_NOISE: Final = 0.3
"""Share of a step time by which measurements of equal trials differ."""

_FIRST_FRACTION: Final = 0.1
"""Share of the iterations in the first merged phase: what it measures balances the others."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Iterations between boundaries."""

    max_iterations: int
    fixed: int | None
    """What the user asked for."""
    prunes: bool
    """Whether trials may end at boundaries."""

    def phase_iterations(
        self, records: Records, num_slots: int, longest_s: float | None = None
    ) -> int:
        """Iterations of the next phase, >= 1.

        Where trials may be pruned, boundaries may take a tenth of the time, and there are about 20.
        Where somebody waits for boundaries, the phase takes no longer than that, but for this tenth.
        """
        if self.fixed is not None:
            return self.fixed
        running = records.running()
        reads_s = {one.dataset: records.read_s.get(one.dataset, 0.0) for one in running}
        work_s = sum(one.stacked_step_s or one.step_s for one in running)
        iteration_s = max((work_s + sum(reads_s.values())) / num_slots, 1e-9)
        left = max(self.max_iterations - one.position for one in running)
        overhead_s = max(records.overhead_s, _OVERHEAD_S / 4) if records.phases else _OVERHEAD_S
        cheap = max(1, math.ceil(10 * overhead_s / iteration_s))
        merged_before = any(one.mode != "watch" for one in records.phases)
        if self.prunes:
            wanted = max(cheap, math.ceil(self.max_iterations / 20))
        elif not merged_before and left * iteration_s * _FIRST_FRACTION > 4 * overhead_s:
            wanted = math.ceil(left * _FIRST_FRACTION)
        else:
            wanted = max(1, math.ceil(_PHASE_S / iteration_s))
        return (
            wanted if longest_s is None else min(wanted, max(cheap, int(longest_s / iteration_s)))
        )


def plan_phase(
    records: Records,
    pace: Pace,
    capacity: Capacity,
    boundary: int,
    need_bytes: int,
    longest_s: float | None = None,
) -> tuple[list[GroupWork], list[TrialGroup]]:
    """The works of the next phase, and the groups that they are of.

    New trials are watched first, and the others wait for them; of a phase that watches there are no
    groups. A task watches several trials, one after the other, but has all their states: as many as
    have room, if each needs ``need_bytes``.
    """
    running = records.running()
    phase = records.num_phases + 1
    new = [one for one in running if one.position == 0]
    if new:
        room = max(1, capacity.usable_bytes // max(1, need_bytes))
        count = max(capacity.num_slots, math.ceil(len(new) / room))
        shares = [new[first::count] for first in range(count)]
        return [
            GroupWork(
                number=number,
                phase=phase,
                mode="alone",
                trials=tuple(records.work_of(one) for one in share),
                stacks=(),
                num_iterations=min(WATCHED, pace.max_iterations),
                watch=True,
            )
            for number, share in enumerate(share for share in shares if share)
        ], []
    steps = pace.phase_iterations(records, capacity.num_slots, longest_s)
    lengths = {one.number: min(steps, pace.max_iterations - one.position) for one in running}
    candidates = evened([records.candidate(one, lengths[one.number]) for one in running])
    groups = regroup(candidates, capacity, boundary).groups
    return [
        _work(records, number, phase, group, lengths) for number, group in enumerate(groups)
    ], list(groups)


def evened(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates, those of one model type and data set with the median of their step times.

    Few iterations were watched, so equal trials differ by noise, and groups made of them in length. Who
    is further off than noise keeps its own time.
    """
    alike: dict[tuple[str, str], list[float]] = {}
    for one in candidates:
        alike.setdefault((one.model_type, one.dataset), []).append(one.step_s)
    medians = {kind: statistics.median(times_s) for kind, times_s in alike.items()}
    found = []
    for one in candidates:
        median_s = medians[one.model_type, one.dataset]
        is_noise = abs(one.step_s - median_s) <= _NOISE * median_s
        found.append(replace(one, step_s=median_s) if is_noise else one)
    return found


def _work(
    records: Records, number: int, phase: int, group: TrialGroup, lengths: Mapping[int, int]
) -> GroupWork:
    trials = [records.trials[trial] for trial in group.trials]
    kinds = {one.model_type for one in trials}
    return GroupWork(
        number=number,
        phase=phase,
        mode=group.request.mode,
        trials=tuple(records.work_of(one) for one in trials),
        stacks=group.request.stacks,
        num_iterations=min(lengths[trial] for trial in group.trials),
        width={kind: records.width[kind] for kind in kinds & records.width.keys()},
        pass_length={
            one.dataset: records.pass_length[one.dataset]
            for one in trials
            if one.dataset in records.pass_length
        },
        sources=tuple(sorted({one.file for one in trials})),
    )
