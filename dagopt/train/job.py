"""What users write: a training. And what a job is made of: order of samples, micro-batches, limits.

A training is a small class::

    class Model:
        num_examples = 60_000

        def init(self, seed):  # the state: what is trained, and what its optimizer keeps
            ...

        def batch(self, indices):  # the examples of those numbers
            ...

        def gradients(self, state, batch):  # means over the batch
            return loss, {"w": ...}  # arrays in dicts, lists and tuples

        def update(self, state, gradients, iteration):  # one step of the optimizer, in place
            ...

The global batch of an iteration is cut into a fixed number of micro-batches, whatever the number of
accelerators. Each accelerator computes its share of them; gradients are summed in 64 bits. So the order
of samples, the schedule of the learning rate (a function of ``iteration``) and the losses do not depend
on where a job runs, or on how often it is moved.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dagopt.errors import InputError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a job has to do, and what an iteration of it is made of."""

    done: int
    total: int
    """Both as its user counts them; the latter at most."""
    unit: int = 1
    """How many of these are an iteration of the whole job."""
    batch: int
    """What accelerators share in an iteration: examples, or trials."""
    part: int
    """Most of it that one computes at a time."""
    most_accelerators: int


class Job(Protocol):
    """What a scheduler needs of whatever it runs."""

    plans_itself: ClassVar[bool]
    """Whether its phases are planned by a thread of its own, which asks for accelerators for each. Such
    a phase cannot be asked for its boundary."""

    @property
    def name(self) -> str:
        """Unlike that of any other."""

    @property
    def max_accelerators(self) -> int | None:
        """Most that it may get."""

    @property
    def deadline_s(self) -> float:
        """Seconds after a boundary was due in which the phase must come to it."""

    @property
    def max_restarts(self) -> int:
        """How often a phase in a row may be lost."""

    def load(self) -> Load:
        """Before its first iteration."""


