from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from dagopt.model.training import BatchLimits, ClusterView, JobView, TrainingJob, check_plan
from jobs.bench_train import EqualSplit, report
from jobs.train_jobs import worst_error


def view(name: str) -> JobView:
    limits = BatchLimits(initial=12, largest=12, min_local=1, max_local=1)
    job = TrainingJob(
        job_id=name,
        arrival_s=0.0,
        application=name,
        batches=limits,
        max_replicas=12,
        asked_replicas=12,
        asked_batch=12,
    )
    return JobView(job=job, held=(), remaining=1.0, coefficients=None)


def test_an_equal_split_stays_whoever_is_there() -> None:
    cluster = ClusterView(capacity=(2, 2, 2), restart_s=1.0, interval_s=10.0)
    policy = EqualSplit(["a", "b", "c"])
    views = [view(name) for name in "abc"]
    whole = policy.plan(views, cluster, 0.0)
    check_plan(whole, views, cluster)
    assert whole == {"a": ((0, 2),), "b": ((1, 2),), "c": ((2, 2),)}
    assert policy.plan(views[1:2], cluster, 5.0) == {"b": ((1, 2),)}


def test_losses_of_another_length_differ_without_end() -> None:
    assert worst_error([1.0, 2.0], [1.0, 2.0]) == 0
    assert worst_error([1.0, 2.2], [1.0, 2.0]) > 0.09
    assert worst_error([1.0], [1.0, 2.0]) == float("inf")


def row(mode: str, elapsed_s: float, **fields: Any) -> dict[str, Any]:
    lost = [] if mode == "equal" else [0.5, 1.5]
    found = {"mode": mode, "elapsed_s": elapsed_s, "moves": len(lost), "lost_s_per_move": lost}
    return {**found, "loss_error": 0.0, **fields}


def test_the_verdict_needs_both_time_and_losses(tmp_path: Path) -> None:
    console = Console(record=True, width=120)
    assert report([row("equal", 100.0), row("dagopt", 79.0)], console, tmp_path) == 0
    assert report([row("equal", 100.0), row("dagopt", 81.0)], console, tmp_path) == 1
    slow = row("dagopt", 70.0, loss_error=2e-4)
    assert report([row("equal", 100.0), slow], console, tmp_path) == 1
    told = console.export_text()
    assert "0.79 x the time" in told
    assert "1.00 (most 1.50)" in told
