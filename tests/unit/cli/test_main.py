"""The command line: output, exit codes, and one line for what is wrong."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import dagopt
from dagopt.cli.main import commands, main
from dagopt.spark import launch
from dagopt.spark.properties import parse_properties
from tests.unit.events.event_lines import small_log

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def fake_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A Spark 3.5.1 of which only names are right, in SPARK_HOME, with a jar for it."""
    home = tmp_path / "spark home"
    for folder in ("bin", "jars"):
        (home / folder).mkdir(parents=True)
    submit = home / "bin" / "spark-submit"
    submit.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    submit.chmod(0o755)
    (home / "jars" / "spark-core_2.12-3.5.1.jar").touch()
    (tmp_path / "dagopt-spark-3.5.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setattr(launch, "jar_path", lambda _: tmp_path / "dagopt-spark-3.5.jar")
    return home


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"dagopt {dagopt.__version__}\n"


@pytest.mark.parametrize("name", sorted(commands.commands))
def test_each_command_has_help_with_an_example(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert "example" in text
    assert f"dagopt {name}" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frob"], "dagopt: No such command 'frob'.\n"),
        (
            ["conf", "--cores", "0"],
            "dagopt: Invalid value for '--cores': 0 is not in the range x>=1.\n",
        ),
        (
            ["conf", "--option", "mode=onn"],
            "dagopt: spark.dagopt.mode is 'onn': allowed is off, explain, on\n",
        ),
        (["conf", "--option", "mode"], "dagopt: --option: expected key=value, got 'mode'\n"),
        (
            ["conf", "--spark-version", "new"],
            "dagopt: Spark version: expected one such as 4.3.0, got 'new'\n",
        ),
        (
            ["submit", "--conf", "spark.dagopt.maxDelay=soon", "job.py"],
            "dagopt: spark.dagopt.maxDelay is 'soon': allowed is a time of at least 0ms, such as 10s\n",
        ),
        (
            ["submit", "--master", "local[2]", "--cores", "2", "job.py"],
            "dagopt: --cores: options of dagopt come before those of spark-submit\n",
        ),
        (["submit"], "dagopt: Missing argument 'SPARK-SUBMIT-ARGUMENTS...'.\n"),
        (
            ["learn", "/no/such/folder", "-o", "p.parquet"],
            "dagopt: /no/such/folder: no such file or folder\n",
        ),
    ],
)
@pytest.mark.usefixtures("fake_spark")
def test_bad_input_is_one_line_and_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == message


def test_no_command_is_the_help_and_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "Commands:" in capsys.readouterr().err


def test_a_spark_that_is_not_there_is_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPARK_HOME", "/no/such/spark")
    assert main(["conf"]) == 2
    assert capsys.readouterr().err.startswith("dagopt: SPARK_HOME is /no/such/spark, but ")


