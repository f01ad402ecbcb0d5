"""The live brain of equivalence stages: the form of each GPU stage, from what earlier ones took.

``step(event, now_s)`` is the only way in. Where nothing is known of a stage yet, its first slice
runs alone, and the rest is decided with what that took. What is known of a stage is forgotten once,
and so measured again, if its tasks in the fused form contradict it.

Operators behind the GPU operator in its stage run under its profile as well. Where their time is
not known a shuffle in front of them is inserted if its own time is small; in front of a union
always, since else all of its tasks take the profile.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from dagopt.controller.gpu_costs import GpuCosts
from dagopt.controller.gpu_use import GpuTotals, GpuUse, use_of
from dagopt.controller.slices import ShiftDecision, slots_of, steps_of, task_so_far_s
from dagopt.cost.inserted_shuffle import ShuffleRates, shuffle_cost
from dagopt.cost.slice_schedule import slice_sizes
from dagopt.model.decision import FormDecision
from dagopt.model.pipeline import GpuPipeline, PartitionCosts, Slots
from dagopt.model.wire import FromPlanner
from dagopt.model.wire_gpu import (
    CpuOnlyDone,
    Form,
    GpuStage,
    RestDone,
    SliceDone,
    Slices,
    Steps,
    TaskSums,
)
from dagopt.policy.boundary.choose_form import BoundaryDecision, BoundarySettings, choose_form
from dagopt.units import format_s

MAX_DECISIONS = 1000
"""Decisions kept for reports; older ones are in the decision log only."""

MAX_ASKED = 4096
"""Questions whose slices may still be told of; the oldest goes first."""

AFTER_FRACTION = 0.02
"""Share of the predicted time that a shuffle behind the GPU part may take, where CPU operators
follow whose time is not known."""

_WARM_FRACTION = 0.5
"""Of the measured time of a CPU part whose tasks all started a Python worker, what may be left of
it once workers are there. If the choice against the fused form hangs on it, one more slice is
measured."""

FIRST_SLICE = "the first slice"
"""What the JVM names among the operators that follow the rest of a stage that was probed."""


@dataclass(slots=True, kw_only=True)
class _Asked:
    name: str
    signature: str
    above: list[str]
    num_partitions: int

    known: PartitionCosts | None
    """What was known of it."""


@dataclass(slots=True)
class BoundaryController:
    """Decides how GPU stages run.

    All state is changed by :meth:`step` alone; reading it from outside is for reports and tests.
    """

    settings: BoundarySettings = field(default_factory=BoundarySettings)
    rates: ShuffleRates = field(default_factory=ShuffleRates)
    decisions: deque[FormDecision] = field(default_factory=lambda: deque(maxlen=MAX_DECISIONS))
    num_decisions: int = 0
    """All of them, those no longer kept included."""
    uses: deque[GpuUse] = field(default_factory=lambda: deque(maxlen=MAX_DECISIONS))
    """What the stages took, in the order in which they ended."""
    num_uses: int = 0
    """All of them, likewise."""
    used: GpuTotals = field(default_factory=GpuTotals)
    """What all of them did together."""
    shifts: deque[ShiftDecision] = field(default_factory=lambda: deque(maxlen=MAX_DECISIONS))
    """Slices that changed their form while their stage ran."""
    num_shifts: int = 0
    """All of them, likewise."""
    costs: GpuCosts = field(default_factory=GpuCosts)
    _asked: OrderedDict[int, _Asked] = field(default_factory=OrderedDict)

    def step(
        self, event: GpuStage | SliceDone | RestDone | CpuOnlyDone | Slices, now_s: float
    ) -> list[FromPlanner]:
        """Take in one event and answer it.

        Raises:
            InputError: the event contradicts itself; nothing has changed then.
        """
        if isinstance(event, SliceDone):
            self._slice_done(event, now_s)
            return []
        if isinstance(event, Slices):
            return [self._steps(event, now_s)]
        if isinstance(event, (RestDone, CpuOnlyDone)):
            asked = self._asked.get(event.id)
            if asked is None:
                return []
            if isinstance(event, CpuOnlyDone):
                self.costs.saw_cpu_only(asked.signature, event.cpu_only)
            elif asked.above:
                self.costs.saw_rest(asked.signature, event.rest)
            return []
        return [self._gpu_stage(event, now_s)]

    def _gpu_stage(self, event: GpuStage, now_s: float) -> Form:
        if event.limited:
            return self._fused(event, now_s, "a limit needs only some of the rows")
        slots = slots_of(event)
        if slots is None:
            room = f"{event.cores:g} CPU slots and {event.gpus} GPUs"
            return self._fused(event, now_s, f"executors have {room} for it")
        above = [operator for operator in event.above if operator != FIRST_SLICE]
        costs = self.costs.find(event.signature)
        if costs is not None and not above:
            costs = replace(costs, rest_s=0.0)
        if not event.preview:
            self._asked[event.id] = _Asked(
                name=event.name,
                signature=event.signature,
                above=above,
                num_partitions=event.num_partitions,
                known=costs,
            )
            while len(self._asked) > MAX_ASKED:
                self._asked.popitem(last=False)
        pipeline = GpuPipeline(
            num_partitions=event.num_partitions,
            costs=costs,
            sliceable=event.sliceable,
            has_cpu_form=event.has_cpu_form,
        )
        settings = self.settings
        if event.must_split:
            settings = replace(settings, boundary="always")
        elif event.boundary is not None:
            settings = replace(settings, boundary=event.boundary)
        decision = self._chosen(event, pipeline, slots, settings)
        decision = self._without_leak(decision, event, pipeline, slots, settings)
        forgotten = self.costs.why_forgotten(event.signature)
        if costs is None and forgotten is not None:
            decision = replace(decision, reason=f"{forgotten}; {decision.reason}")
        if event.must_split:
            decision = replace(
                decision, reason=f"another profile stands in front; {decision.reason}"
            )
        return self._answer(event, now_s, decision, pipeline.costs)

    def _steps(self, event: Slices, now_s: float) -> Steps:
        asked = self._asked.get(event.id)
        costs = self.costs.find(asked.signature) if asked is not None else None
        if asked is None or costs is None:
            return Steps(id=event.id, end=True)
        answer, actions = steps_of(event, costs, self.rates)
        for action in actions:
            if action.kind == "take_back" and event.running_ms[action.index]:
                self.costs.saw_slow(asked.signature, task_so_far_s(event, action.index))
            if action.kind in ("shift", "take_back"):
                self.num_shifts += 1
                self.shifts.append(
                    ShiftDecision(
                        time_s=now_s,
                        id=event.id,
                        name=asked.name,
                        action=action.kind,
                        slice=action.index,
                        num_partitions=event.sizes[action.index],
                        reason=action.reason,
                    )
                )
        return answer

    def _answer(
        self,
        event: GpuStage,
        now_s: float,
        decision: BoundaryDecision,
        costs: PartitionCosts | None,
    ) -> Form:
        form = _form(event, decision)
        made = _decision(event, now_s, decision, form, costs)
        if event.preview:
            return msgspec.structs.replace(form, body=_shown(event, made, form, costs))
        self.num_decisions += 1
        self.decisions.append(made)
        return form

    def _chosen(
        self, event: GpuStage, pipeline: GpuPipeline, slots: Slots, settings: BoundarySettings
    ) -> BoundaryDecision:
        """The form, or another slice to measure where the first was too cold to tell."""
        decision = choose_form(pipeline, slots, self.rates, settings)
        costs = pipeline.costs
        is_first = event.above.count(FIRST_SLICE) == 1
        if costs is None or not is_first or not self.costs.is_cold(event.signature):
            return decision
        warm = replace(pipeline, costs=replace(costs, cpu_s=costs.cpu_s * _WARM_FRACTION))
        when_warm = choose_form(warm, slots, self.rates, settings)
        if (when_warm.form == "fused") == (decision.form == "fused"):
            return decision
        again = choose_form(replace(pipeline, costs=None), slots, self.rates, settings)
        if again.form != "probe":
            return decision
        why = f"the first slice loaded what workers need; {again.num_probe_partitions} partitions more"
        return replace(again, reason=f"{why} are measured; {decision.reason}")

    def _fused(self, event: GpuStage, now_s: float, reason: str) -> Form:
        return self._answer(event, now_s, BoundaryDecision(form="fused", reason=reason), None)

    def _without_leak(
        self,
        decision: BoundaryDecision,
        event: GpuStage,
        pipeline: GpuPipeline,
        slots: Slots,
        settings: BoundarySettings,
    ) -> BoundaryDecision:
        """With a shuffle behind the GPU part, so that what follows does not run under its profile."""
        if decision.boundary_after or not event.above or settings.boundary == "never":
            return decision
        operators = ", ".join(event.above)
        if "Union" in event.above:
            why = "shuffle after, since a union must not run under the profile"
            return replace(
                decision, form="split", boundary_after=True, reason=f"{decision.reason}; {why}"
            )
        if decision.form != "split":
            return decision
        if settings.boundary == "always" or FIRST_SLICE in event.above:
            why = f"shuffle after, for {operators}"
            return replace(decision, boundary_after=True, reason=f"{decision.reason}; {why}")
        if pipeline.costs is None or pipeline.costs.rest_s or decision.predicted_s is None:
            return decision
        after = shuffle_cost(
            "after", pipeline.num_partitions, pipeline.costs.output_bytes, slots, self.rates
        )
        limit_s = decision.predicted_s * AFTER_FRACTION
        is_cheap = after.total_s <= limit_s
        verdict = f"at most {format_s(limit_s)}" if is_cheap else f"more than {format_s(limit_s)}"
        why = f"shuffle after, for {operators}: {format_s(after.total_s)}, {verdict}"
        return replace(decision, boundary_after=is_cheap, reason=f"{decision.reason}; {why}")

    def _slice_done(self, event: SliceDone, now_s: float) -> None:
        gpu = event.gpu
        if gpu.num_tasks < 1:
            return
        asked = self._asked.get(event.id)
        if not event.partial:
            self.num_uses += 1
            use = use_of(event, now_s, asked.name if asked is not None else "")
            self.uses.append(use)
            self.used.add(use)
        is_apart = event.boundary_before
        if asked is not None and not is_apart and not event.boundary_after:
            self._fused_done(asked, gpu)
        if asked is None or not is_apart or event.cpu.num_tasks < 1:
            return
        if asked.above and not event.boundary_after:
            return  # what follows ran in the same tasks
        self.costs.saw_slice(asked.signature, event)
        launch_s = max(0, gpu.held_ms - gpu.run_ms) / 1000 / gpu.num_tasks
        predicted_s = self.rates.launch_s * self.rates.learned.get("launch", 1.0)
        self.rates = self.rates.observed("launch", predicted_s, launch_s)
        self.rates = self.rates.observed_locality(gpu.local_bytes_read, gpu.bytes_read)

    def _fused_done(self, asked: _Asked, tasks: TaskSums) -> None:
        """Hold what is known against a stage in Spark's own form, if its tasks were all there."""
        known = asked.known
        # Some of them ran for an action that takes a few rows, more of them in a union with others.
        if known is not None and tasks.num_tasks == asked.num_partitions:
            self.costs.saw_fused(
                asked.signature,
                tasks,
                told_s=known.cpu_s + known.gpu_s + known.rest_s,
                all_told=known.rest_s > 0 or not asked.above,
            )


