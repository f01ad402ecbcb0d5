"""Runs cases on one cluster: an application for each mode, the modes in turn.

The applications of all modes live side by side and only one of them works at a time, so that
repetitions of the modes interleave closely and every mode's JVMs are equally warm. Each runs
a case once unmeasured, then once a repetition.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs.emulated_cluster import EmulatedCluster, HostSpec, hand_on_priority
from jobs.emulated_network import ClusterError
from jobs.overlap.event_log import read_runs, split_log
from jobs.overlap.measure import Measurement, measure
from jobs.overlap.modes import DAGOPT, REPOSITORY, in_turn, spark_properties

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jobs.overlap.cases import Case

STOP_S = 60.0


class RunError(Exception):
    """An application of the benchmark failed; the message names it and its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How the benchmark is run, the same for all cases."""

    num_hosts: int
    link_mbit: float
    repetitions: int
    scale: float
    modes: tuple[str, ...]
    out_dir: Path
    windows_per_fetch: float
    """How many times spark.reducer.maxSizeInFlight a task fetches; 0: leave Spark's default."""

    subnet: str | None = None

    @property
    def link_bytes_per_s(self) -> float:
        """Rate of a link, each direction."""
        return self.link_mbit * 1e6 / 8


@dataclass
class Application:
    """A driver process that runs cases in one mode."""

    mode: str
    process: subprocess.Popen[str]
    log: Path
    event_log_dir: Path
    app_id: str = ""
    answers: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    """What it said of each measured run, by case and repetition."""

    def ask(self, command: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a command, if any, and wait for the answer."""
        if self.process.stdin is None or self.process.stdout is None:
            raise RunError(f"{self.mode}: the application has no pipes")
        if command is not None:
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"ok": False, "error": "the application ended"}
        if not answer["ok"]:
            raise RunError(f"{self.mode}: {answer['error']} (see {self.log})")
        return dict(answer)

    def stop(self) -> None:
        """Let the application end, which completes its event log."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the driver and its JVM at once."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def clusters_for(cases: Sequence[Case]) -> list[list[Case]]:
    """The cases of each cluster: those that need hosts without executors have one of their own."""
    plain = [case for case in cases if not case.separate_sources]
    return [part for part in (plain, [case for case in cases if case not in plain]) if part]


def num_steps(cases: Sequence[Case], plan: Plan) -> int:
    """How often ``run_cases`` tells of a step."""
    runs = sum(len(case.modes_of(plan.modes)) for case in cases) * (1 + plan.repetitions)
    return len(clusters_for(cases)) + runs


def run_cases(
    cases: Sequence[Case], plan: Plan, step: Callable[[str], None], failures: list[str]
) -> list[Measurement]:
    """Measurements of all repetitions of cases on one cluster, as far as nothing failed.

    Args:
        cases: what to run; all of one entry of :func:`clusters_for`.
        plan: how.
        step: told each time something begins.
        failures: gets a line for each application that failed; the other modes go on.
    """
    try:
        return _run_on_cluster(cases, plan, step, failures)
    except (ClusterError, ValueError) as error:
        failures.append(f"{', '.join(case.name for case in cases)}: {error}")
        return []


def _run_on_cluster(
    cases: Sequence[Case], plan: Plan, step: Callable[[str], None], failures: list[str]
) -> list[Measurement]:
    modes = [mode for mode in plan.modes if any(mode in case.modes for case in cases)]
    step("starting a cluster")
    with (
        tempfile.TemporaryDirectory(prefix="cluster-", dir=plan.out_dir) as cluster_dir,
        EmulatedCluster(
            host_specs(cases, plan, len(modes)),
            link_mbit=plan.link_mbit,
            work_dir=Path(cluster_dir),
            python=sys.executable,
            subnet=plan.subnet,
        ) as cluster,
        ExitStack() as stack,
    ):
        applications: dict[str, Application] = {}
        for mode in modes:
            application = start_application(cases, mode, plan, cluster)
            stack.callback(application.kill)
            applications[mode] = application

        def ask(mode: str, command: dict[str, str] | None = None) -> dict[str, Any]:
            """The answer; an application that fails is given up."""
            if mode not in applications:
                return {}
            try:
                return applications[mode].ask(command)
            except RunError as error:
                failures.append(str(error))
                applications.pop(mode).kill()
                return {}

        for mode in modes:
            app_id = ask(mode).get("app_id", "")
            if mode in applications:
                applications[mode].app_id = app_id
        for case in cases:
            own = case.modes_of(modes)
            for mode in own:
                step(f"{case.name}: {mode}, warm-up")
                ask(mode, {"do": "prepare", "case": case.name})
                ask(mode, {"do": "run", "group": f"{case.name}-warm-up"})
            for repetition in range(1, plan.repetitions + 1):
                for mode in in_turn(own, repetition):
                    step(f"{case.name}: {mode}, repetition {repetition}")
                    answer = ask(mode, {"do": "run", "group": f"{case.name}-{repetition}"})
                    if answer:
                        applications[mode].answers[case.name, repetition] = answer
        for application in applications.values():
            application.stop()
        found = [
            read_application(cases, application, plan) for application in applications.values()
        ]
        return [row for case in cases for rows in found for row in rows if row.case == case.name]


def host_specs(cases: Sequence[Case], plan: Plan, num_applications: int) -> Sequence[HostSpec]:
    """The cluster's hosts: those that compute, then those that only hold map outputs."""
    separate_sources = any(case.separate_sources for case in cases)
    num_cores = os.cpu_count() or 1
    names = [f"h{number}" for number in range(1, plan.num_hosts + 1)]
    names += ["s1", "s2"] if separate_sources else []
    return [
        HostSpec(
            name=name,
            slots=4 * num_applications,  # all applications are there at the same time
            memory_mb=1024 * num_applications,
            physical_core=index % num_cores,
            shuffle_service=separate_sources,
        )
        for index, name in enumerate(names)
    ]


def start_application(
    cases: Sequence[Case], mode: str, plan: Plan, cluster: EmulatedCluster
) -> Application:
    """Start the driver process; its first answer comes when its executors are there."""
    addresses = {name: cluster.address(name) for name in cluster.hosts}
    hosts = [address for name, address in addresses.items() if name.startswith("h")]
    event_log_dir = cluster.work_dir / "eventlogs"
    event_log_dir.mkdir(exist_ok=True)
    properties = spark_properties(
        mode,
        cluster,
        num_executors=len(addresses),
        shuffle_service=any(case.separate_sources for case in cases),
        event_log_dir=event_log_dir,
    )
    name = f"{mode}-{cases[0].name}" if len(cases) == 1 else mode
    if mode == DAGOPT:
        decisions = plan.out_dir / f"decisions-{name}.jsonl"
        decisions.unlink(missing_ok=True)
        properties["spark.dagopt.decisionLog"] = str(decisions)
    core_dir = cluster.work_dir / f"cores-{mode}"
    core_dir.mkdir(exist_ok=True)
    request = {
        "mode": mode,
        "conf": properties | window_properties(cases, plan),
        "hosts": hosts,
        "sources": [a for a in addresses.values() if a not in hosts] or hosts,
        "link_bytes_per_s": plan.link_bytes_per_s,
        "scale": plan.scale,
        "core_dir": str(core_dir),
    }
    log = plan.out_dir / f"driver-{name}.log"
    return start_driver("jobs.overlap.app", mode, request, cluster, log, event_log_dir)


def start_driver(
    module: str,
    mode: str,
    request: dict[str, Any],
    cluster: EmulatedCluster,
    log: Path,
    event_log_dir: Path,
) -> Application:
    """Start ``python -m module`` on the cluster, with ``request`` as its argument."""
    process = start_process(module, request, cluster.environment(), log)
    hand_on_priority(process.pid)
    return Application(mode=mode, process=process, log=log, event_log_dir=event_log_dir)


def start_process(
    module: str, request: dict[str, Any], environment: Mapping[str, str], log: Path
) -> subprocess.Popen[str]:
    """Start ``python -m module`` in a session of its own; what it says to stderr goes to ``log``."""
    with log.open("wb") as stderr:
        return subprocess.Popen(
            [sys.executable, "-m", module, json.dumps(request)],
            cwd=REPOSITORY,
            env={**environment, "PYTHONPATH": str(REPOSITORY)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )


def window_properties(cases: Sequence[Case], plan: Plan) -> dict[str, str]:
    """Spark's fetch window, scaled as the tasks of the case that fetches least are."""
    sizes = [case.fetch_bytes(plan.scale, plan.link_bytes_per_s) for case in cases]
    fetch_bytes = min(filter(None, sizes), default=0.0)
    if plan.windows_per_fetch == 0 or fetch_bytes == 0:
        return {}
    return {"spark.reducer.maxSizeInFlight": f"{fetch_bytes / plan.windows_per_fetch:.0f}b"}


def read_application(
    cases: Sequence[Case], application: Application, plan: Plan
) -> list[Measurement]:
    """Measure all repetitions in a stopped application, and keep an event log of each."""
    log = application.event_log_dir / application.app_id
    logs = plan.out_dir / "eventlogs"
    split_log(
        log,
        {
            f"{name}-{run}": logs / f"{name}-{application.mode}-{run}"
            for name, run in application.answers
        },
    )
    stages = read_runs(log)
    case_of = {case.name: case for case in cases}
    measurements = []
    for (name, run), answer in application.answers.items():
        case = case_of[name]
        if application.mode == DAGOPT:
            # The last repetition's stays.
            text = json.dumps(answer["report"], indent=1)
            (plan.out_dir / f"report-{name}.json").write_text(f"{text}\n", encoding="utf-8")
        measurements.append(
            measure(
                name,
                application.mode,
                stages.get(f"{name}-{run}", []),
                num_hosts=plan.num_hosts,
                num_sources=2 if case.separate_sources else plan.num_hosts,
                link_bytes_per_s=plan.link_bytes_per_s,
                core_s=answer["core_s"],
                is_real_cpu=case.is_real_cpu,
                idle_hold_s=answer["idle_hold_s"],
                span=case.span,
            )
        )
    return measurements
