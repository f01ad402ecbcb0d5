"""What one stage of a program cost when it ran before, and how to recognise it again.

A stage has no name of its own that lasts: its id, its RDD ids and its generated-code numbers
differ from run to run. What lasts is the call site, the plan of the SQL query and the operators,
in the order in which they were built; :func:`stage_signature` makes one text of them. A :class:`StageProfile` holds
the mean costs of a task of such a stage, and :class:`StageProfiles` finds the one to use.

Not modelled: two stages with the same call site, query plan and operators (the two sides of a
self-join) have one signature, so they share one profile, the mean of both. The costs are those
of the cluster that ran it; nothing here corrects for cores shared by several tasks.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np

from dagopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

_CALL_SITE = re.compile(r"(?P<operation>.*) at (?P<file>.+):(?P<line>\d+)", re.DOTALL)
_UUID = re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")
# Numbers that only count: `$anonfun$run$2`, `#17`, `[plan_id=9]`, `WholeStageCodegen (12)`.
_COUNTER = re.compile(r"(?<=\$)\d+|#\d+L?|\[(?:plan_)?id=#?\d+\]|\s*\(\d+\)")
_NUMBER = re.compile(r"\b\d+\b")
# As in the JVM: ASCII digits and white space.
_PLAN_IDS = b"0123456789 \t\n\x0b\f\r"
_GPU_PART = re.compile(r"GPU stage \d+, (?:cpu|gpu|rest|cpu-only) part")
_SPACE = re.compile(r"\s+")
_GPU_OPERATOR = re.compile(r"Gpu[A-Z]")
_PYTHON = re.compile(r"\w*(?:Python|Pandas|InArrow)\w*")

#: Reading a shuffle has another name when adaptive execution changed the partitions, which
#: depends on the sizes of the day and not on the program.
_SAME_SCOPE = {
    "AQEShuffleRead": "Exchange",
    "CustomShuffleReader": "Exchange",
    "ShuffleQueryStage": "Exchange",
}

#: As many as the JVM tells of a stage; an event log has them all.
_MAX_SCOPES = 1000

#: A signature stays readable up to here; what is longer ends in a digest of the whole.
_MAX_SCOPES_CHARS = 160

_MIN_WEIGHT = 1e-6

#: A larger spread says that the profiles merged under one loose signature are of unlike stages.
#: Two that weigh alike have this spread when one costs three times the other: then their mean is
#: twice the cheaper one, and a prediction wrong by more than a factor of two is worse than none.
_MAX_LOOSE_SPREAD = 0.5


def stage_signature(name: str, scopes: Sequence[str], plan: str = "") -> str:
    """A text that is the same whenever the same stage of the same program runs.

    Args:
        name: Spark's stage name, ``count at /home/me/job.py:12``. The folder is dropped.
        scopes: of every RDD of the stage, sorted by RDD id, the name of its operation scope, or
            the RDD's own name where it has no scope. Repeats beside each other count once, and
            only the first 1000 count.
        plan: number of the SQL query's plan (:func:`plan_number`), which tells stages of different
            queries apart; empty where the stage belongs to no query.

    Returns:
        ``count at job.py:12 [Exchange > WholeStageCodegen]``. The line is kept, since it may be
        all that tells two stages apart; :func:`loose_signature` drops it.
    """
    names: list[str] = []
    for scope in scopes[:_MAX_SCOPES]:
        normal = _normal_scope(scope)
        if not names or names[-1] != normal:
            names.append(normal)
    chain = " > ".join(names)
    if len(chain) > _MAX_SCOPES_CHARS:
        digest = hashlib.blake2b(chain.encode("utf-8", "replace"), digest_size=8).hexdigest()
        chain = f"{chain[:_MAX_SCOPES_CHARS]}... {digest}"
    query = f" in plan {plan}" if plan else ""
    return f"{_normal_name(name)}{query} [{chain}]"


def plan_number(description: str) -> str:
    """A number for the text of a physical plan, the same in every run of the query.

    Digits and spaces do not count: they are expression ids and how the text is set. The JVM makes
    the same number of a running query.
    """
    text = description.encode("utf-8", "replace").translate(None, _PLAN_IDS)
    digest = hashlib.sha256(text).digest()
    return str(int.from_bytes(digest[:6], "big"))


def gpu_part_signature(number: str, part: Literal["cpu", "gpu", "rest", "cpu-only"]) -> str:
    """What one part of a GPU stage is called: the JVM gives an RDD of its stage this name.

    Args:
        number: of the GPU stage's physical plan.
        part: in front of the GPU operator, it, or behind it; each ran between inserted shuffles.
    """
    return f"GPU stage {number}, {part} part"


def is_gpu_part(name: str) -> bool:
    """Whether an RDD has a name that :func:`gpu_part_signature` gives."""
    return _GPU_PART.fullmatch(name) is not None


def loose_signature(signature: str) -> str:
    """The signature without the numbers of its stage name: what survives an edited file."""
    name, bracket, chain = signature.partition(" [")
    return f"{_NUMBER.sub('#', name)}{bracket}{chain}"


def has_python(scopes: Iterable[str]) -> bool:
    """Whether a Python worker runs in a stage with these scopes.

    Then the executor's CPU time says nothing: the worker's is not in it.
    """
    return any(_PYTHON.fullmatch(scope.split(" ", 1)[0]) is not None for scope in scopes)


def works_outside_jvm(scopes: Iterable[str]) -> bool:
    """Whether Python workers run in a stage, or operators that plugins of Spark run on a GPU.

    Then time that is no CPU time of the executor may be work as well as a wait.
    """
    names = list(scopes)
    return has_python(names) or any(_GPU_OPERATOR.match(name) is not None for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageProfile:
    """Mean costs of the tasks of one stage, over the runs that were read."""

    signature: str
    """What :func:`stage_signature` gives for it."""

    num_runs: int
    """Stage attempts merged into this, at least 1."""

    num_tasks: int
    """Tasks of one run, rounded mean, at least 1."""

    read_bytes_per_task: float
    """Bytes a task read: shuffle (remote and local) and input, >= 0."""

    cpu_s_per_task: float
    """Seconds a task takes without its fetch wait: work, JVM and Python together, >= 0."""

    io_wait_s_per_task: float
    """Measured fetch wait of a task, in seconds, >= 0. Before Spark 4.1 without connecting."""

    io_bytes_per_s: float | None
    """Remote shuffle bytes over fetch wait, the rate a task saw; None where hardly any waited.

    Fetching goes on while the task computes, so this is at most too high, never too low."""

    spilled_bytes_per_task: float
    """Bytes spilled to disk, >= 0."""

    peak_memory_bytes: int
    """Largest peak execution memory of any task, >= 0; 0 also where Spark did not report it."""

    python: bool
    """Whether it works outside of the JVM, in Python workers or on a GPU."""

    coverage: float
    """Task ends seen over tasks, 0..1, mean over the runs."""

    executor_cpu_s_per_task: float | None = None
    """JVM CPU seconds of a task; None where Spark did not measure it, or Python did the work."""

    cost_spread: float = 0.0
    """How far the runs differ: standard deviation of their compute time per byte read (per task
    where one of them read nothing) over its mean. Large where several stages share a signature,
    and then the means describe none of them."""

    def __post_init__(self) -> None:
        for field in ("num_runs", "num_tasks"):
            if getattr(self, field) < 1:
                raise InputError(self._wrong(field, ">= 1"))
        for field in (
            "read_bytes_per_task",
            "cpu_s_per_task",
            "io_wait_s_per_task",
            "spilled_bytes_per_task",
            "peak_memory_bytes",
            "cost_spread",
        ):
            if not (math.isfinite(getattr(self, field)) and getattr(self, field) >= 0):
                raise InputError(self._wrong(field, "finite and >= 0"))
        if self.io_bytes_per_s is not None and not 0 < self.io_bytes_per_s < math.inf:
            raise InputError(self._wrong("io_bytes_per_s", "finite and > 0, or None"))
        if (
            self.executor_cpu_s_per_task is not None
            and not 0 <= self.executor_cpu_s_per_task < math.inf
        ):
            raise InputError(self._wrong("executor_cpu_s_per_task", "finite and >= 0, or None"))
        if not 0 <= self.coverage <= 1:
            raise InputError(self._wrong("coverage", "0..1"))

    def _wrong(self, field: str, allowed: str) -> str:
        return f"stage profile {self.signature!r}: {field} is {getattr(self, field)}, must be {allowed}"

    @property
    def cpu_s_per_byte(self) -> float | None:
        """Compute seconds per byte read; None where less than a byte a task was read."""
        if self.read_bytes_per_task < 1:
            return None
        return self.cpu_s_per_task / self.read_bytes_per_task

    def predicted_cpu_s(self, read_bytes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute time of tasks of another size: proportional to their bytes.

        Args:
            read_bytes: ``(T,)`` bytes each task will read, finite and >= 0.

        Returns:
            ``(T,)`` seconds. A stage that read nothing when it was learned has the same time
            for every task.

        Raises:
            InputError: a size is negative or not finite.
        """
        if not (np.isfinite(read_bytes).all() and (read_bytes >= 0).all()):
            raise InputError("read_bytes must be finite and >= 0")
        per_byte = self.cpu_s_per_byte
        if per_byte is None:
            return np.full(read_bytes.shape, self.cpu_s_per_task)
        scaled: NDArray[np.float64] = read_bytes * per_byte
        return scaled