class Training(Protocol):
    """The methods of a training; the same calls must give the same results in every process."""

    num_examples: int
    """Examples of a pass over the data."""

    def init(self, seed: int) -> Any:
        """The state before the first iteration; anything that can be pickled."""

    def batch(self, indices: NDArray[np.int64]) -> Any:
        """The examples of those numbers, each from 0 to ``num_examples - 1``."""

    def gradients(self, state: Any, batch: Any) -> tuple[float, Any]:
        """Mean loss and mean gradients of a micro-batch; numpy arrays in dicts, lists and tuples."""

    def update(self, state: Any, gradients: Any, iteration: int) -> None:
        """Change ``state`` by the gradients of the global batch; ``iteration`` counts from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainJob:
    """A training, and how it is run.

    Raises:
        InputError: a value is wrong.
    """

    plans_itself: ClassVar[bool] = False

    name: str
    """Letters, digits, dots, dashes and underlines; at most 64."""
    training: Any
    """See :class:`Training`."""
    num_iterations: int
    global_batch: int
    """Examples of an iteration on all accelerators together."""
    num_micro_batches: int = 12
    """Parts of the global batch; 12 can be shared evenly by 1, 2, 3, 4, 6 and 12 accelerators."""
    max_accelerators: int | None = None
    """Most that it may get; default: as many as it has micro-batches, and the cluster accelerators. The
    cluster must have so many when the job is handed in; later it makes do with what is left."""
    seed: int = 0
    """Of the order of samples, and handed to ``init``; at least 0."""
    deadline_s: float = 600.0
    """Seconds after a boundary was due, at the latest four intervals after the phase's launch, in which
    the phase must come to it; else it is stopped, and begun again."""
    max_restarts: int = 3
    """How often a phase in a row is begun again before the job fails."""

    def __post_init__(self) -> None:
        least = {"num_iterations": 1, "global_batch": 1, "num_micro_batches": 1, "seed": 0}
        check_limits(self, least)
        if self.num_micro_batches > self.global_batch:
            raise InputError(
                f"job {self.name}: num_micro_batches is {self.num_micro_batches}, more than the"
                f" {self.global_batch} examples of global_batch"
            )
        if self.most_accelerators > self.num_micro_batches:
            raise InputError(
                f"job {self.name}: max_accelerators is {self.max_accelerators}, must be <="
                f" num_micro_batches, which is {self.num_micro_batches}"
            )
        if isinstance(self.training, type):
            raise InputError(
                f"job {self.name}: training is the class {self.training.__name__}, expected an object"
            )
        for name in ("init", "batch", "gradients", "update"):
            if not callable(getattr(self.training, name, None)):
                raise InputError(
                    f"job {self.name}: training {type(self.training).__name__} has no method {name}"
                )
        examples = getattr(self.training, "num_examples", None)
        if not isinstance(examples, (int, np.integer)) or examples < 1:
            raise InputError(
                f"job {self.name}: num_examples of {type(self.training).__name__} is {examples!r},"
                " must be a whole number >= 1"
            )

    @property
    def most_accelerators(self) -> int:
        """Most that it can use."""
        return self.max_accelerators or self.num_micro_batches

    def load(self, done: int = 0) -> Load:
        """See :class:`Job`."""
        return Load(
            done=done,
            total=self.num_iterations,
            batch=self.global_batch,
            part=-(-self.global_batch // self.num_micro_batches),
            most_accelerators=self.most_accelerators,
        )


def check_limits(job: Any, least: Mapping[str, int]) -> None:
    """Check what all jobs have, and whole numbers that must not be below ``least``.

    Raises:
        InputError: a value is wrong.
    """
    if not isinstance(job.name, str) or not NAME.fullmatch(job.name):
        raise InputError(f"job name is '{job.name}': allowed is {NAME.pattern}")
    least = {**least, "max_restarts": 0}
    if job.max_accelerators is not None:
        least["max_accelerators"] = 1
    for name, lowest in least.items():
        value = getattr(job, name)
        if not isinstance(value, int) or value < lowest:
            raise InputError(
                f"job {job.name}: {name} is {value!r}, must be a whole number >= {lowest}"
            )
    check_seconds(f"job {job.name}: deadline_s", job.deadline_s)


def check_seconds(name: str, value: Any) -> None:
    """Check a time.

    Raises:
        InputError: it is no number of seconds above 0.
    """
    if not isinstance(value, (int, float, np.number)) or not 0 < value < float("inf"):
        raise InputError(f"{name} is {value!r}, must be a number > 0")


def samples(job: TrainJob, iteration: int) -> NDArray[np.int64]:
    """``(global_batch,)`` numbers of the examples of an iteration: passes, each in an order of its own."""
    count, first = int(job.training.num_examples), iteration * job.global_batch
    last = first + job.global_batch
    passes = [
        _order(job.seed, number, count) for number in range(first // count, (last - 1) // count + 1)
    ]
    start = first - first // count * count
    return np.concatenate(passes)[start : start + job.global_batch]


def micro_batches(job: TrainJob, iteration: int, rank: int, size: int) -> list[NDArray[np.int64]]:
    """The share of one of ``size`` accelerators in the micro-batches of an iteration, in order."""
    parts = np.array_split(samples(job, iteration), job.num_micro_batches)
    share = share_of(job, rank, size)
    return parts[share.start : share.stop]


def share_of(job: TrainJob, rank: int, size: int) -> range:
    """Places of the micro-batches that one of ``size`` accelerators computes in each iteration."""
    first, last = (job.num_micro_batches * at // size for at in (rank, rank + 1))
    return range(first, last)


@lru_cache(maxsize=2)
def _order(seed: int, number: int, count: int) -> NDArray[np.int64]:
    """Of all examples in a pass; iterations of a pass follow one another, and may begin the next."""
    return np.random.default_rng((seed, number)).permutation(count)
