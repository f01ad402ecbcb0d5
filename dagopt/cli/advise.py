"""``dagopt advise``: what a recorded run would have gained, and the settings to use."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from dagopt.cli.output import check_new, table_console, written
from dagopt.cli.ranking import print_ranking
from dagopt.errors import InputError
from dagopt.units import format_count, format_s

if TYPE_CHECKING:
    from dagopt.app.advise import Advice, StageAdvice

_EPILOG = """
\b
examples:
  dagopt advise /var/log/spark-events/app-20260101-0001
  dagopt advise LOG --executors 16 --link-mbit 10000 --html advice.html
  dagopt advise /var/log/spark-events
"""

_BOUND = {"io": "I/O", "cpu": "CPU", "unknown": "unknown"}
_MOST_ROWS = 40
_FILE_WIDTH = 160
"""Columns where the output is no terminal."""


@click.command(epilog=_EPILOG)
@click.argument("log", metavar="LOG")
@click.option("--executors", type=int, metavar="N", help="As if there were N executors.")
@click.option("--gpus", type=int, metavar="N", help="As if each executor had N GPUs.")
@click.option("--link-mbit", type=float, metavar="MBIT", help="As if a host's link carried this.")
@click.option(
    "--slots-per-core",
    type=int,
    default=4,
    show_default=True,
    help="Most tasks that dagopt runs at once on a core.",
)
@click.option(
    "--recorded-slots-per-core",
    type=int,
    default=1,
    show_default=True,
    help="Task slots that the run had for each real core.",
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as a JSON object.")
@click.option(
    "--csv", "as_csv", is_flag=True, help="Print the stages, or ranked applications, as CSV."
)
@click.option(
    "--html", type=click.Path(path_type=Path), metavar="FILE", help="Write a page to open offline."
)
@click.option(
    "--perfetto",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the timelines as a trace for ui.perfetto.dev.",
)
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
def advise(
    *,
    log: str,
    executors: int | None,
    gpus: int | None,
    link_mbit: float | None,
    slots_per_core: int,
    recorded_slots_per_core: int,
    as_json: bool,
    as_csv: bool,
    html: Path | None,
    perfetto: Path | None,
    force: bool,
) -> None:
    """Say what a recorded run would have gained, stage by stage, and with which settings.

    LOG is the event log of any Spark application since 1.3; dagopt need not have run in it. It may
    be a rolling log's folder, in a zip file, or a URI of hdfs, s3, gs and others. The applications of
    a folder or zip file of several logs are ranked by what is surely gained.
    """
    # pyarrow takes long to import, and the other commands do without.
    from dagopt.app.advise import STAGE_COLUMNS, advise_log, stage_row  # noqa: PLC0415
    from dagopt.app.what_if import Cluster  # noqa: PLC0415
    from dagopt.events.log_paths import log_path  # noqa: PLC0415
    from dagopt.events.read import find_event_logs  # noqa: PLC0415

    if as_json and as_csv:
        raise InputError("--json and --csv: give one of them")
    check_new(html, perfetto, force=force)
    cluster = Cluster(
        num_executors=executors,
        num_gpus=gpus,
        link_mbit=link_mbit,
        slots_per_core=slots_per_core,
        recorded_slots_per_core=recorded_slots_per_core,
    )
    logs = find_event_logs(log_path(log))
    if len(logs) > 1:
        for option, file in (("--html", html), ("--perfetto", perfetto)):
            if file is not None:
                raise InputError(f"{option}: {log} holds {len(logs)} event logs; name one of them")
        print_ranking(logs, cluster, "json" if as_json else "csv" if as_csv else "text")
        return
    advice = advise_log(logs[0], cluster)
    if as_json:
        click.echo(json.dumps(advice.to_dict(), indent=2, allow_nan=False))
    elif as_csv:
        text = io.StringIO()
        writer = csv.DictWriter(text, STAGE_COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(stage_row(stage) for stage in advice.stages)
        click.echo(text.getvalue(), nl=False)
    else:
        _print(advice)
    if html is not None:
        _write_page(advice, html)
    if perfetto is not None:
        _write_trace(advice, perfetto)


# Private functions


def _print(advice: Advice) -> None:
    console = table_console(_FILE_WIDTH)

    def say(text: str, style: str = "") -> None:
        console.print(Text(text, style=style), soft_wrap=True)

    say(advice.verdict, "bold")
    if advice.gain is not None:
        out = advice.gain.outcome
        say(
            f"{advice.trace.name or advice.path}: recorded {format_s(out.recorded_elapsed_s)} on "
            f"{format_count(len(advice.gain.found.executors), 'executor')}; replayed with an error of "
            f"{out.elapsed_error_fraction:.1%} (stages: median {out.stage_error_fraction:.1%})"
        )
        for way in (*([out.boundaries] if out.boundaries else []), *out.other_slots):
            took, bound = format_s(way.elapsed_s), format_s(way.elapsed_bound_s)
            without = "" if way is out.boundaries else ", without dagopt"
            say(f"{way.name}{without}: {took} ± {bound}")
    if advice.stages:
        console.print(_table(advice.stages))
    if len(advice.stages) > _MOST_ROWS:
        say(f"The {_MOST_ROWS} longest of {len(advice.stages)} stages; --csv has all.")
    for stage in advice.stages:
        if stage.gpu is not None:
            held, other = format_s(stage.gpu.held_s), format_s(stage.gpu.other_s)
            say(
                f"Stage {stage.stage} held GPUs for {held}, for {other} of it doing something else."
            )
            if stage.gpu.form:
                say(f"  It would run {stage.gpu.form}: {stage.gpu.reason}")
    for note in advice.notes:
        say(f"Note: {note}.")
    if advice.properties:
        say("Properties, for dagopt submit --properties-file:", "bold")
    for key, value in advice.properties:
        say(f"{key} {value}")


def _table(stages: tuple[StageAdvice, ...]) -> Table:
    table = Table(box=None, pad_edge=False)
    headings = ("stage", "tasks", "bound by", "recorded", "wait", "CPU", "unknown", "saves", "name")
    for heading in headings:
        is_text = heading in {"bound by", "name"}
        table.add_column(heading, justify="left" if is_text else "right", no_wrap=True)
    longest = sorted(stages, key=lambda each: (-(each.recorded_s or 0), each.stage, each.attempt))
    for stage in sorted(longest[:_MOST_ROWS], key=lambda each: (each.stage, each.attempt)):
        split = stage.split
        saved = "unknown"
        if stage.saved_s is not None and stage.bound_s is not None:
            saved = f"{format_s(stage.saved_s)} ± {format_s(stage.bound_s)}"
        cells = (
            f"{stage.stage}.{stage.attempt}" if stage.attempt else str(stage.stage),
            str(stage.num_tasks),
            _BOUND[stage.bound],
            "unknown" if stage.recorded_s is None else format_s(stage.recorded_s),
            _share(split.fetch_wait_s, split.elapsed_s) if split else "?",
            _share(split.cpu_s, split.elapsed_s) if split else "?",
            _share(split.unexplained_s, split.elapsed_s) if split else "?",
            saved,
            " ".join(stage.name.split()),
        )
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _share(part_s: float, whole_s: float) -> str:
    return f"{part_s / whole_s:.0%}" if whole_s > 0 else "?"


def _write_page(advice: Advice, path: Path) -> None:
    from dagopt.cli.advice_page import advice_page  # noqa: PLC0415
    from dagopt.reporting.page import render  # noqa: PLC0415

    with written(path) as file:
        file.write(render(advice_page(advice)))


def _write_trace(advice: Advice, path: Path) -> None:
    from dagopt.cli.advice_page import advice_panels  # noqa: PLC0415
    from dagopt.reporting.perfetto import write_perfetto  # noqa: PLC0415

    with written(path) as file:
        write_perfetto(advice_panels(advice), file)
