"""First in, first out: jobs run in the order of their arrival on what their users asked for."""

from __future__ import annotations

from collections.abc import Sequence

from dagopt.model.training import ClusterView, JobView, Plan, free_of
from dagopt.sim.cluster.policy import take_emptiest


class Fifo:
    """Nothing is stopped, and nobody overtakes: the queue waits for its first job."""

    name = "fifo"
    tunes_batch = False

    def plan(self, jobs: Sequence[JobView], cluster: ClusterView, now_s: float) -> Plan:  # noqa: ARG002
        """Keep what runs, and start the queue's first jobs while they fit."""
        plan = {view.job.job_id: view.held for view in jobs if view.held}
        free = free_of(cluster, plan)
        waiting = (view.job for view in jobs if not view.held)
        for job in sorted(waiting, key=lambda each: (each.arrival_s, each.job_id)):
            if job.asked_replicas > sum(free):
                break
            plan[job.job_id] = take_emptiest(free, job.asked_replicas)
        return plan