def _decision(
    event: GpuStage,
    now_s: float,
    decision: BoundaryDecision,
    form: Form,
    costs: PartitionCosts | None,
) -> FormDecision:
    fused = next((one for one in decision.considered if one.form == "fused"), None)
    return FormDecision(
        time_s=now_s,
        id=event.id,
        name=event.name,
        signature=event.signature,
        form=decision.form,
        num_partitions=event.num_partitions,
        slices=tuple(form.slices),
        boundary_before=form.boundary_before,
        boundary_after=form.boundary_after,
        cpu_s=costs.cpu_s if costs is not None else None,
        gpu_s=costs.gpu_s if costs is not None else None,
        stock_s=fused.elapsed_s if fused is not None else None,
        predicted_s=decision.predicted_s,
        reason=decision.reason,
    )


def _shown(
    event: GpuStage, made: FormDecision, form: Form, costs: PartitionCosts | None
) -> dict[str, Any]:
    """What ``dagopt.explain`` tells of a stage: its decision, and what is around it."""
    bytes_across = None
    if costs is not None:
        before = costs.input_bytes if made.boundary_before else 0.0
        after = costs.output_bytes if made.boundary_after else 0.0
        bytes_across = round((before + after) * event.num_partitions)
    return {
        **made.to_dict(),
        "above": event.above,
        "ask_again": form.ask_again,
        "bytes_across": bytes_across,
    }


def _form(event: GpuStage, decision: BoundaryDecision) -> Form:
    count = event.num_partitions
    slices = [count] if count else []
    if decision.form == "probe":
        slices = [decision.num_probe_partitions, count - decision.num_probe_partitions]
    elif decision.form in ("sliced", "shifting"):
        slices = list(slice_sizes(count, decision.num_slices))
    return Form(
        id=event.id,
        slices=slices,
        boundary_before=decision.boundary_before,
        boundary_after=decision.boundary_after,
        ask_again=decision.form == "probe",
        measure_tasks=decision.num_measured,
        stepwise=decision.form == "shifting",
        max_cpu_tasks=decision.max_cpu_tasks,
        reason=decision.reason,
    )
