"""Runs cases, the modes in turn, in an application for each mode that lives as long as all cases.

Only one application works at a time, so that the modes interleave closely. Each runs a small
warm-up first. A case begins with a run in the mode ``dagopt``, which knows nothing of it yet.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jobs.gpu_bench.cases import REAL_CORES, REAL_EDGE, WARM_UP, Case, images_dir, rows_of
from jobs.gpu_bench.measure import Measurement, form_of, gpu_allocated_s, predicted_s
from jobs.gpu_bench.modes import DAGOPT, DECISIONS, FIRST, FORMS, RAY, spark_properties
from jobs.gpu_bench.work import Load, busy_s
from jobs.overlap.modes import in_turn
from jobs.overlap.runner import Application, RunError, start_process


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How the benchmark is run, the same for all cases."""

    num_cores: int
    repetitions: int
    scale: float
    batches: int
    modes: tuple[str, ...]
    out_dir: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an application said of a run."""

    case: str
    mode: str
    """``dagopt-first`` for the first run of a case."""

    group: str
    body: dict[str, Any]
    busy_s: float


def num_steps(cases: Sequence[Case], plan: Plan) -> int:
    """How often ``run_cases`` tells of a step."""
    first = 1 if DAGOPT in plan.modes else 0
    return 1 + len(cases) * (first + len(plan.modes) * plan.repetitions)


def run_cases(
    cases: Sequence[Case], plan: Plan, step: Callable[[str], None], failures: list[str]
) -> list[Measurement]:
    """Measurements of all runs, as far as nothing failed.

    Args:
        cases: either emulated ones, or the real one, which has other executors.
        plan: how.
        step: told each time something begins.
        failures: gets a line for each application that failed; the other modes go on.
    """
    step("starting the applications")
    files_dir(cases, plan).mkdir(parents=True, exist_ok=True)
    with _work_dir(plan) as work_dir, ExitStack() as stack:
        applications: dict[str, Application] = {}
        # Ray's sockets lie in there, and their names may not be long.
        ray_dir = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True)
        )
        for mode in plan.modes:
            applications[mode] = start_application(cases, mode, plan, work_dir, ray_dir)
            stack.callback(applications[mode].kill)
        answers = _Answers(plan, work_dir, applications, failures)
        for mode in plan.modes:
            answers.ready(mode)
        for mode in plan.modes:
            answers.ask(WARM_UP, mode, 0)
        for case in cases:
            if DAGOPT in plan.modes:
                step(f"{case.name}: {DAGOPT}, first run")
                answers.ask(case, DAGOPT, 0)
            for repetition in range(1, plan.repetitions + 1):
                for mode in in_turn(plan.modes, repetition):
                    step(f"{case.name}: {mode}, repetition {repetition}")
                    answers.ask(case, mode, repetition)
        for application in applications.values():
            application.stop()
        return answers.measurements(cases)


class _Answers:
    """Asks applications, and keeps what they say."""

    def __init__(
        self,
        plan: Plan,
        work_dir: Path,
        applications: dict[str, Application],
        failures: list[str],
    ) -> None:
        self._plan = plan
        self._work_dir = work_dir
        self._applications = applications
        self._failures = failures
        self._answers: list[Answer] = []
        self._digests: dict[str, int] = {}
        self._loads: dict[str, dict[str, Any]] = {}

    def ready(self, mode: str) -> None:
        """Wait until it has started."""
        body = self._ask(mode, None)
        if body:
            self._applications[mode].app_id = body.get("app_id", "")

    def ask(self, case: Case, mode: str, repetition: int) -> None:
        """Run a case once."""
        group = f"{case.key}-{mode}-{repetition}"
        record = self._work_dir / f"{group}.kernels"
        if case.name not in self._loads:
            self._loads[case.name] = load_of(case, self._plan)
        locks = self._work_dir / f"locks-{mode}"
        locks.mkdir(exist_ok=True)
        load = Load(**self._loads[case.name], lock_dir=str(locks), record=str(record))
        command = {
            "do": "run",
            "case": case.name,
            "group": group,
            "load": asdict(load),
            "images": str(images_dir(self._plan.out_dir, case, self._plan.scale)),
            "batch_rows": batch_rows(case, self._plan),
        }
        body = self._ask(mode, command)
        if not body:
            return
        if self._digests.setdefault(case.name, body["digest"]) != body["digest"]:
            self._failures.append(f"{case.name}: {mode} gives other scores than the modes before")
        name = FIRST if mode == DAGOPT and repetition == 0 else mode
        found = Answer(case=case.name, mode=name, group=group, body=body, busy_s=busy_s(record))
        self._answers.append(found)

    def _ask(self, mode: str, command: dict[str, Any] | None) -> dict[str, Any]:
        """The answer; an application that fails is given up."""
        if mode not in self._applications:
            return {}
        try:
            return self._applications[mode].ask(command)
        except RunError as error:
            self._failures.append(str(error))
            self._applications.pop(mode).kill()
            return {}

    def measurements(self, cases: Sequence[Case]) -> list[Measurement]:
        """Of all runs of these cases; the applications have stopped."""
        kept = files_dir(cases, self._plan)
        allocated: dict[str, float] = {}
        for application in self._applications.values():
            if application.app_id:
                log = application.event_log_dir / application.app_id
                allocated.update(gpu_allocated_s(log))
                shutil.copy(log, kept / f"{application.mode}.events")
        if (self._work_dir / DECISIONS).exists():
            shutil.copy(self._work_dir / DECISIONS, kept / DECISIONS)
        names = [case.name for case in cases]
        return [
            Measurement(
                case=answer.case,
                mode=answer.mode,
                form=form_of(answer.body["gpu_stages"]) or FORMS.get(answer.mode, "unknown"),
                elapsed_s=answer.body["elapsed_s"],
                gpu_allocated_s=allocated.get(answer.group),
                gpu_busy_s=answer.busy_s,
                predicted_s=predicted_s(answer.body["gpu_stages"]),
            )
            for answer in self._answers
            if answer.case in names
        ]


@contextmanager
def _work_dir(plan: Plan) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(
        prefix="gpu-", dir=plan.out_dir, ignore_cleanup_errors=True
    ) as name:
        yield Path(name)


def files_dir(cases: Sequence[Case], plan: Plan) -> Path:
    """Where logs, event logs and decisions stay."""
    return plan.out_dir / ("gpu-real" if cases[0].is_real else "gpu-sweep")


def batch_rows(case: Case, plan: Plan) -> int:
    """Rows of an Arrow batch."""
    return -(-rows_of(case, plan.scale) // plan.batches)


def load_of(case: Case, plan: Plan) -> dict[str, Any]:
    """What a row costs in a case; the real one's images are made, and decoding is measured."""
    num_rows = rows_of(case, plan.scale)
    gpu_s = case.gpu_s * plan.scale / num_rows
    if case.is_real:
        gpu_s = real_decode_s(case, plan) / 4
    return {
        "decode_s": case.decode_s * plan.scale / num_rows,
        "gpu_s": gpu_s,
        "payload_bytes": case.payload_bytes,
        "num_cores": plan.num_cores,
    }


