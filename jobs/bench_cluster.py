"""Schedulers of training jobs compared, on measured workloads that are not part of the repository.

    TRACES=FOLDER python -m jobs.bench_cluster       writes build/bench/cluster.json

``FOLDER/pollux`` holds measured applications and ``workloads/``, ``FOLDER/philly.csv`` the submissions of a
large cluster. Variables of the environment make it shorter or other:

    CASES      names of workloads, "fit", "fragmented", "planning" and "philly"; default: all
    POLICIES   names as for dagopt simulate; default: all that targets compare
    OUT        the file that is written; results in it of other cases and policies are kept

Every number is of simulated time, but planning times, which are of one core of this machine.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from dagopt.app.cluster_traces import read_applications, read_workload
from dagopt.sim.cluster.job import remembering_fit
from dagopt.sim.cluster.outcome import outcome_of
from dagopt.sim.cluster.policies import POLICIES
from dagopt.sim.cluster.simulate import ClusterSpec, simulate
from jobs.cluster_cases import fragmented_jobs, philly_jobs, planning_views, step_time_error

SPEC = ClusterSpec(hosts=(4,) * 16, restart_s=30.0, interval_s=60.0)
LARGE = ClusterSpec(hosts=(8,) * 250, restart_s=30.0, interval_s=60.0)
BASELINES = ("tiresias", "optimus", "sia", "pollux", "shortest", "fifo")
PUBLISHED = {("workload-6", "tiresias"): 3470.0, ("workload-6", "optimus"): 5302.0}
"""Mean completion times of the same in Pollux's own simulator, in seconds."""


def main() -> int:
    """Run what was asked for, write it, and judge it; 1 where a target is missed."""
    traces = Path(os.environ.get("TRACES", "traces"))
    out = Path(os.environ.get("OUT", "build/bench/cluster.json"))
    folder = traces / "pollux"
    if not folder.is_dir():
        sys.exit(f"TRACES={traces}: no folder pollux in it; give the folder of the traces")
    applications = read_applications(folder)
    workloads = {path.stem: path for path in sorted((folder / "workloads").glob("*.csv"))}
    cases = os.environ.get(
        "CASES", " ".join(["fit", *workloads, "fragmented", "planning", "philly"])
    )
    policies = os.environ.get("POLICIES", " ".join(["dagopt", "dagopt-apart", *BASELINES])).split()
    rows = json.loads(out.read_text(encoding="utf-8")) if out.exists() else []
    fit = remembering_fit()
    for case in cases.split():
        if case == "fit":
            rows = _merged(
                rows,
                [
                    {
                        "workload": f"fit {name}",
                        "policy": "fit",
                        "step_error": step_time_error(each),
                    }
                    for name, each in sorted(applications.items())
                ],
            )
            continue
        if case == "planning":
            found = [
                _planning(applications, hosts, jobs) for hosts, jobs in ((16, 60), (250, 1000))
            ]
            rows = _merged(rows, found)
            continue
        spec = SPEC
        if case == "philly":
            jobs, spec = philly_jobs(traces / "philly.csv", applications), LARGE
        elif case == "fragmented":
            jobs = fragmented_jobs(applications)
        else:
            jobs = read_workload(workloads[case], applications)
        asked = (
            policies if case != "philly" else [p for p in policies if p in {"dagopt", "tiresias"}]
        )
        for name in asked:
            began = time.perf_counter()
            run = simulate(
                jobs, applications, POLICIES[name], spec, timer=time.perf_counter, fit=fit
            )
            row = asdict(outcome_of(run, jobs, applications, spec))
            row = {"workload": case, **row, "simulated_in_s": time.perf_counter() - began}
            print(f"{case} {name}: average JCT {row['avg_jct_s']:.0f} s", file=sys.stderr)
            rows = _merged(rows, [row])
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    _print_rows(rows)
    met = _print_targets({(row["workload"], row["policy"]): row for row in rows})
    print(f"Wrote {out}", file=sys.stderr)
    return 0 if met else 1


# Private functions


def _planning(applications: Any, hosts: int, jobs: int) -> dict[str, Any]:
    """Planning times of dagopt for many jobs at once; the median of three."""
    views, cluster = planning_views(applications, hosts=hosts, num_jobs=jobs)
    policy = POLICIES["dagopt"](None)  # type: ignore[arg-type] # it asks no oracle
    taken = []
    for _ in range(3):
        began = time.perf_counter()
        policy.plan(views, cluster, 0.0)
        taken.append(time.perf_counter() - began)
    workload = f"planning {cluster.num_accelerators} accelerators {jobs} jobs"
    return {"workload": workload, "policy": "dagopt", "plan_s_mean": sorted(taken)[1]}


