"""PyTorch modules as trainables: stacked steps against unstacked ones. Skipped without torch."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from dagopt.tune.engine import run_group
from dagopt.tune.phase import GroupOutcome, GroupWork, TrialWork
from dagopt.tune.torch_model import TorchModel

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")

RANDOM = np.random.default_rng(0)
BATCHES = [
    {
        "x": RANDOM.normal(size=(8, 5)).astype(np.float32),
        "y": RANDOM.integers(0, 3, 8),
    }
    for _ in range(4)
]


def module(_: Mapping[str, Any]) -> Any:
    return torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))


def loss(output: Any, batch: Mapping[str, Any]) -> Any:
    return torch.nn.functional.cross_entropy(output, batch["y"])


def by_torch(trial: int) -> list[float]:
    """The oracle: torch's own optimizer."""
    torch.manual_seed(trial)
    model = module({})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * (trial + 1), momentum=0.2 * trial)
    losses = []
    for n in range(10):
        batch = {key: torch.from_numpy(value) for key, value in BATCHES[n % 4].items()}
        optimizer.zero_grad()
        found = loss(model(batch["x"]), batch)
        found.backward()
        optimizer.step()
        losses.append(found.item())
    return losses


def run(mode: str, stacks: tuple[tuple[int, ...], ...]) -> GroupOutcome:
    work = GroupWork(
        number=0,
        phase=1,
        mode=mode,  # type: ignore[arg-type]
        trials=tuple(
            TrialWork(
                trial=n,
                params={"lr": 0.1 * (n + 1), "momentum": 0.2 * n, "seed": n},
                position=0,
                dataset="d",
            )
            for n in range(3)
        ),
        stacks=stacks,
        num_iterations=10,
    )
    outcome, _ = run_group(work, TorchModel(module, loss), lambda _: BATCHES, dict, np, "loss")
    return outcome


def test_stacked_losses_are_those_of_the_module_alone() -> None:
    stacked = run("stacked", ((0, 1, 2),))
    alone = run("shared pass", ((0,), (1,), (2,)))
    assert stacked.not_stackable == {}
    assert all(one.stacked for one in stacked.trials)
    for one, other in zip(stacked.trials, alone.trials, strict=True):
        assert one.error == other.error == ""
        np.testing.assert_allclose(one.losses, other.losses, rtol=1e-5)
        np.testing.assert_allclose(one.losses, by_torch(one.trial), rtol=1e-4)


def test_it_moves_between_processes_without_its_modules() -> None:
    model = TorchModel(module, loss)
    state = model.init({"seed": 1}, np)
    model.step(state, BATCHES[0], {"lr": 0.1}, np)
    assert model._modules
    assert pickle.loads(pickle.dumps(model))._modules == {}  # noqa: S301  ours
