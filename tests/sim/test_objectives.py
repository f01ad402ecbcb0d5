"""Objectives of dagopt: each is the best at what it names, on workloads drawn at random."""

from __future__ import annotations

import numpy as np
import pytest

from dagopt.sim.cluster.outcome import Outcome, outcome_of
from dagopt.sim.cluster.policies import POLICIES
from dagopt.sim.cluster.simulate import ClusterSpec, simulate
from tests.cluster_cases import application, job

APPS = {
    "net": application(),
    "big": application("big", epochs=8),
    "long": application("long", epochs=40),
}
SPEC = ClusterSpec(hosts=(4, 4), restart_s=30.0, interval_s=60.0)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_jct_has_the_shorter_mean_and_throughput_the_earlier_end(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs = [
        job(f"j{at:02}", arrival_s=float(rng.uniform(0, 360)), name=str(rng.choice(list(APPS))))
        for at in range(12)
    ]

    def outcome(name: str) -> Outcome:
        return outcome_of(simulate(jobs, APPS, POLICIES[name], SPEC), jobs, APPS, SPEC)

    jct, throughput = outcome("dagopt"), outcome("dagopt-throughput")
    assert jct.avg_jct_s < throughput.avg_jct_s
    assert throughput.makespan_s < jct.makespan_s
