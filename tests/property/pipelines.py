"""What hypothesis draws for GPU pipelines and the slots that they run on."""

from __future__ import annotations

from hypothesis import strategies as st

from dagopt.cost.inserted_shuffle import ShuffleRates
from dagopt.model.pipeline import PartitionCosts, Slots
from tests.property.strategies import rates, sizes, times_s

quarters_s = st.integers(0, 24).map(lambda quarters: quarters / 4)
"""Sums of quarters are exact, so that events of one moment are one moment in every computation."""


@st.composite
def slots_(draw: st.DrawFn, *, most: int = 64) -> Slots:
    cores = draw(st.integers(1, most))
    cpus = [cpus for cpus in (0.0, 0.25, 0.5, 1.0, 2.0, 3.0) if cpus <= cores]
    return Slots(
        cores=cores,
        gpus=draw(st.integers(1, 8)),
        cpus_per_gpu_task=draw(st.sampled_from(cpus)),
        num_hosts=draw(st.integers(1, 8)),
    )


partition_costs = st.builds(
    PartitionCosts,
    cpu_s=times_s,
    gpu_s=times_s,
    input_bytes=sizes,
    output_bytes=sizes,
    rest_s=st.just(0.0) | times_s,
    cpu_only_s=st.none() | times_s,
)
shuffle_rates = st.builds(
    ShuffleRates,
    serialise_bytes_per_s=rates,
    disk_bytes_per_s=rates,
    network_bytes_per_s=rates,
    launch_s=st.floats(0, 1),
    stage_s=st.floats(0, 10),
    local_fraction=st.none() | st.floats(0, 1),
    learned=st.dictionaries(st.sampled_from(("write", "read", "launch")), st.floats(0.1, 10)),
)
