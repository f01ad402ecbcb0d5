"""Tiresias: two-dimensional least attained service, discretised into two queues.

A job's service is the number of its accelerators times the seconds that it ran. Below a threshold it is
in the first queue, above it in the second; within a queue jobs run in the order of their arrival. Jobs
are stopped for jobs of a better place. Skipped here: promotion of starved jobs, which its authors switch
off by default, and the index for jobs with a known distribution of lengths.

Source:
    J. Gu et al., "Tiresias: a GPU cluster manager for distributed deep learning", NSDI 2019,
    section 3.3. The threshold, 16 accelerator hours, is that of the comparison in A. Qiao et al.,
    "Pollux", OSDI 2021.
"""

from __future__ import annotations

from collections.abc import Sequence

from dagopt.model.training import ClusterView, JobView, Plan
from dagopt.sim.cluster.policy import run_in_order

THRESHOLD_S = 16 * 3600.0
"""Accelerator seconds after which a job falls into the second queue."""


class Tiresias:
    """Jobs get what their users asked for, or nothing."""

    name = "tiresias"
    tunes_batch = False

    def plan(self, jobs: Sequence[JobView], cluster: ClusterView, now_s: float) -> Plan:  # noqa: ARG002
        """Go through both queues; jobs that run stay where they are."""
        queue = sorted(
            jobs,
            key=lambda view: (
                view.attained_s >= THRESHOLD_S, view.job.arrival_s, view.job.job_id
            ),
        )  # fmt: skip
        return run_in_order(queue, cluster)