def real_decode_s(case: Case, plan: Plan) -> float:
    """Seconds of decoding one image on a quiet core, of a whole task's images."""
    import pyarrow.parquet

    from jobs.gpu_inference import pixels_of, prepare

    directory = images_dir(plan.out_dir, case, plan.scale)
    prepare(directory, case.num_tasks * rows_of(case, plan.scale), case.num_tasks)
    table = pyarrow.parquet.read_table(directory / "part-0000.parquet", columns=["jpeg"])
    images = table.column("jpeg").to_pylist()
    start_s = time.thread_time()
    for image in images:
        pixels_of(image, REAL_EDGE)
    return (time.thread_time() - start_s) / len(images)


def start_application(
    cases: Sequence[Case], mode: str, plan: Plan, work_dir: Path, ray_dir: str
) -> Application:
    """Start the process of a mode; its first answer comes when its executor is there."""
    num_cores = REAL_CORES if cases[0].is_real else plan.num_cores
    request: dict[str, Any] = {"mode": mode}
    if mode == RAY:
        request |= {"num_cores": num_cores, "temp_dir": ray_dir}
    else:
        # By default a batch has as many rows as a task or more.
        rows = None if plan.batches == 1 else batch_rows(cases[0], plan)
        request["conf"] = spark_properties(
            mode, num_cores=num_cores, batch_rows=rows, work_dir=work_dir
        )
    module = "jobs.gpu_bench.ray_app" if mode == RAY else "jobs.gpu_bench.app"
    log = files_dir(cases, plan) / f"{mode}.log"
    own = {key: value for key, value in os.environ.items() if not key.startswith("SPARK_")}
    own |= {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    process = start_process(module, request, own, log)
    return Application(
        mode=mode, process=process, log=log, event_log_dir=work_dir / f"events-{mode}"
    )
