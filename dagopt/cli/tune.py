"""``dagopt tune``: looks at sweeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.table import Table

from dagopt.cli.output import show_json, show_table
from dagopt.errors import InputError, last_line

_EPILOG = """
\b
example:
  dagopt tune show digits --storage sqlite:///sweeps.db
  dagopt tune show digits --storage sqlite:///sweeps.db --json | jq '.[0].params'
"""


@click.group(epilog=_EPILOG)
def tune() -> None:
    """Look at sweeps of hyper-parameters."""


@tune.command(epilog=_EPILOG)
@click.argument("study")
@click.option("--storage", required=True, metavar="URL", help="Optuna's storage of the study.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array, a trial an object.")
def show(*, study: str, storage: str, as_json: bool) -> None:
    """Show the trials of STUDY, the best first: also while its sweep runs."""
    rows = trial_rows(study, storage)
    if as_json:
        show_json(rows)
        return
    table = Table(box=None)
    for column in ("trial", "state", "loss", "iterations", "merged", "parameters", "error"):
        table.add_column(column)
    for row in rows:
        params = ", ".join(f"{name}={value}" for name, value in sorted(row["params"].items()))
        loss = "" if row["loss"] is None else f"{row['loss']:.6g}"
        cells = (row["iterations"], row["merged_iterations"])
        error = last_line(row["error"])
        table.add_row(str(row["trial"]), row["state"], loss, *map(str, cells), params, error)
    show_table(table)


def trial_rows(study: str, storage: str) -> list[dict[str, Any]]:
    """Trials of a study, those that completed first, the best of them at the top.

    Raises:
        InputError: optuna is not installed, or there is no such storage or study.
    """
    try:
        import optuna  # noqa: PLC0415  the extra "tune"
    except ImportError as error:
        raise InputError("dagopt tune needs optuna: pip install 'dagopt[tune]'") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    file = storage.removeprefix("sqlite:///")
    if file != storage and "?" not in file and not Path(file).exists():  # it would be made
        raise InputError(f"storage '{storage}' cannot be read: there is no such file")
    try:
        found = optuna.load_study(study_name=study, storage=storage)
    except KeyError as error:
        raise InputError(f"study '{study}' is not in {storage}") from error
    except Exception as error:  # errors of the database's library, whichever it is
        raise InputError(f"storage '{storage}' cannot be read: {error}") from error
    sign = -1 if found.direction == optuna.study.StudyDirection.MAXIMIZE else 1
    rows = []
    for trial in found.get_trials(deepcopy=False):
        values = trial.intermediate_values
        loss = trial.value if trial.value is not None else values.get(max(values, default=0))
        iterations = trial.user_attrs.get("dagopt_iterations", max(values, default=0))
        rows.append(
            {
                "trial": trial.number,
                "state": trial.state.name.lower(),
                "loss": loss,
                "iterations": iterations,
                "merged_iterations": trial.user_attrs.get("dagopt_merged_iterations", 0),
                "params": dict(trial.params),
                "error": trial.user_attrs.get("dagopt_error", ""),
            }
        )

    def rank(row: dict[str, Any]) -> tuple[bool, float, int]:
        loss = row["loss"]
        return row["state"] != "complete", 0.0 if loss is None else sign * loss, row["trial"]

    return sorted(rows, key=rank)