def merge_profiles(profiles: Sequence[StageProfile], *, older_weight: float = 0.5) -> StageProfile:
    """One profile of several runs of a stage, each weighed by the tasks that were seen of it.

    Args:
        profiles: oldest first, at least one; the first one's signature is kept.
        older_weight: what each weighs of the next newer one, above 0 up to 1; 1 where none is
            newer than another.

    Raises:
        InputError: there is no profile, or the weight is out of its range.
    """
    if not profiles:
        raise InputError("merge_profiles: needs at least one profile")
    if not 0 < older_weight <= 1:
        raise InputError(f"older_weight is {older_weight}, must be above 0 and at most 1")
    newest = len(profiles) - 1
    # The floor keeps a run without any coverage, or one ages ago, from weighing nothing at all.
    weight = [
        max(_MIN_WEIGHT, older_weight ** (newest - age))
        * p.num_tasks
        * max(_MIN_WEIGHT, p.coverage)
        for age, p in enumerate(profiles)
    ]

    def mean(values: Iterable[float | None]) -> float | None:
        known = [(v, w) for v, w in zip(values, weight, strict=True) if v is not None]
        if not known:
            return None
        # Held between the extremes: rounding may not move the mean of equal values.
        total = math.fsum(v * w for v, w in known) / math.fsum(w for _, w in known)
        return min(max(total, min(v for v, _ in known)), max(v for v, _ in known))

    python = any(p.python for p in profiles)
    executor_cpu_s = None if python else mean(p.executor_cpu_s_per_task for p in profiles)
    return StageProfile(
        signature=profiles[0].signature,
        num_runs=sum(p.num_runs for p in profiles),
        num_tasks=round(mean(p.num_tasks for p in profiles) or 1),
        read_bytes_per_task=mean(p.read_bytes_per_task for p in profiles) or 0.0,
        cpu_s_per_task=mean(p.cpu_s_per_task for p in profiles) or 0.0,
        io_wait_s_per_task=mean(p.io_wait_s_per_task for p in profiles) or 0.0,
        io_bytes_per_s=mean(p.io_bytes_per_s for p in profiles),
        spilled_bytes_per_task=mean(p.spilled_bytes_per_task for p in profiles) or 0.0,
        peak_memory_bytes=max(p.peak_memory_bytes for p in profiles),
        executor_cpu_s_per_task=executor_cpu_s,
        python=python,
        coverage=mean(p.coverage for p in profiles) or 0.0,
        cost_spread=_cost_spread(profiles, weight),
    )


