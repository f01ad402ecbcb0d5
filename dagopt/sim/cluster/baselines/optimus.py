"""Optimus: accelerators go, one by one, to the job whose remaining time they shorten most.

Its own models of convergence and speed are replaced by an oracle that knows both, as in the comparison
of A. Qiao et al., "Pollux", OSDI 2021. The batch is the user's.

Source:
    Y. Peng et al., "Optimus: an efficient dynamic resource scheduler for deep learning clusters",
    EuroSys 2018, section 4.1.
"""

from __future__ import annotations

from collections.abc import Sequence

from dagopt.model.training import ClusterView, JobView, Plan, free_of, num_held
from dagopt.sim.cluster.policy import Oracle, take_emptiest


class Optimus:
    """Every job gets one accelerator first, in the order of arrival, while there are any."""

    name = "optimus"
    tunes_batch = False

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    def plan(self, jobs: Sequence[JobView], cluster: ClusterView, now_s: float) -> Plan:  # noqa: ARG002
        """Choose numbers by marginal gain; a job whose number stays the same stays where it is."""
        left = cluster.num_accelerators
        numbers: dict[str, int] = {}
        for view in sorted(jobs, key=lambda each: (each.job.arrival_s, each.job.job_id)):
            numbers[view.job.job_id] = min(1, left)
            left -= numbers[view.job.job_id]
        by_id = {view.job.job_id: view for view in jobs}
        gains = {job_id: self._gain_s(by_id[job_id], n) for job_id, n in numbers.items()}
        while left > 0 and gains:
            best = max(gains, key=lambda job_id: gains[job_id])
            if gains[best] <= 0:
                break
            numbers[best] += 1
            left -= 1
            gains[best] = self._gain_s(by_id[best], numbers[best])
        plan = {
            job_id: view.held
            for job_id, view in by_id.items()
            if view.held and num_held(view.held) == numbers[job_id]
        }
        free = free_of(cluster, plan)
        for job_id in sorted(numbers, key=lambda each: (numbers[each], each)):
            if numbers[job_id] > 0 and job_id not in plan:
                plan[job_id] = take_emptiest(free, numbers[job_id])
        return plan

    def _gain_s(self, view: JobView, number: int) -> float:
        """Seconds that one accelerator more takes off the rest of a job; 0 where it can take none."""
        job = view.job
        most = min(job.max_replicas, job.asked_batch // job.batches.min_local)
        if number == 0 or number + 1 > most:
            return 0.0
        now_s, then_s = (self._oracle.step_s(job.job_id, n) for n in (number, number + 1))
        return (now_s - then_s) * self._oracle.remaining_steps(job.job_id)
