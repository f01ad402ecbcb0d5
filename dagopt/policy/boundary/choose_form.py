"""Which form of a GPU pipeline's stage runs.

Spark's fused stage is the default: another form must be predicted to gain a share of its time, and
among forms that come out alike the one with the fewest stages is taken. Where the costs are not
known, a first slice is run in split form to measure them, and the same choice is made for the rest;
a pipeline too small for that is left as it is.

Source: US patent text of the family "cluster GPU sharing by DAG generation", claim 1 (equivalence
stages created on the basis of the cost of each inserted shuffle stage). The forms other than the
fused one, the thresholds and the probe are ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from dagopt.cost.inserted_shuffle import ShuffleCost, ShuffleRates, shuffle_cost
from dagopt.cost.pipeline_makespan import (
    Form,
    FormTime,
    fused_time,
    shifting_time,
    sliced_time,
    split_time,
)
from dagopt.errors import InputError
from dagopt.model.pipeline import GpuPipeline, PartitionCosts, Slots
from dagopt.units import format_bytes, format_s

Boundary: TypeAlias = Literal["auto", "always", "never"]

MAX_PROBE_FRACTION = 0.25
"""Largest share of the partitions that is run only to measure."""

_ORDER: tuple[Form, ...] = ("fused", "split", "sliced", "shifting")
"""In which forms that lost are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundarySettings:
    """What the user may set, and the thresholds that they need not know."""

    boundary: Boundary = "auto"
    """``always`` leaves out every form in which a task holds a GPU while CPU operators run,
    ``never`` all but Spark's own."""

    min_gain_fraction: float = 0.05
    """Predicted gain on the fused stage below which it is kept, 0 to 1."""

    alike_fraction: float = 0.03
    """Forms within this share of the fastest count as equally fast, >= 0."""

    max_slices: int = 16
    """Each slice is two stages more for the driver to plan, so not more of them than this."""

    max_shifting_slices: int = 32
    """... where slices are the unit of shifting, and start one after the other."""

    def __post_init__(self) -> None:
        if self.boundary not in ("auto", "always", "never"):
            raise InputError(f"boundary is '{self.boundary}': allowed is auto, always, never")
        if not 0 <= self.min_gain_fraction < 1 or not self.alike_fraction >= 0:
            raise InputError(
                f"min_gain_fraction {self.min_gain_fraction} must be >= 0 and < 1,"
                f" alike_fraction {self.alike_fraction} must be >= 0"
            )
        if self.max_slices < 1:
            raise InputError(f"max_slices is {self.max_slices}, must be >= 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryDecision:
    """The form of one stage, and why."""

    form: Form | Literal["probe"]

    reason: str
    """With the numbers of the forms that lost, of each the fastest."""

    num_slices: int = 1
    """Above 1 in the forms ``sliced`` and ``shifting`` only."""

    max_cpu_tasks: int = 0
    """In these forms, CPU tasks that may run before one of a later slice than the first
    starts, so that GPU tasks find a CPU slot; 0 for any number."""

    num_probe_partitions: int = 0
    """In the form ``probe``, how many partitions run first, in split form between two inserted
    shuffles; then ask again for what is left. Else 0."""

    num_measured: int = 0
    """... as soon as so many GPU tasks have ended, which tell the costs. Else 0."""

    boundary_before: bool = False
    """Whether an inserted shuffle stands before the GPU part."""

    boundary_after: bool = False
    """Whether one stands after it."""

    predicted_s: float | None = None
    """Predicted seconds in this form; None where the costs are not known."""

    considered: tuple[FormTime, ...] = ()
    """Every form whose time was predicted, the chosen one too, from the fewest stages to the most."""

    before: ShuffleCost | None = None
    """Cost of a shuffle before the GPU part, whether it is inserted or not; None if not known."""

    after: ShuffleCost | None = None
    """Cost of one after it, likewise."""


def choose_form(
    pipeline: GpuPipeline,
    slots: Slots,
    rates: ShuffleRates,
    settings: BoundarySettings,
) -> BoundaryDecision:
    """The form for a pipeline, or for what a probe left of it.

    Args:
        pipeline: the stage, with its costs where they are known.
        slots: what it runs on.
        rates: of inserted shuffles, as known now.
        settings: the user's.
    """
    count = pipeline.num_partitions
    if count == 0:
        return BoundaryDecision(form="fused", reason="no partitions")
    if pipeline.costs is None and not pipeline.sliceable:
        return _unmeasured_whole(count, slots, settings)
    if pipeline.costs is None:
        return _unmeasured(count, slots, settings)
    costs = pipeline.costs
    before = shuffle_cost("before", count, costs.input_bytes, slots, rates)
    after = shuffle_cost("after", count, costs.output_bytes, slots, rates)
    if not pipeline.sliceable:
        settings = replace(settings, max_slices=1)
    considered = _considered(pipeline, costs, slots, before, after, settings)
    chosen = _chosen(considered, costs, settings)
    if pipeline.has_cpu_form and costs.cpu_only_s is None:
        chosen = _measuring(chosen, considered, settings)
    return BoundaryDecision(
        form=chosen.form,
        reason="; ".join(
            [
                *_verdict(chosen, considered, settings),
                _work(count, costs, slots),
                f"shuffle before of {format_bytes(costs.input_bytes)} each {before}",
                f"shuffle after of {format_bytes(costs.output_bytes)} each {after}",
                *_cpu_form(pipeline, considered, settings),
            ]
        ),
        num_slices=chosen.num_slices,
        max_cpu_tasks=chosen.max_cpu_tasks,
        boundary_before=chosen.boundary_before,
        boundary_after=chosen.boundary_after,
        predicted_s=chosen.elapsed_s,
        considered=considered,
        before=before,
        after=after,
    )


def slice_counts(num_partitions: int, slots: Slots, max_slices: int) -> list[int]:
    """Numbers of slices worth a prediction, rising, each at least 2.

    Powers of two, and the numbers at which a slice fills the GPUs or the CPU slots once. A slice
    never has fewer partitions than GPU tasks run at once: a narrower one would leave GPUs idle.
    """
    most = min(max_slices, num_partitions // slots.gpu_tasks)
    filling = {most, num_partitions // slots.gpu_tasks, -(-num_partitions // slots.cores)}
    filling.add(-(-num_partitions // slots.cores_beside_gpus))
    powers = {2**power for power in range(1, max(most, 1).bit_length())}
    return sorted(count for count in filling | powers if 2 <= count <= most)


def _considered(
    pipeline: GpuPipeline,
    costs: PartitionCosts,
    slots: Slots,
    before: ShuffleCost,
    after: ShuffleCost,
    settings: BoundarySettings,
) -> tuple[FormTime, ...]:
    count = pipeline.num_partitions
    forms = [fused_time(count, costs, slots)]
    if settings.boundary == "never":
        return tuple(forms)
    if costs.cpu_s > 0:
        forms.append(split_time(count, costs, slots, before=before))
    if costs.rest_s > 0:
        forms.append(split_time(count, costs, slots, after=after))
    if costs.cpu_s > 0 and costs.rest_s > 0:
        forms.append(split_time(count, costs, slots, before=before, after=after))
    if costs.cpu_s > 0:
        beside = slots.cores_beside_gpus
        # A limit that no more CPU tasks than that reach changes nothing.
        limits = (0, beside) if beside < min(slots.cores, count) else (0,)
        forms.extend(
            sliced_time(
                count, costs, slots, before, after, num_slices=num_slices, max_cpu_tasks=limit
            )
            for num_slices in slice_counts(count, slots, settings.max_slices)
            for limit in limits
        )
    num_slices = min(settings.max_shifting_slices, count // slots.gpu_tasks)
    if pipeline.has_cpu_form and pipeline.sliceable and num_slices > 1:
        shifting = shifting_time(count, costs, slots, before, after, num_slices=num_slices)
        forms.extend([shifting] if shifting is not None else [])
    return tuple(forms)


def _chosen(
    considered: tuple[FormTime, ...], costs: PartitionCosts, settings: BoundarySettings
) -> FormTime:
    """The form with the fewest stages among the fastest, where those gain enough."""
    fused, others = considered[0], list(considered[1:])
    if settings.boundary == "always":
        others = [found for found in others if _is_clean(found, costs)]
        limit_s = math.inf
    else:
        # Without a gain nothing is changed, even where the user asks for none.
        limit_s = min(
            fused.elapsed_s * (1 - settings.min_gain_fraction),
            math.nextafter(fused.elapsed_s, -math.inf),
        )
    others = [found for found in others if found.elapsed_s <= limit_s]
    if not others:
        return fused
    alike_s = min(found.elapsed_s for found in others) * (1 + settings.alike_fraction)
    return next(found for found in others if found.elapsed_s <= alike_s)


def _measuring(
    chosen: FormTime, considered: tuple[FormTime, ...], settings: BoundarySettings
) -> FormTime:
    """The form that shows what the CPU form costs, where GPUs will be waited for and it costs little."""
    limit_s = chosen.elapsed_s * (1 + settings.min_gain_fraction)
    return next(
        (one for one in considered if one.form == "shifting" and one.elapsed_s <= limit_s), chosen
    )


def _is_clean(found: FormTime, costs: PartitionCosts) -> bool:
    """Whether its GPU tasks run no CPU operator, and there are GPU tasks."""
    front, behind = costs.cpu_s == 0, costs.rest_s == 0
    return (
        found.form in ("split", "sliced", "shifting")
        and (front or found.boundary_before)
        and (behind or found.boundary_after)
    )


def _unmeasured(count: int, slots: Slots, settings: BoundarySettings) -> BoundaryDecision:
    """A probe where one pays; its slice fills all slots once, if that is not too much of all."""
    if settings.boundary == "never":
        return BoundaryDecision(form="fused", reason="boundary is never; costs are not known")
    most = int(count * MAX_PROBE_FRACTION)
    if most >= slots.gpu_tasks:
        size = min(most, max(slots.gpu_tasks, slots.cores))
        why = f"costs are not known: {size} of {count} partitions run split to measure them"
        return BoundaryDecision(
            form="probe",
            reason=why,
            num_probe_partitions=size,
            # The second ones of the workers that the first ones started, where there are as many.
            num_measured=min(size, 2 * slots.gpu_tasks),
            boundary_before=True,
            boundary_after=True,
        )
    few = (
        f"costs are not known, and {MAX_PROBE_FRACTION:.0%} of {count} partitions"
        f" do not fill {slots.gpu_tasks} GPUs to measure them"
    )
    if settings.boundary == "always":
        return BoundaryDecision(
            form="split", reason=f"boundary is always; {few}", boundary_before=True
        )
    return BoundaryDecision(form="fused", reason=few)


def _unmeasured_whole(count: int, slots: Slots, settings: BoundarySettings) -> BoundaryDecision:
    """Split where that can gain at all: it is the form that shows the costs, and there is no probe."""
    if settings.boundary == "never":
        return BoundaryDecision(form="fused", reason="boundary is never; costs are not known")
    if settings.boundary == "auto" and count <= slots.gpu_tasks:
        few = f"costs are not known, and {count} partitions run on {slots.gpu_tasks} GPUs at once"
        return BoundaryDecision(form="fused", reason=few)
    why = "costs are not known: it runs split, which measures them"
    return BoundaryDecision(form="split", reason=why, boundary_before=True)


def _verdict(
    chosen: FormTime, considered: tuple[FormTime, ...], settings: BoundarySettings
) -> list[str]:
    """Why the form won, with the numbers of those that lost."""
    if settings.boundary != "auto":
        why = [f"boundary is {settings.boundary}"]
    elif chosen.form == "fused":
        why = [f"less than {settings.min_gain_fraction:.0%} to gain"]
    else:
        why = []
    losers = _losers([found for found in considered if found is not chosen])
    return [*why, f"{chosen} against {losers}" if losers else str(chosen)]


def _losers(losers: list[FormTime]) -> str:
    """The fastest of each form, and how many more of it there are."""
    by_form: dict[str, list[FormTime]] = {}
    for found in sorted(losers, key=lambda found: found.elapsed_s):
        by_form.setdefault(found.form, []).append(found)
    return ", ".join(
        f"{best}{_more(rest)}"
        for best, *rest in (by_form[form] for form in _ORDER if form in by_form)
    )


def _more(rest: list[FormTime]) -> str:
    if not rest:
        return ""
    noun = "slicing" if rest[0].form == "sliced" else "split"
    plural = "s" if len(rest) > 1 else ""
    return f" (and {len(rest)} more {noun}{plural}, from {format_s(rest[0].elapsed_s)})"


def _cpu_form(
    pipeline: GpuPipeline, considered: tuple[FormTime, ...], settings: BoundarySettings
) -> list[str]:
    """Why no slice can go to the CPU form, where there is one."""
    if not pipeline.has_cpu_form or settings.boundary == "never":
        return []
    if any(one.form == "shifting" for one in considered):
        return []
    return ["no CPU slots to lend to the CPU form"]


def _work(count: int, costs: PartitionCosts, slots: Slots) -> str:
    parts = [f"CPU {format_s(costs.cpu_s)}", f"GPU {format_s(costs.gpu_s)}"]
    if costs.rest_s > 0:
        parts.append(f"CPU behind it {format_s(costs.rest_s)}")
    return (
        f"{count} partitions of {' + '.join(parts)}"
        f" on {slots.cores} CPU slots and {slots.gpu_tasks} GPUs"
    )