class StageProfiles:
    """The profiles of one file, found by signature.

    A stage whose line moved, or whose query's plan changed, is found by the rest of its signature.
    Where several stages share that rest, their merged profile is what there is to say, unless their
    costs differ so much that it would describe none of them.
    """

    __slots__ = ("_exact", "_loose")

    def __init__(self, profiles: Iterable[StageProfile] = ()) -> None:
        """Keep profiles, oldest first; those of one signature are merged."""
        exact: dict[str, list[StageProfile]] = {}
        loose: dict[str, list[StageProfile]] = {}
        for profile in profiles:
            exact.setdefault(profile.signature, []).append(profile)
            loose.setdefault(loose_signature(profile.signature), []).append(profile)
        self._exact = {key: merge_profiles(exact[key]) for key in sorted(exact)}
        # Namesakes on other lines are not older or newer, so they weigh alike.
        merged = {k: merge_profiles(same, older_weight=1.0) for k, same in loose.items()}
        self._loose = {k: p for k, p in merged.items() if p.cost_spread <= _MAX_LOOSE_SPREAD}

    def __len__(self) -> int:
        return len(self._exact)

    @property
    def by_signature(self) -> Mapping[str, StageProfile]:
        """The profiles in the order of their signatures; read-only."""
        return MappingProxyType(self._exact)

    def find(self, signature: str) -> StageProfile | None:
        """The profile of that stage, else of its namesakes if they are alike, else None."""
        found = self._exact.get(signature)
        return found if found is not None else self._loose.get(loose_signature(signature))


# Private functions


def _normal_name(name: str) -> str:
    text = _normal(name)
    match = _CALL_SITE.fullmatch(text)
    if match is None:
        return text
    file = match["file"].replace("\\", "/").rsplit("/", 1)[-1]
    return f"{match['operation']} at {file}:{match['line']}"


def _normal_scope(scope: str) -> str:
    text = _NUMBER.sub("#", _normal(scope))
    return _SAME_SCOPE.get(text, text)


def _normal(text: str) -> str:
    # `[` ends the name in a signature.
    spaced = _SPACE.sub(" ", _COUNTER.sub("", _UUID.sub("#", text))).strip()
    return spaced.replace("[", "(").replace("]", ")")


def _cost_spread(profiles: Sequence[StageProfile], weight: Sequence[float]) -> float:
    """Spread of the profiles' costs around their mean, and of each around its own."""
    per_byte = [p.cpu_s_per_byte for p in profiles]
    cost = [c for c in per_byte if c is not None]
    if len(cost) < len(profiles):
        cost = [p.cpu_s_per_task for p in profiles]
    total = math.fsum(weight)
    mean = math.fsum(c * w for c, w in zip(cost, weight, strict=True)) / total
    if mean <= 0:
        return 0.0
    # Relative to the mean before squaring: seconds per byte are too small to square.
    squares = (
        w * ((p.cost_spread * c / mean) ** 2 + (c / mean - 1) ** 2)
        for p, c, w in zip(profiles, cost, weight, strict=True)
    )
    return math.sqrt(math.fsum(squares) / total)
