"""The cases: what a row is, what it costs to decode and to score, and how it is decoded.

A sweep of decode:GPU time by payload, where decoding is emulated, and one case with real images.
A task is one Arrow batch, as with Spark's defaults (10,000 rows a batch). With more batches a task, by
``--batches``, a fused stage could overlap decoding with the kernel by itself.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from jobs.gpu_bench.work import Load, decode_rows

NUM_ROWS = 16
"""Rows of a task, where decoding is emulated."""

TASK_S = {
    "8:1": (6.4, 0.8, 16),
    "4:1": (3.2, 0.8, 24),
    "1:1": (0.5, 0.5, 12),
    "1:4": (0.15, 0.6, 12),
    "1:8": (0.1, 0.8, 8),
}
"""Seconds of decoding and of the kernel in a task, at scale 1, and tasks."""

PAYLOADS = {"1 KB": 1024, "100 KB": 100 * 1024, "1 MB": 1024 * 1024}

REAL = "real 4:1"
REAL_CORES = 2
REAL_EDGE = 64
REAL_TASKS = 12
REAL_IMAGES = 1600
"""Images of a task, at scale 1: some 2 s of decoding."""

Decode: TypeAlias = Callable[[list[Any]], list[bytes]]
"""Payloads of the values of a source: numbers of rows, or JPEG images."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row of the benchmark's table."""

    name: str
    key: str
    """Letters that tell it from the others: dagopt tells stages by their plans without digits, and
    must not know a case from another one."""

    decode_s: float
    """Seconds of decoding a task, at scale 1; 0 where it is real and so is measured first."""

    gpu_s: float
    """Seconds of the kernel for a task, at scale 1; 0 where it follows from the real decoding."""

    payload_bytes: int
    num_tasks: int
    num_rows: int = NUM_ROWS
    """Of a task, at scale 1."""

    @property
    def is_real(self) -> bool:
        """Whether it decodes images, on the machine's own cores."""
        return self.name == REAL


def _sweep() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for ratio, (decode_s, gpu_s, num_tasks) in TASK_S.items():
        for size, payload_bytes in PAYLOADS.items():
            name = f"{ratio} {size}"
            letters = "abcdefghijklmno"[len(found)]
            found[name] = Case(
                name=name,
                key=f"case_{letters}",
                decode_s=decode_s,
                gpu_s=gpu_s,
                payload_bytes=payload_bytes,
                num_tasks=num_tasks,
            )
    return found


WARM_UP = Case(
    name="warm-up", key="warm_up", decode_s=0.1, gpu_s=0.05, payload_bytes=1024, num_tasks=16
)
CASES = {
    **_sweep(),
    REAL: Case(
        name=REAL,
        key="real",
        decode_s=0,
        gpu_s=0,
        payload_bytes=0,
        num_tasks=REAL_TASKS,
        num_rows=REAL_IMAGES,
    ),
}


def decoder_of(case: Case, load: Load) -> Decode:
    """What decodes the values of the case's source."""
    if case.is_real:
        from jobs.gpu_inference import pixels_of

        return lambda values: [pixels_of(value, REAL_EDGE) for value in values]
    return lambda values: decode_rows(values, load)


def images_dir(out_dir: Path, case: Case, scale: float) -> Path:
    """Where the images of the real case lie."""
    return out_dir / f"images-{case.num_tasks}x{rows_of(case, scale)}"


def rows_of(case: Case, scale: float) -> int:
    """Rows of a task: scaled where decoding is real, as its seconds are elsewhere."""
    return max(1, round(case.num_rows * scale)) if case.is_real else case.num_rows


def case_of(name: str) -> Case:
    """The case of that name, the warm-up too."""
    return WARM_UP if name == WARM_UP.name else CASES[name]


def digest(scores: Iterable[tuple[int, int]]) -> int:
    """A number that is the same for the same scores in any order."""
    return zlib.crc32(repr(sorted(scores)).encode())
