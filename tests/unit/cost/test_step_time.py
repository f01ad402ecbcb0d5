from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagopt.cost.collective import all_reduce_s, ring_s, tree_s
from dagopt.cost.efficiency import step_gain
from dagopt.cost.fit_steps import StepSample, fit_steps
from dagopt.cost.goodput import best_goodput, job_columns
from dagopt.cost.step_time import StepTime, prior, step_s
from dagopt.errors import InputError
from tests.cluster_cases import LIMITS, SCALES, view

times_s = st.floats(1e-4, 10.0)


@st.composite
def coefficients(draw: st.DrawFn) -> StepTime:
    """Times from 0.1 ms to 10 s."""
    found = [draw(times_s) for _ in range(7)]
    return StepTime(
        compute_s=found[0], example_s=found[1] / 100, local_s=found[2], local_replica_s=found[3] / 100,
        remote_s=found[4], remote_replica_s=found[5] / 100, remote_host_s=found[6] / 100,
        overlap=draw(st.floats(1.0, 10.0)),
    )  # fmt: skip


def slow_step_s(c: StepTime, hosts: int, replicas: int, local: int, accumulated: int) -> float:
    """The model, written out for one placement."""
    computing = c.compute_s + c.example_s * local
    network = 0.0
    if hosts > 1:
        network = c.remote_s + c.remote_replica_s * max(0, replicas - 2)
        network += c.remote_host_s * max(0, hosts - 2)
    elif replicas > 1:
        network = c.local_s + c.local_replica_s * max(0, replicas - 2)
    joined = (computing**c.overlap + network**c.overlap) ** (1 / c.overlap)
    return float(joined + accumulated * computing)


@given(coefficients(), st.integers(1, 4), st.integers(0, 12), st.integers(1, 64), st.integers(0, 3))
def test_step_time_agrees_with_the_model_written_out(
    c: StepTime, hosts: int, more: int, local: int, accumulated: int
) -> None:
    fast = step_s(np.array(c.row()), hosts, hosts + more, local, accumulated)
    assert float(fast) == pytest.approx(slow_step_s(c, hosts, hosts + more, local, accumulated))


def test_negative_coefficients_are_refused() -> None:
    with pytest.raises(InputError, match="example_s is -1, must be >= 0"):
        StepTime(compute_s=1, example_s=-1)
    with pytest.raises(InputError, match=r"overlap is 0.5, must be >= 1"):
        StepTime(compute_s=1, example_s=1, overlap=0.5)


@given(st.floats(1.0, 64.0), st.floats(0.0, 1e6), st.floats(0.0, 1e6))
def test_a_step_is_worth_between_one_and_its_scale(scale: float, sqr: float, var: float) -> None:
    gain = float(step_gain(sqr, var, scale))
    assert 1 - 1e-9 <= gain <= scale * (1 + 1e-9)


def test_noise_makes_large_batches_worth_it() -> None:
    assert step_gain(1.0, 1e9, 8.0) == pytest.approx(8.0)
    assert step_gain(1.0, 0.0, 8.0) == pytest.approx(1.0)
    assert step_gain(0.0, 0.0, 8.0) == 1.0
    assert step_gain(1.0, 2.0, 4.0) == pytest.approx(3 / 1.5)


def square(n: int, value: float) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return np.full((n, n), value)


def test_all_reduce_takes_the_better_algorithm_over_the_slowest_link() -> None:
    bandwidth, latency = square(4, 1e9), square(4, 1e-5)
    assert ring_s(1e9, bandwidth, latency) == pytest.approx(2 * 3 / 4 + 6 * 1e-5)
    assert tree_s(1e9, bandwidth, latency) == pytest.approx(2 + 4 * 1e-5)
    assert all_reduce_s(1e9, bandwidth, latency) == ring_s(1e9, bandwidth, latency)
    many = square(64, 1e9), square(64, 1e-4)
    assert all_reduce_s(1e3, *many) == tree_s(1e3, *many)
    slower = bandwidth.copy()
    slower[0, 3] = slower[3, 0] = 1e8
    assert all_reduce_s(1e9, slower, latency) > 9 * all_reduce_s(1e9, bandwidth, latency)
    assert all_reduce_s(1e9, square(1, np.inf), square(1, 0.0)) == 0.0
    with pytest.raises(InputError, match=r"latency_s must be \(4, 4\), got \(3, 3\)"):
        ring_s(1.0, bandwidth, square(3, 0.0))


