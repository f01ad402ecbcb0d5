"""Shortest remaining time first: the job that would end soonest runs, on what its user asked for.

Source:
    L. Schrage, "A proof of the optimality of the shortest remaining processing time discipline",
    Operations Research 16(3), 1968. Remaining times are taken as known.
"""

from __future__ import annotations

from collections.abc import Sequence

from dagopt.model.training import ClusterView, JobView, Plan
from dagopt.sim.cluster.policy import Oracle, run_in_order


class ShortestRemaining:
    """Preemptive; jobs that fit behind one that does not are taken."""

    name = "shortest"
    tunes_batch = False

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    def plan(self, jobs: Sequence[JobView], cluster: ClusterView, now_s: float) -> Plan:  # noqa: ARG002
        """Give accelerators in the order of remaining seconds."""

        def remaining_s(view: JobView) -> tuple[float, str]:
            job = view.job
            step_s = self._oracle.step_s(job.job_id, job.asked_replicas)
            return self._oracle.remaining_steps(job.job_id) * step_s, job.job_id

        return run_in_order(sorted(jobs, key=remaining_s), cluster)