@pytest.mark.usefixtures("fake_spark")
def test_an_unsupported_spark_is_4(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conf", "--spark-version", "3.4.1"]) == 4
    assert capsys.readouterr().err == (
        "dagopt: Spark 3.4.1 runs without dagopt, which works with Spark 3.5 to 4.3\n"
    )


@pytest.mark.usefixtures("fake_spark")
def test_the_three_layouts_of_conf_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["conf", "--master", "k8s://h", "--cores", "2", "--option", "slots_per_core=3"]
    assert main([*arguments, "--json"]) == 0
    captured = capsys.readouterr()
    settings = json.loads(captured.out)
    assert settings["spark.executor.cores"] == "6"
    assert (
        captured.err
        == "dagopt: executors offer 3 slots a core and still request 2 cores of Kubernetes\n"
    )
    assert main([*arguments, "--format", "properties"]) == 0
    assert parse_properties(capsys.readouterr().out) == settings
    assert main(arguments) == 0
    words = shlex.split(capsys.readouterr().out)
    assert words[::2] == ["--conf"] * len(settings)
    assert dict(word.split("=", 1) for word in words[1::2]) == settings


def test_submit_says_what_it_would_run(
    fake_spark: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["submit", "--dry-run", "--option", "mode=off", "job.py", "a b"]) == 0
    captured = capsys.readouterr()
    submit = str(fake_spark / "bin" / "spark-submit")
    assert shlex.split(captured.out) == [submit, "--conf", "spark.dagopt.mode=off", "job.py", "a b"]
    assert captured.err == "dagopt: spark.dagopt.mode is off: nothing else is set\n"


@pytest.mark.parametrize(
    ("script", "exit_code"), [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", -15)]
)
def test_exit_code_and_signal_of_spark_submit_pass_through(
    fake_spark: Path, script: str, exit_code: int
) -> None:
    submit = fake_spark / "bin" / "spark-submit"
    submit.write_text(f'#!/bin/sh\necho "$@"\n{script}\n', encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-m", "dagopt.cli", "submit", "--option", "mode=off", "job.py", "x"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == exit_code
    assert ended.stdout == "--conf spark.dagopt.mode=off job.py x\n"


def test_learn_writes_a_profile_and_never_over_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = ROOT / "tests" / "golden" / "event_log"
    output = tmp_path / "profile.parquet"
    assert main(["learn", str(logs), "-o", str(output), "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["num_logs_read"] >= 1
    assert captured.err.endswith(f"Wrote {output}\n")
    assert output.is_file()
    assert main(["learn", str(logs), "-o", str(output)]) == 2
    assert capsys.readouterr().err == f"dagopt: {output} exists; --force overwrites\n"
    assert main(["learn", str(logs), "-o", str(output), "--force"]) == 0
    assert "stages learned from" in capsys.readouterr().out


def test_advise_prints_verdict_stages_and_properties(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"\n".join(small_log()))
    assert main(["advise", str(log)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("0 s: nothing to gain that is sure.")
    assert " on 1 executor; " in out
    assert "spark.dagopt.slotsPerCore 4\n" in out
    (row,) = [line.split() for line in out.splitlines() if line.strip().startswith("0 ")][1:]
    assert row[:4] == ["0", "2", "I/O", "3.20"]
    assert main(["advise", str(log), "--csv"]) == 0
    header, row_text = capsys.readouterr().out.splitlines()
    assert header.startswith("stage,attempt,name,num_tasks,bound,why,recorded_s")
    assert row_text.startswith("0,0,count at /home/me/job.py:12,2,io,")
    assert main(["advise", str(log), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "etl"


def test_advise_gives_no_properties_where_nothing_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"\n".join(small_log()[:3]))
    assert main(["advise", str(log)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Unknown: nothing can be replayed")
    assert "Properties" not in out


def test_advise_refuses_what_is_no_event_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("hello\n")
    assert main(["advise", str(text)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (f"dagopt: {text}: not a Spark event log: no line of it is an event\n")


def test_advise_ranks_the_applications_of_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"\n".join(small_log()))
    (tmp_path / "notes.txt").write_text("hello\n")
    assert main(["advise", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("0 of 2 applications would surely gain\n")
    assert captured.out.splitlines()[2].endswith(f"etl          {tmp_path}/a")
    assert captured.err.endswith("notes.txt: not a Spark event log: no line of it is an event\n")
    assert main(["advise", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["path"] for each in found["applications"]] == [f"{tmp_path}/a", f"{tmp_path}/b"]
    assert main(["advise", str(tmp_path), "--csv"]) == 0
    assert capsys.readouterr().out.startswith("path,app_id,name,spark_version,recorded_s,saved_s")
    assert main(["advise", str(tmp_path), "--html", str(tmp_path / "page.html")]) == 2
    assert "holds 3 event logs; name one of them" in capsys.readouterr().err


def test_a_look_at_a_study_makes_no_database(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "none.db"
    assert main(["tune", "show", "sweep", "--storage", f"sqlite:///{file}"]) == 2
    assert "there is no such file" in capsys.readouterr().err
    assert not file.exists()