def test_the_prior_is_the_ring_at_both_ends_of_its_line() -> None:
    found = prior(
        compute_s=0.1, example_s=0.01, gradient_bytes=1e8, local_bandwidth_bytes_per_s=1e10,
        remote_bandwidth_bytes_per_s=1e9, max_replicas=10,
    )  # fmt: skip
    for n in (2, 10):
        expected = ring_s(1e8, square(n, 1e9), square(n, 0.0))
        network = found.remote_s + found.remote_replica_s * (n - 2)
        assert network == pytest.approx(expected)
    assert found.remote_s == pytest.approx(10 * found.local_s)


def samples(truth: StepTime, places: list[tuple[int, int]]) -> list[StepSample]:
    row = np.array(truth.row())
    return [
        StepSample(
            num_hosts=hosts,
            num_replicas=replicas,
            local_batch=local,
            step_s=float(step_s(row, hosts, replicas, local)),
            sync_s=float(step_s(row, hosts, replicas, local))
            - (truth.compute_s + truth.example_s * local),
        )
        for hosts, replicas in places
        for local in (8, 24, 64)
    ]


def test_what_the_model_can_say_is_learned_from_samples() -> None:
    seen = samples(SCALES, [(1, 1), (1, 2), (1, 4), (2, 2), (2, 6), (4, 8)])
    fitted = np.array(fit_steps(seen).row())
    for sample in samples(SCALES, [(1, 3), (2, 4), (3, 9)]):
        guess = step_s(fitted, sample.num_hosts, sample.num_replicas, sample.local_batch)
        assert float(guess) == pytest.approx(sample.step_s, rel=0.08)


def test_what_was_not_seen_stays_optimistic_or_as_it_was_known() -> None:
    alone = samples(SCALES, [(1, 1)])
    hopeful = fit_steps(alone)
    assert hopeful.local_s < 1e-6
    assert hopeful.remote_s < 1e-6
    known = fit_steps(alone, known=SCALES)
    assert (known.local_s, known.remote_s) == (SCALES.local_s, SCALES.remote_s)
    within = fit_steps(samples(SCALES, [(1, 1), (1, 2), (1, 4)]))
    assert within.remote_s == within.local_s > 1e-4


@pytest.mark.parametrize(
    "wrong", [{"num_hosts": 3}, {"local_batch": 0}, {"sync_s": 2.0}, {"sync_s": -1.0}]
)
def test_impossible_samples_are_refused(wrong: dict[str, float]) -> None:
    right = {"num_hosts": 1, "num_replicas": 2, "local_batch": 8, "step_s": 1.0, "sync_s": 0.5}
    StepSample(**right)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="sample"):
        StepSample(**{**right, **wrong})  # type: ignore[arg-type]


def test_goodput_agrees_with_trying_every_batch() -> None:
    columns = job_columns([view("a")])
    hosts, replicas = np.array([1, 1, 2, 2]), np.array([1, 4, 4, 8])
    found = best_goodput(columns, hosts, replicas, num_batches=200)
    row = np.array(SCALES.row())
    for at, (h, n) in enumerate(zip(hosts, replicas, strict=True)):
        best = 0.0
        for local in range(LIMITS.min_local, LIMITS.max_local + 1):
            for accumulated in range(8):
                whole = n * local * (accumulated + 1)
                least = 1 if n == 1 and whole > LIMITS.initial else 0
                if LIMITS.initial <= whole <= LIMITS.largest and accumulated >= least:
                    seconds = float(step_s(row, h, n, local, accumulated))
                    best = max(best, float(step_gain(1.0, 8.0, whole / LIMITS.initial)) / seconds)
        assert found.per_s[0, at] == pytest.approx(best, rel=0.02)
        whole = n * found.local_batch[0, at] * (found.num_accumulated[0, at] + 1)
        assert LIMITS.initial <= whole <= LIMITS.largest


def test_more_replicas_than_the_largest_batch_allows_are_worth_nothing() -> None:
    found = best_goodput(job_columns([view("a")]), np.array([16]), np.array([64]))
    assert found.per_s[0, 0] == 0.0
