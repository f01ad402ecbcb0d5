"""What ``dagopt train`` prints of what an application says, whatever that is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.table import Table

from dagopt.cli import train
from dagopt.cli.main import main
from dagopt.cli.output import show_table, table_console

TOLD = "KeyError: [/foo] [red]x[/red] :warning: \udcff"
ROW = {
    "name": "one",
    "status": "failed",
    "iteration": 3,
    "num_iterations": 5,
    "num_accelerators": 0,
    "num_moves": 0,
    "num_restarts": 0,
    "losses": [float("nan")],
    "error": f"Traceback\n{TOLD}",
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the application was asked; it has one job."""
    found: list[Any] = []
    answers = {"list": [ROW], "logs": [TOLD], "submit": ["one"]}

    def ask(_: str, request: dict[str, Any], __: float) -> Any:
        found.append(request)
        return answers[request["do"]]

    monkeypatch.setattr(train, "ask", ask)
    return found


def said(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["train", *arguments, "--spool", "x"]) == 0
    return capfd.readouterr().out


@pytest.mark.usefixtures("asked")
def test_errors_and_logs_are_shown_as_they_are(capfd: pytest.CaptureFixture[str]) -> None:
    shown = TOLD.replace("\udcff", "\\udcff")
    words = said(capfd, "list").split()
    assert [word for word in shown.split() if word not in words] == []
    assert said(capfd, "logs", "one").strip() == shown


@pytest.mark.usefixtures("asked")
def test_a_loss_that_is_no_number_is_null_in_json(capfd: pytest.CaptureFixture[str]) -> None:
    def refuse(name: str) -> None:
        pytest.fail(f"{name} is no JSON")

    (row,) = json.loads(said(capfd, "list", "--json"), parse_constant=refuse)
    assert row == ROW | {"losses": [None]}


def test_a_file_is_read_in_its_own_encoding_or_refused(
    asked: list[Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.py"
    file.write_bytes(b"# -*- coding: latin-1 -*-\nname = '\xe9'\n")
    assert said(capfd, "submit", str(file)) == "submitted one\n"
    assert "name = 'é'" in asked[0]["source"]
    file.write_bytes(b"name = '\xe9'\n")
    assert main(["train", "submit", str(file), "--spool", "x"]) == 2
    told = capfd.readouterr().err
    assert told.startswith(f"dagopt: {file} cannot be read: ")
    assert told.count("\n") == 1


def test_markup_is_letters_in_every_table(capfd: pytest.CaptureFixture[str]) -> None:
    table = Table(box=None, show_header=False)
    table.add_row("[/foo] :warning:")
    show_table(table)
    table_console(80).print(table)
    assert capfd.readouterr().out.split() == ["[/foo]", ":warning:"] * 2
