"""Measure what dagopt gains on an emulated cluster, against stock Spark with 1, 2 and 4 slots a core.

Needs root and iproute2: hosts are network namespaces, and links are shaped with tc. Everything
that is made is removed again. Writes overlap.json and an event log of every run.

    sudo .venv/bin/python jobs/bench_overlap.py
    sudo CASES=mixed,two-sources REPETITIONS=5 .venv/bin/python jobs/bench_overlap.py
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))  # started by path, so only its own folder is on the path

from jobs.emulated_cluster import ClusterError, check_machine  # noqa: E402
from jobs.overlap.cases import CASES  # noqa: E402
from jobs.overlap.measure import Measurement  # noqa: E402
from jobs.overlap.modes import DAGOPT, MODES, ModeError, dagopt_properties  # noqa: E402
from jobs.overlap.report import measurement_table, verdict_table, verdicts  # noqa: E402
from jobs.overlap.runner import Plan, RunError, run_case  # noqa: E402


def _names(allowed: tuple[str, ...]) -> click.ParamType[tuple[str, ...]]:
    """A comma-separated list of some of these names."""

    class Names(click.ParamType[tuple[str, ...]]):
        name = "names"

        def convert(
            self, value: object, param: click.Parameter | None, ctx: click.Context | None
        ) -> tuple[str, ...]:
            if isinstance(value, tuple):
                return value
            names = tuple(name for name in str(value).replace(",", " ").split() if name)
            for name in names:
                if name not in allowed:
                    self.fail(f"{name!r} is not one of {', '.join(allowed)}", param, ctx)
            return names

    return Names()


@click.command(help=__doc__, context_settings={"show_default": True})
@click.option(
    "--cases", type=_names((*CASES,)), envvar="CASES", default=",".join(CASES), help="What to run."
)
@click.option(
    "--modes", type=_names(MODES), envvar="MODES", default=",".join(MODES), help="Modes to compare."
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
    "--repetitions",
    type=click.IntRange(1),
    envvar="REPETITIONS",
    default=3,
    help="Measured runs a mode.",
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
@click.option("--subnet", envvar="SUBNET", help="A free /24 [default: one of 198.18.0.0/15].")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=REPOSITORY / "build" / "bench",
    help="Folder of overlap.json, event logs and logs.",
)
def main(
    cases: tuple[str, ...],
    modes: tuple[str, ...],
    num_hosts: int,
    link_mbit: float,
    repetitions: int,
    scale: float,
    windows_per_fetch: float,
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
    measurements, failures = _run_all(cases, plan, console)
    console.print(measurement_table(measurements))
    console.print(verdict_table(verdicts(measurements)))
    for failure in failures:
        console.print(f"[red]failed:[/] {failure}")
    console.print(f"Wrote {out / 'overlap.json'}")
    sys.exit(1 if failures else 0)


def _run_all(
    cases: tuple[str, ...], plan: Plan, console: Console
) -> tuple[list[Measurement], list[str]]:
    """Run every case; one that fails is told at the end, and the others go on."""
    measurements: list[Measurement] = []
    failures: list[str] = []
    num_steps = sum(
        1 + len(set(plan.modes) & set(CASES[case].modes)) * (1 + plan.repetitions) for case in cases
    )
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("starting", total=num_steps)
        done = -1

        def step(text: str) -> None:
            nonlocal done
            done += 1
            progress.update(bar, completed=done, description=text)

        for name in cases:
            start_s = time.monotonic()
            try:
                measurements += run_case(CASES[name], plan, step)
            except (ClusterError, RunError) as error:
                failures.append(str(error))
            console.print(f"{name}: {time.monotonic() - start_s:.0f} s")
            rows = [row.row() for row in measurements]
            text = json.dumps(rows, indent=1) + "\n"
            (plan.out_dir / "overlap.json").write_text(text, encoding="utf-8")
        progress.update(bar, completed=num_steps, description="done")
    return measurements, failures


if __name__ == "__main__":
    main()
