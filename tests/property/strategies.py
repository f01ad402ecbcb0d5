"""What hypothesis draws for the laws of this folder.

Left out on purpose: sizes whose sums leave the whole numbers of a float64 (more than 8 PiB), and times
that no stage takes (above 1e6 s). Numbers that a user or the JVM may get wrong are the business of the
unit tests.
"""

from __future__ import annotations

from bisect import bisect_left

from hypothesis import strategies as st

from dagopt.cost.bandwidth import Bandwidths
from dagopt.model.network import Networks
from dagopt.model.wire import OuterInputs, ShuffleType, SparseInputs, TaskSetSubmitted

HOSTS = ("a", "b", "c", "d", "e")
RACKS = ("r1", "r2", "r3")

sizes = st.integers(0, 2**40)
times_s = st.one_of(st.just(0.0), st.floats(1e-3, 1e3), st.floats(0, 1e6))
rates = st.floats(1e3, 1e10)


@st.composite
def sparse_inputs(draw: st.DrawFn, num_tasks: int, num_hosts: int) -> SparseInputs:
    """Rows of any length; a host may be named several times in one, as by two shuffles."""
    entry = st.tuples(st.integers(0, num_tasks - 1), st.integers(0, num_hosts - 1), sizes)
    entries = draw(st.lists(entry, max_size=12)) if num_hosts else []
    entries.sort(key=lambda found: found[0])
    rows = [task for task, _, _ in entries]
    return SparseInputs(
        offsets=[bisect_left(rows, task) for task in range(num_tasks + 1)],
        hosts=[host for _, host, _ in entries],
        bytes=[size for _, _, size in entries],
    )


@st.composite
def outer_inputs(draw: st.DrawFn, num_tasks: int, num_hosts: int) -> OuterInputs:
    """Margins, zeros among them."""
    return OuterInputs(
        task_bytes=draw(st.lists(sizes, min_size=num_tasks, max_size=num_tasks)),
        host_bytes=draw(st.lists(sizes, min_size=num_hosts, max_size=num_hosts)),
    )


@st.composite
def task_sets(draw: st.DrawFn, *, max_tasks: int = 8, stage: int = 1) -> TaskSetSubmitted:
    """A correct message, of either kind of inputs."""
    num_tasks = draw(st.integers(1, max_tasks))
    hosts = list(HOSTS[: draw(st.integers(0, len(HOSTS)))])
    shuffle: ShuffleType = draw(st.sampled_from(("wide", "narrow", "source")))
    return TaskSetSubmitted(
        time_ms=0,
        stage=stage,
        attempt=0,
        num_tasks=num_tasks,
        name="count at job.py:1",
        scopes=["Exchange"],
        inputs=draw(sparse_inputs(num_tasks, len(hosts)) | outer_inputs(num_tasks, len(hosts))),
        hosts=hosts,
        shuffle_types=[shuffle],
        can_raise=draw(st.booleans()),
        preferred=draw(st.booleans()),
        partial=draw(st.booleans()),
    )


@st.composite
def networks(draw: st.DrawFn) -> Networks:
    """Some hosts in racks by rule, the others in the common network of bare names."""
    ruled = draw(st.lists(st.sampled_from(HOSTS), unique=True))
    return Networks(hosts={host: draw(st.sampled_from(RACKS)) for host in ruled})


@st.composite
def bandwidths(draw: st.DrawFn) -> Bandwidths:
    """Priors, and some pairs of networks learned."""
    pairs = st.tuples(st.sampled_from((*RACKS, "default")), st.sampled_from((*RACKS, "default")))
    return Bandwidths(
        network_bytes_per_s=draw(rates),
        disk_bytes_per_s=draw(rates),
        latency_s=draw(st.sampled_from((0.0, 0.001, 0.5))),
        learned=draw(st.dictionaries(pairs, rates, max_size=4)),
    )
