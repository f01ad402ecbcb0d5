"""Measure what dagopt gains on an emulated cluster, against stock Spark with 1, 2 and 4 slots a core.

Needs root and iproute2: hosts are network namespaces, and links are shaped with tc. Everything
that is made is removed again. Writes overlap.json and an event log of every run.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
from rich.console import Console

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))  # started by path, so only its own folder is on the path

from jobs.emulated_network import ClusterError, check_machine  # noqa: E402
from jobs.overlap.cases import CASES, DEFAULT_CASES, Case  # noqa: E402
from jobs.overlap.measure import Measurement  # noqa: E402
from jobs.overlap.modes import DAGOPT, MODES, ModeError, dagopt_properties  # noqa: E402
from jobs.overlap.options import bench_options, names  # noqa: E402
from jobs.overlap.report import measurement_table, verdict_table, verdicts  # noqa: E402
from jobs.overlap.runner import Plan, RunError, clusters_for, num_steps, run_cases  # noqa: E402
from jobs.overlap.steps import Steps  # noqa: E402
from jobs.overlap.tpch import TPCH, run_tpch, tpch_steps, tpch_table  # noqa: E402
from jobs.predictions import overlap_predictions, prediction_table  # noqa: E402

_EPILOG = """
\b
examples:
  sudo .venv/bin/python jobs/bench_overlap.py
  sudo CASES=mixed,two-sources REPETITIONS=5 .venv/bin/python jobs/bench_overlap.py
"""


@click.command(help=__doc__, epilog=_EPILOG, context_settings={"show_default": True})
@bench_options(
    names(*CASES, TPCH),
    DEFAULT_CASES,
    MODES,
    {
        "cases": f"What to run, of these, real-cpu and {TPCH}.",
        "repetitions": "Measured runs a mode.",
        "out": "Folder of overlap.json, event logs and logs.",
    },
)
@click.option(
    "--num-hosts",
    type=click.IntRange(2, 50),
    envvar="NUM_HOSTS",
    default=2,
    help="Hosts with executors.",
)
@click.option(
    "--link-mbit",
    type=click.FloatRange(1),
    envvar="LINK_MBIT",
    default=100.0,
    help="Rate of each link.",
)
@click.option(
    "--scale",
    type=click.FloatRange(0.1),
    envvar="SCALE",
    default=0.5,
    help="Length of the tasks; 1 is 0.75 s of fetch and 0.8 s of computing.",
)
@click.option(
    "--windows-per-fetch",
    type=click.FloatRange(0),
    envvar="WINDOWS_PER_FETCH",
    default=4.0,
    help="Fetch of a task in units of spark.reducer.maxSizeInFlight; 0: Spark's default of 48m.",
)
@click.option(
    "--tpch-scale",
    type=click.FloatRange(0, min_open=True),
    envvar="TPCH_SCALE",
    default=1.0,
    help="Scale factor of the case tpch.",
)
@click.option("--subnet", envvar="SUBNET", help="A free /24 [default: one of 198.18.0.0/15].")
def main(
    cases: tuple[str, ...],
    modes: tuple[str, ...],
    num_hosts: int,
    link_mbit: float,
    repetitions: int,
    scale: float,
    windows_per_fetch: float,
    tpch_scale: float,
    subnet: str | None,
    out: Path,
) -> None:
    """Run the cases, write overlap.json, print the tables."""
    try:
        check_machine()
        if DAGOPT in modes:
            dagopt_properties()
    except ClusterError as error:
        raise click.ClickException(str(error)) from error
    except ModeError as error:
        raise click.ClickException(f"{error} (or leave dagopt out of --modes)") from error
    out.mkdir(parents=True, exist_ok=True)
    plan = Plan(
        num_hosts=num_hosts,
        link_mbit=link_mbit,
        repetitions=repetitions,
        scale=scale,
        windows_per_fetch=windows_per_fetch,
        modes=modes,
        out_dir=out.resolve(),
        subnet=subnet,
    )
    console = Console()
    failures: list[str] = []
    plain = [CASES[name] for name in cases if name != TPCH]
    measurements = _run_cases(plain, plan, failures) if plain else []
    if measurements:
        console.print(measurement_table(measurements))
        console.print(verdict_table(verdicts(measurements)))
        console.print(prediction_table(overlap_predictions(out)))
        console.print(f"Wrote {out / 'overlap.json'}")
    if TPCH in cases:
        try:
            with Steps(tpch_steps(plan)) as step:
                queries = run_tpch(plan, tpch_scale, step, failures)
        except (ClusterError, RunError) as error:
            failures.append(f"tpch: {error}")
        else:
            console.print(tpch_table(queries))
            console.print(f"Wrote {out / 'tpch.json'}")
    for failure in failures:
        console.print(f"[red]failed:[/] {failure}")
    sys.exit(1 if failures else 0)


def _run_cases(cases: list[Case], plan: Plan, failures: list[str]) -> list[Measurement]:
    """Run every case; what fails is told at the end, and the others go on."""
    measurements: list[Measurement] = []
    with Steps(num_steps(cases, plan)) as step:
        for own in clusters_for(cases):
            measurements += run_cases(own, plan, step, failures)
            rows = json.dumps([row.row() for row in measurements], indent=1)
            (plan.out_dir / "overlap.json").write_text(f"{rows}\n", encoding="utf-8")
    return measurements


if __name__ == "__main__":
    main()
