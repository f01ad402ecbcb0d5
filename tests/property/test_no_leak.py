"""With boundaries everywhere, nothing that follows a GPU operator runs under its profile."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dagopt.controller.boundary import BoundaryController
from dagopt.controller.gpu_costs import GpuCosts
from dagopt.cost.inserted_shuffle import ShuffleRates
from dagopt.model.pipeline import Slots
from dagopt.model.stage_profile import StageProfiles
from dagopt.model.wire_gpu import Form, GpuStage
from dagopt.policy.boundary.choose_form import BoundarySettings
from tests.property.pipelines import shuffle_rates, slots_
from tests.property.test_contradicted_costs import profile, times_ms

profiles = st.none() | st.builds(profile, times_ms, times_ms, st.none() | times_ms)
operators = st.sampled_from(("Aggregate", "Filter", "Join", "Project", "Sort", "Union"))


@given(profiles, st.integers(1, 200), slots_(), shuffle_rates, st.lists(operators, min_size=1))
def test_always_ends_the_stage_behind_the_gpu_operator(
    known: StageProfiles | None, count: int, slots: Slots, rates: ShuffleRates, above: list[str]
) -> None:
    for where in ("setting", "hint"):
        live = BoundaryController(
            settings=BoundarySettings(boundary="always" if where == "setting" else "never"),
            rates=rates,
            costs=GpuCosts(known),
        )
        stage = GpuStage(
            time_ms=0,
            id=1,
            signature="7",
            name="MapInPandas",
            num_partitions=count,
            cores=slots.cores,
            gpus=slots.gpus,
            cpus_per_task=slots.cpus_per_gpu_task,
            num_hosts=slots.num_hosts,
            above=above,
            boundary="always" if where == "hint" else None,
        )
        (form,) = live.step(stage, 0.0)
        assert isinstance(form, Form)
        assert form.boundary_after
        assert form.boundary_before
