"""Events for scripts, with everything that a test does not care about filled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dagopt.controller.application import ApplicationController
from dagopt.controller.boundary import BoundaryController
from dagopt.controller.grouping import ControllerSettings, GroupingController
from dagopt.cost.bandwidth import Bandwidths
from dagopt.model.network import Networks
from dagopt.model.wire import (
    ExecutorAdded,
    ExecutorRemoved,
    Fetch,
    ShuffleType,
    SparseInputs,
    TaskEnded,
    TaskSetEnded,
    TaskSetSubmitted,
    TaskStarted,
)
from dagopt.policy.grouping.decide import GroupingSettings

BANDWIDTHS = Bandwidths(
    network_bytes_per_s=100.0,
    disk_bytes_per_s=1e9,
    latency_s=0.0,
    learned={("default", source): 100.0 for source in ("default", "r1", "r2")},
)
"""A byte count is then a percentage of a second on the network, which groups have shown."""


def controller(
    *,
    grouping: GroupingSettings | None = None,
    networks: Networks | None = None,
    bandwidths: Bandwidths = BANDWIDTHS,
) -> GroupingController:
    """A controller that has seen no stage."""
    return GroupingController(
        ControllerSettings(
            bandwidths=bandwidths,
            grouping=grouping or GroupingSettings(),
            networks=networks or Networks(),
        )
    )


def application() -> ApplicationController:
    """All controllers of an application of which nothing has been seen."""
    return ApplicationController(grouping=controller(), boundary=BoundaryController())


def added(executor: str, host: str | None = None, cores: float = 2) -> ExecutorAdded:
    """An executor; it has a host of its own unless one is named."""
    return ExecutorAdded(time_ms=0, executor=executor, host=host or f"h{executor}", cores=cores)


def removed(executor: str) -> ExecutorRemoved:
    """An executor is gone."""
    return ExecutorRemoved(time_ms=0, executor=executor)


def submitted(
    rows: Sequence[Mapping[str, int]],
    *,
    stage: int = 1,
    attempt: int = 0,
    hold: bool = True,
    can_raise: bool = True,
    shuffle_type: ShuffleType = "wide",
    name: str = "count at job.py:1",
    preferred: bool = False,
) -> TaskSetSubmitted:
    """A task set with the bytes of every task by source host."""
    hosts = sorted({host for row in rows for host in row})
    offsets, index, sizes = [0], [], []
    for row in rows:
        index += [hosts.index(host) for host in row]
        sizes += list(row.values())
        offsets.append(len(index))
    return TaskSetSubmitted(
        time_ms=0,
        stage=stage,
        attempt=attempt,
        num_tasks=len(rows),
        name=name,
        scopes=["Exchange"],
        inputs=SparseInputs(offsets=offsets, hosts=index, bytes=sizes),
        hosts=hosts,
        shuffle_types=[shuffle_type],
        hold=hold,
        can_raise=can_raise,
        preferred=preferred,
    )


def started(
    task: int, executor: str, *, stage: int = 1, attempt: int = 0, speculative: bool = False
) -> TaskStarted:
    """A task was launched."""
    return TaskStarted(
        time_ms=0,
        stage=stage,
        attempt=attempt,
        task=task,
        executor=executor,
        speculative=speculative,
    )


def fetched(
    task: int,
    executor: str,
    read_bytes: int = 0,
    *,
    done: bool = True,
    still_ms: int = 0,
    stage: int = 1,
    attempt: int = 0,
) -> Fetch:
    """How far one task is with its reading."""
    return Fetch(
        time_ms=0, executor=executor, tasks=[(stage, attempt, task, read_bytes, done, still_ms)]
    )


def ended(
    task: int,
    executor: str,
    *,
    from_s: float = 0.0,
    to_s: float = 1.0,
    wait_s: float = 0.0,
    ok: bool = True,
    stage: int = 1,
    attempt: int = 0,
    speculative: bool = False,
    spilled_bytes: int = 0,
) -> TaskEnded:
    """A task ended."""
    return TaskEnded(
        time_ms=0,
        stage=stage,
        attempt=attempt,
        task=task,
        executor=executor,
        ok=ok,
        speculative=speculative,
        launch_ms=round(from_s * 1000),
        finish_ms=round(to_s * 1000),
        fetch_wait_ms=round(wait_s * 1000),
        spilled_bytes=spilled_bytes,
    )


def set_ended(stage: int = 1, attempt: int = 0) -> TaskSetEnded:
    """A task set is over."""
    return TaskSetEnded(time_ms=0, stage=stage, attempt=attempt, ok=True)
