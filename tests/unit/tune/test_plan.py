"""What a phase is planned from."""

from __future__ import annotations

from dagopt.model.trial import Candidate, Footprint
from dagopt.tune.plan import evened


def candidate(trial: int, step_s: float, model_type: str = "mlp") -> Candidate:
    return Candidate(
        trial=trial,
        dataset="digits",
        model_type=model_type,
        position=5,
        footprint=Footprint(model_bytes=1, activation_bytes=1, input_bytes=1),
        step_s=step_s,
        read_s=0.0,
        num_iterations=10,
        stackable=True,
    )


def test_noise_between_equal_trials_is_evened_and_other_work_is_not() -> None:
    times_s = [1.0, 1.1, 0.9, 1.0, 5.0]
    found = evened([candidate(at, step_s) for at, step_s in enumerate(times_s)])
    assert [one.step_s for one in found] == [1.0, 1.0, 1.0, 1.0, 5.0]
    assert [one.trial for one in found] == list(range(5))


def test_another_model_keeps_its_own_time() -> None:
    found = evened([candidate(0, 1.0), candidate(1, 1.2, "wide mlp")])
    assert [one.step_s for one in found] == [1.0, 1.2]
