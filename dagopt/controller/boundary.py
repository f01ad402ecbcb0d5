"""The live brain of equivalence stages: the form of each GPU stage, from what earlier ones took.

``step(event, now_s)`` is the only way in. Costs are learned by the number of the stage's physical
plan. A stage in Spark's own form shows nothing of its parts, so only what ran between two inserted
shuffles is learned from; the first slice of a stage not seen before runs so, and the rest is
decided with what it took.

Not modelled: CPU operators behind the GPU operator take no time, since their share of a stage that
holds more than them cannot be seen. A shuffle behind the GPU part, which lets them run under the
default profile, is inserted where its own time is small.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import msgspec

from dagopt.cost.inserted_shuffle import ShuffleRates, shuffle_cost
from dagopt.cost.slice_schedule import slice_sizes
from dagopt.model.decision import FormDecision
from dagopt.model.pipeline import GpuPipeline, PartitionCosts, Slots
from dagopt.model.wire import Form, FromPlanner, GpuStage, SliceDone
from dagopt.policy.boundary.choose_form import BoundaryDecision, BoundarySettings, choose_form
from dagopt.units import format_s

MAX_DECISIONS = 1000
"""Decisions kept for reports; older ones are in the decision log only."""

MAX_SIGNATURES = 4096
"""Stages whose costs are remembered; the least recently seen goes first."""

AFTER_FRACTION = 0.02
"""Share of the predicted time that a shuffle behind the GPU part may take, where CPU operators
follow whose time is not known."""

_NEW_WEIGHT = 0.5

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(slots=True, kw_only=True)
class GpuUse:
    """What one GPU stage, or a slice of it, did with the GPUs."""

    id: int
    """Of the question that it was asked by."""

    slice: int
    num_tasks: int
    gpu_allocated_s: float
    """Seconds that its tasks held their GPUs, summed over the tasks."""

    gpu_busy_s: float | None
    """... of which the GPU operator ran; None where CPU operators ran in the same tasks."""

    cpu_s: float | None
    """Seconds that the tasks in front of it ran, on CPU slots; None without a shuffle there."""

    bytes_across: int
    """Bytes that the inserted shuffles wrote."""


@dataclass(slots=True, kw_only=True)
class _Asked:
    signature: str
    slots: Slots
    above: list[str]


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
    _costs: OrderedDict[str, PartitionCosts] = field(default_factory=OrderedDict)
    _asked: OrderedDict[int, _Asked] = field(default_factory=OrderedDict)

    def step(self, event: GpuStage | SliceDone, now_s: float) -> list[FromPlanner]:
        """Take in one event and answer it.

        Raises:
            InputError: the event contradicts itself; nothing has changed then.
        """
        if isinstance(event, SliceDone):
            self._slice_done(event)
            return []
        return [self._gpu_stage(event, now_s)]

    def costs_of(self, signature: str) -> PartitionCosts | None:
        """What a partition of that stage was seen to cost."""
        return self._costs.get(signature)

    def _gpu_stage(self, event: GpuStage, now_s: float) -> Form:
        if event.limited:
            return self._fused(event, now_s, "a limit needs only some of the rows")
        if event.gpus < 1 or event.cores < max(1, event.cpus_per_task):
            room = f"{event.cores:g} CPU slots and {event.gpus} GPUs"
            return self._fused(event, now_s, f"executors have {room} for it")
        slots = Slots(
            cores=int(event.cores),
            gpus=event.gpus,
            cpus_per_gpu_task=event.cpus_per_task,
            num_hosts=max(1, event.num_hosts),
        )
        if not event.preview:
            asked = _Asked(signature=event.signature, slots=slots, above=event.above)
            _remember(self._asked, event.id, asked)
        pipeline = GpuPipeline(
            num_partitions=event.num_partitions,
            costs=self._costs.get(event.signature),
            sliceable=event.sliceable,
        )
        decision = choose_form(pipeline, slots, self.rates, self.settings)
        decision = self._without_leak(decision, event, pipeline, slots)
        return self._answer(event, now_s, decision, pipeline.costs)

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

    def _fused(self, event: GpuStage, now_s: float, reason: str) -> Form:
        return self._answer(event, now_s, BoundaryDecision(form="fused", reason=reason), None)

    def _without_leak(
        self, decision: BoundaryDecision, event: GpuStage, pipeline: GpuPipeline, slots: Slots
    ) -> BoundaryDecision:
        """With a shuffle behind the GPU part, so that what follows does not run under its profile."""
        if decision.form != "split" or decision.boundary_after or not event.above:
            return decision
        operators = ", ".join(event.above)
        if self.settings.boundary == "always":
            why = f"shuffle after, for {operators}"
            return replace(decision, boundary_after=True, reason=f"{decision.reason}; {why}")
        if pipeline.costs is None or decision.predicted_s is None:
            return decision
        after = shuffle_cost(
            "after", pipeline.num_partitions, pipeline.costs.output_bytes, slots, self.rates
        )
        limit_s = decision.predicted_s * AFTER_FRACTION
        is_cheap = after.total_s <= limit_s
        verdict = f"at most {format_s(limit_s)}" if is_cheap else f"more than {format_s(limit_s)}"
        why = f"shuffle after, for {operators}: {format_s(after.total_s)}, {verdict}"
        return replace(decision, boundary_after=is_cheap, reason=f"{decision.reason}; {why}")

    def _slice_done(self, event: SliceDone) -> None:
        cpu, gpu = event.cpu, event.gpu
        if gpu.num_tasks < 1:
            return
        idle_ms = gpu.start_ms + gpu.read_ms + gpu.write_ms
        busy_s = max(0, gpu.run_ms - idle_ms) / 1000
        self.uses.append(
            GpuUse(
                id=event.id,
                slice=event.slice,
                num_tasks=gpu.num_tasks,
                gpu_allocated_s=gpu.held_ms / 1000,
                gpu_busy_s=busy_s if event.boundary_before else None,
                cpu_s=cpu.run_ms / 1000 if event.boundary_before else None,
                bytes_across=cpu.bytes_written + (gpu.bytes_written if event.boundary_after else 0),
            )
        )
        asked = self._asked.get(event.id)
        if asked is None or not event.boundary_before or cpu.num_tasks < 1:
            return
        if asked.above and not event.boundary_after:
            return  # what follows ran in the same tasks
        old = self._costs.get(asked.signature)
        if event.boundary_after:
            output_bytes = gpu.bytes_written / gpu.num_tasks
        else:
            output_bytes = old.output_bytes if old is not None else 0.0
        new = PartitionCosts(
            # Never 0, which would say that there is no CPU operator in front.
            cpu_s=max(1, cpu.run_ms - cpu.start_ms - cpu.write_ms) / 1000 / cpu.num_tasks,
            gpu_s=busy_s / gpu.num_tasks,
            input_bytes=cpu.bytes_written / cpu.num_tasks,
            output_bytes=output_bytes,
        )
        if old is not None:
            new = PartitionCosts(
                cpu_s=_mean(old.cpu_s, new.cpu_s),
                gpu_s=_mean(old.gpu_s, new.gpu_s),
                input_bytes=_mean(old.input_bytes, new.input_bytes),
                output_bytes=_mean(old.output_bytes, new.output_bytes),
            )
        _remember(self._costs, asked.signature, new)
        launch_s = max(0, gpu.held_ms - gpu.run_ms) / 1000 / gpu.num_tasks
        predicted_s = self.rates.launch_s * self.rates.learned.get("launch", 1.0)
        self.rates = self.rates.observed("launch", predicted_s, launch_s)
        self.rates = self.rates.observed_locality(gpu.local_bytes_read, gpu.bytes_read)


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
    elif decision.form == "sliced":
        slices = list(slice_sizes(count, decision.num_slices))
    return Form(
        id=event.id,
        slices=slices,
        boundary_before=decision.boundary_before,
        boundary_after=decision.boundary_after,
        ask_again=decision.form == "probe",
        reason=decision.reason,
    )


def _remember(known: OrderedDict[_Key, _Value], key: _Key, value: _Value) -> None:
    known[key] = value
    known.move_to_end(key)
    while len(known) > MAX_SIGNATURES:
        known.popitem(last=False)


def _mean(old: float, new: float) -> float:
    return (1 - _NEW_WEIGHT) * old + _NEW_WEIGHT * new
