"""What recorded shuffles say of the disks and links of their hosts."""

from __future__ import annotations

import pytest

from dagopt.app.shuffle_rates import recorded_shuffle_rates, rereading
from dagopt.cost.bandwidth import CACHED_BYTES_PER_S, DISK_BYTES_PER_S
from dagopt.cost.inserted_shuffle import ShuffleRates
from dagopt.events.fold import fold
from dagopt.events.spark_events import decode_line
from dagopt.events.trace import StageTrace
from tests.unit.app.waiting_log import MB
from tests.unit.events.event_lines import metrics, stage_completed, task_end


def writers(num_bytes: int, *, hosts: tuple[str, ...]) -> tuple[StageTrace, ...]:
    """A stage with a task on each host, all at once, that write for 2 s."""
    written = {"Shuffle Bytes Written": num_bytes, "Shuffle Write Time": 2_000_000_000}
    lines = [
        task_end(index, Host=host, task_metrics=metrics(Shuffle_Write_Metrics=written))
        for index, host in enumerate(hosts)
    ]
    events = (decode_line(text) for text in [*lines, stage_completed(num_tasks=len(hosts))])
    return fold(event for event in events if event is not None).stages


def test_writers_of_a_host_share_its_disk() -> None:
    together = recorded_shuffle_rates(writers(100 * MB, hosts=("a", "a")), None)
    assert together.disk_bytes_per_s == pytest.approx(100 * MB)
    apart = recorded_shuffle_rates(writers(100 * MB, hosts=("a", "b")), 7.0)
    assert apart.disk_bytes_per_s == pytest.approx(50 * MB)
    assert apart.network_bytes_per_s == 7.0


def test_little_that_was_written_shows_no_rate() -> None:
    assert recorded_shuffle_rates(writers(20 * MB, hosts=("a", "b")), None) == ShuffleRates()
    assert recorded_shuffle_rates((), None) == ShuffleRates()


def test_what_was_just_written_is_read_from_memory_where_it_fits() -> None:
    assert rereading(ShuffleRates(), 1 << 30).reread_bytes_per_s == CACHED_BYTES_PER_S
    assert rereading(ShuffleRates(), 5 << 30).reread_bytes_per_s is None
    fast = ShuffleRates(disk_bytes_per_s=4.0 * CACHED_BYTES_PER_S)
    assert rereading(fast, 1 << 30).reread_bytes_per_s is None
    assert ShuffleRates().disk_bytes_per_s == DISK_BYTES_PER_S
