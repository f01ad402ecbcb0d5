"""Runs the slices of a pipeline as the shifting rules say, on simulated slots.

As a live driver does, it submits what it is told, starts GPU tasks before CPU tasks where both want
a slot, and reports what ended. Estimates may be wrong, other work may take CPU slots for a while, and
a CPU-only form takes time from its submission to its first task.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from dagopt.model.pipeline import Phase
from dagopt.policy.boundary.shifting import next_step
from dagopt.policy.boundary.slice_state import (
    Action,
    ShiftingState,
    applied,
    cpu_only_started,
    task_ended,
)

Part: TypeAlias = Literal["gpu", "cpu", "cpu_only"]
_ORDER: tuple[Part, ...] = ("gpu", "cpu", "cpu_only")
_PHASE_OF: dict[Part, Phase] = {
    "gpu": "gpu_running",
    "cpu": "cpu_running",
    "cpu_only": "cpu_only_running",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One task that ran."""

    index: int
    part: Part
    start_s: float
    end_s: float


@dataclass(slots=True)
class _Stage:
    index: int
    part: Part
    eligible_s: float
    left: int
    at_once: float
    running: int = 0

    @property
    def wanted(self) -> int:
        """Tasks that would start now if slots were free."""
        return int(min(self.left, self.at_once - self.running))


@dataclass(slots=True)
class SliceDriver:
    """One pipeline; make a new one for the next."""

    state: ShiftingState
    slowness: Sequence[float]
    """By slice: its real seconds over the estimated ones."""
    taken: Sequence[tuple[float, float, int]] = ()
    """From when to when other work takes how many CPU slots."""
    submit_s: float = 0.0
    """Seconds from the submission of a CPU-only form to its first task."""
    unmeasured_s: float = 0.0
    """Seconds of the operator's CPU form where the state does not know them before one slice ran so."""

    now_s: float = 0.0
    runs: list[Run] = field(default_factory=list)
    """Those of a form that a slice was taken back from are not among them."""
    actions: list[tuple[float, Action]] = field(default_factory=list)
    most_ahead: int = 0
    """Most slices whose CPU part was submitted and whose GPU part was not."""
    _stages: list[_Stage] = field(default_factory=list)
    _running: list[tuple[float, int, _Stage]] = field(default_factory=list)

    def run(self) -> list[Run]:
        while any(found.phase != "done" for found in self.state.slices):
            self._end_tasks()
            self._act()
            self._start_tasks()
            moments = [end_s for end_s, _, _ in self._running]
            moments += [stage.eligible_s for stage in self._stages if stage.left]
            moments += [edge for from_s, to_s, _ in self.taken for edge in (from_s, to_s)]
            later = [moment for moment in moments if moment > self.now_s]
            if later:
                self.now_s = min(later)
            elif not any(end_s <= self.now_s for end_s, _, _ in self._running):
                assert all(found.phase == "done" for found in self.state.slices), "nothing runs"
        return self.runs

    def _end_tasks(self) -> None:
        for running in sorted(self._running, key=lambda found: found[:2]):
            if running[0] <= self.now_s:
                self._running.remove(running)
                running[2].running -= 1
                self.state = task_ended(self.state, running[1])
                if running[2].part == "cpu_only" and self.state.measures:
                    self._measured()

    def _measured(self) -> None:
        slices = tuple(
            replace(found, costs=replace(found.costs, cpu_only_s=self.unmeasured_s))
            for found in self.state.slices
        )
        self.state = replace(self.state, slices=slices, measures=False)

    def _act(self) -> None:
        for _ in range(2 * len(self.state.slices) + 2):
            self._see_free()
            actions = next_step(self.state)
            if not actions:
                return
            for action in actions:
                self.actions.append((self.now_s, action))
                self._submit(action)
                ahead = self.state.in_phase("cpu_running", "cpu_done")
                self.most_ahead = max(self.most_ahead, len(ahead))
        raise AssertionError("it does not come to an end")

    def _submit(self, action: Action) -> None:
        self.state = applied(self.state, action)
        size = self.state.slices[action.index].num_partitions
        if action.kind == "take_back":
            gone = (action.index, "cpu_only")
            self._stages = [stage for stage in self._stages if stage.index != action.index]
            self._running = [found for found in self._running if (found[1], found[2].part) != gone]
            self.runs = [run for run in self.runs if (run.index, run.part) != gone]
        elif action.kind == "start_cpu":
            self._stages.append(_Stage(action.index, "cpu", self.now_s, size, math.inf))
        elif action.kind == "start_gpu":
            eligible_s = self.now_s + self.state.before.stage_s
            self._stages.append(_Stage(action.index, "gpu", eligible_s, size, math.inf))
        else:
            eligible_s = self.now_s + self.submit_s
            self._stages.append(
                _Stage(action.index, "cpu_only", eligible_s, size, action.num_slots)
            )

    def _used(self, part: Part) -> int:
        return sum(stage.running for stage in self._stages if stage.part == part)

    def _free(self) -> tuple[float, int]:
        """CPU slots and GPUs in which no task runs."""
        slots = self.state.slots
        elsewhere = sum(num for from_s, to_s, num in self.taken if from_s <= self.now_s < to_s)
        free = slots.free_cores(self._used("cpu") + self._used("cpu_only"), self._used("gpu"))
        return max(0.0, free - elsewhere), slots.gpus - self._used("gpu")

    def _see_free(self) -> None:
        """Slots that no task runs in or waits for."""
        cpu_slots, gpus = self._free()
        for stage in self._stages:
            if stage.part == "gpu":
                wanted = min(stage.wanted, gpus)
                gpus -= wanted
                cpu_slots -= wanted * self.state.slots.cpus_per_gpu_task
            else:
                cpu_slots -= stage.wanted
        self.state = replace(self.state, free_cpu_slots=max(0.0, cpu_slots), free_gpus=gpus)

    def _start_tasks(self) -> None:
        for stage in sorted(
            self._stages, key=lambda found: (_ORDER.index(found.part), found.index)
        ):
            if stage.eligible_s > self.now_s:
                continue
            cpu_slots, gpus = self._free()
            if stage.part == "gpu":
                count = min(stage.wanted, self.state.slots.gpu_tasks_in(cpu_slots, gpus))
            else:
                count = min(stage.wanted, math.floor(cpu_slots))
            for _ in range(count):
                self._start(stage)

    def _start(self, stage: _Stage) -> None:
        found = self.state.slices[stage.index]
        if found.phase == "shifted":
            self.state = cpu_only_started(self.state, stage.index)
            found = self.state.slices[stage.index]
        assert found.phase == _PHASE_OF[stage.part]
        costs, before = found.costs, self.state.before
        seconds = {
            "cpu": costs.cpu_s + before.write_s,
            "gpu": before.reading_task_s + costs.gpu_s,
            "cpu_only": costs.cpu_s
            + (self.unmeasured_s if costs.cpu_only_s is None else costs.cpu_only_s),
        }
        end_s = self.now_s + seconds[stage.part] * self.slowness[stage.index]
        stage.left -= 1
        stage.running += 1
        self._running.append((end_s, stage.index, stage))
        self.runs.append(Run(index=stage.index, part=stage.part, start_s=self.now_s, end_s=end_s))