def _merged(rows: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    keys = {(row["workload"], row["policy"]) for row in new}
    kept = [row for row in rows if (row["workload"], row["policy"]) not in keys]
    return sorted([*kept, *new], key=lambda row: (row["workload"], row["policy"]))


def _print_rows(rows: list[dict[str, Any]]) -> None:
    columns = (
        ("avg_jct_s", "avg JCT, s", "{:.0f}"), ("p99_jct_s", "p99 JCT, s", "{:.0f}"),
        ("makespan_s", "makespan, s", "{:.0f}"), ("utilisation", "utilisation", "{:.2f}"),
        ("worst_fairness", "worst fairness", "{:.1f}"), ("num_moves", "moves", "{}"),
        ("plan_s_mean", "planning, s", "{:.4f}"), ("step_error", "step error", "{:.3f}"), ("simulated_in_s", "simulated in, s", "{:.0f}"),
    )  # fmt: skip
    table = Table("workload", "policy", *(name for _, name, _ in columns), box=None)
    for row in rows:
        table.add_row(
            row["workload"],
            row["policy"],
            *(form.format(row[key]) if key in row else "" for key, _, form in columns),
        )
    Console(width=150).print(table)


def _print_targets(found: dict[tuple[str, str], dict[str, Any]]) -> bool:
    """Every target of which the numbers are there; whether all of these are met."""
    targets: list[tuple[str, float, float]] = []

    def jct(case: str, policy: str, key: str = "avg_jct_s") -> float | None:
        row = found.get((case, policy))
        return None if row is None else float(row[key])

    for case in sorted({workload for workload, policy in found if policy == "dagopt"}):
        ours = jct(case, "dagopt") if not case.startswith("planning") else None
        if ours is None:
            continue
        best = [each for each in (jct(case, "pollux"), jct(case, "sia")) if each is not None]
        tail = [jct(case, name, "p99_jct_s") for name in ("pollux", "sia")]
        known = [each for each in tail if each is not None]
        if best and case.startswith("workload"):
            targets.append(
                (f"{case}: avg JCT, of the better of Pollux and Sia", ours / min(best), 0.95)
            )
            worst = jct(case, "dagopt", "p99_jct_s")
            if worst is not None:
                targets.append((f"{case}: p99 JCT, of the better of both", worst / min(known), 1.0))
        for name in ("tiresias", "optimus"):
            other = jct(case, name)
            if other is not None and case.startswith("workload"):
                targets.append((f"{case}: avg JCT, of {name}", ours / other, 0.65))
        apart = jct(case, "dagopt-apart")
        if apart is not None:
            limit = 0.97 if case == "fragmented" else 1.0
            targets.append((f"{case}: avg JCT with regrouping, of without", ours / apart, limit))
        search, plan_s = jct(case, "pollux", "plan_s_mean"), jct(case, "dagopt", "plan_s_mean")
        if search and plan_s:
            targets.append((f"{case}: planning, of Pollux's search", plan_s / search, 0.02))
    for (case, name), reference in PUBLISHED.items():
        ours = jct(case, name)
        if ours is not None:
            off = abs(ours / reference - 1)
            targets.append((f"{case}: {name}, off the published {reference:.0f} s by", off, 0.10))
    fits = [row["step_error"] for row in found.values() if "step_error" in row]
    if fits:
        text = f"step time on placements left out, mean of {len(fits)} applications, error"
        targets.append((text, sum(fits) / len(fits), 0.10))
    for case, name in sorted(found):
        if case.startswith("planning") and name == "dagopt":
            limit = 0.05 if " 64 " in case else 2.0
            targets.append((f"{case}, s", found[case, name]["plan_s_mean"], limit))
    table = Table("target", "must be at most", "is", "", box=None)
    for text, value, limit in targets:
        table.add_row(text, f"{limit:g}", f"{value:.3f}", "met" if value <= limit else "NOT MET")
    Console(width=120).print(table)
    return all(value <= limit for _, value, limit in targets)


if __name__ == "__main__":
    sys.exit(main())
