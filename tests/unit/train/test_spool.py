from __future__ import annotations

import json
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dagopt.errors import InputError
from dagopt.train.job import TrainJob
from dagopt.train.records import JobStatus
from dagopt.train.spool import Spool, ask
from dagopt.train.sweep import SweepJob

FILE = """
from dagopt.train import TrainJob
class Tiny:
    num_examples = 10
    def init(self, seed): pass
    batch = gradients = update = init
job = TrainJob(name="tiny", training=Tiny(), num_iterations=4, global_batch=12)
"""


class Jobs:
    """Jobs that never run."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.goes_on = threading.Event()

    def submit(self, *jobs: TrainJob | SweepJob) -> None:
        if any(job.name == "bad" for job in jobs):
            raise InputError("job bad is there already")
        self.names += [job.name for job in jobs]

    def jobs(self) -> list[JobStatus]:
        return []

    def cancel(self, name: str) -> bool:
        raise InputError(f"there is no job {name}; there are none")

    def logs(self, name: str) -> list[str]:
        if name == "slow":
            assert self.goes_on.wait(60)
        return [f"{name} said", "hello"]


@contextmanager
def answering(path: Path) -> Iterator[Jobs]:
    jobs, spool = Jobs(), Spool(str(path))
    spool.start(jobs)
    try:
        yield jobs
    finally:
        jobs.goes_on.set()
        spool.close()


def until(condition: Callable[[], object]) -> None:
    """Wait for something that happens in another thread."""
    end_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def files(path: Path) -> list[str]:
    """Requests and answers that are there."""
    return sorted(file.name for file in path.glob("*/*"))


def submit(path: Path, source: str) -> Any:
    return ask(str(path), {"do": "submit", "file": "job.py", "source": source}, 20)


def test_requests_are_answered_in_a_folder_that_is_its_owners_only(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    with answering(path) as jobs:
        assert submit(path, FILE) == ["tiny"]
        assert jobs.names == ["tiny"]
        assert ask(str(path), {"do": "logs", "name": "one"}, 20) == ["one said", "hello"]
        assert ask(str(path), {"do": "list"}, 20) == []
    assert path.stat().st_mode & 0o777 == 0o700
    assert files(path) == []


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        ({"do": "cancel", "name": "x"}, "there is no job x"),
        ({"do": "dance"}, "request is 'dance'"),
        ({"do": "cancel"}, "KeyError"),
        ({"done": "cancel"}, "the request cannot be read: KeyError"),
        (
            {"do": "submit", "file": "a.py", "source": "def f():\n  1 / 0\n\nf()"},
            'File "a.py", line 2, in f: ZeroDivisionError: division by zero$',
        ),
        (
            {"do": "submit", "file": "a.py", "source": "x = 1\njson.loads"},
            'File "a.py", line 2, in <module>: NameError: ',
        ),
        (
            {"do": "submit", "file": "a.py", "source": "import json\njson.loads('')"},
            'File "a.py", line 2, in <module>: JSONDecodeError: Expecting value',
        ),
        (
            {"do": "submit", "file": "a.py", "source": "x = 1\ny = ("},
            'File "a.py", line 2: SyntaxError: ',
        ),
        (
            {"do": "submit", "file": "a.py", "source": FILE.replace("=4", "=0")},
            'File "a.py", line 7, in <module>: job tiny: num_iterations is 0',
        ),
        ({"do": "submit", "file": "a.py", "source": "import sys; sys.exit(3)"}, "SystemExit: 3"),
        ({"do": "submit", "file": "a.py", "source": "raise KeyboardInterrupt"}, "KeyboardInt"),
        (
            {"do": "submit", "file": "a.py", "source": "x = 1"},
            "a.py has no TrainJob and no SweepJob",
        ),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, request_: dict[str, str], told: str) -> None:
    path = tmp_path / "spool"
    with answering(path) as jobs:
        with pytest.raises(InputError, match=told):
            ask(str(path), request_, 20)
        assert ask(str(path), {"do": "list"}, 20) == []
        assert jobs.names == []


def test_nobody_answers(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    with pytest.raises(InputError, match="is not there"):
        ask(str(path), {"do": "list"}, 0.1)
    spool = Spool(str(path))
    with pytest.raises(InputError, match="no application answers"):
        ask(str(path), {"do": "list"}, 0.1)
    assert list((path / "requests").iterdir()) == []
    path.chmod(0o750)
    with pytest.raises(InputError, match="closed to others"):
        ask(str(path), {"do": "list"}, 0.1)
    with pytest.raises(InputError, match="closed to others"):
        Spool(str(path))
    spool.close()


def test_a_request_that_is_given_up_costs_only_its_own_answer(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    with answering(path) as jobs, ThreadPoolExecutor() as pool:
        slow = pool.submit(ask, str(path), {"do": "logs", "name": "slow"}, 0.5)
        with pytest.raises(InputError, match=r"was taken and may be .* not answered within 0.5 s"):
            slow.result()
        # The one thread that answers is at the first one still.
        with pytest.raises(InputError, match=r"was taken by nobody within 0.1 s"):
            ask(str(path), {"do": "list"}, 0.1)
        assert files(path) == []
        jobs.goes_on.set()
        assert ask(str(path), {"do": "list"}, 20) == []
        until(lambda: files(path) == [])


def test_whoever_asks_gives_up_or_is_answered_and_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "spool"

    def hand_in(number: int) -> str:
        source = FILE.replace("tiny", f"tiny{number}")
        try:
            (name,) = ask(str(path), {"do": "submit", "file": "a.py", "source": source}, 0.001)
        except InputError as error:
            return str(error).partition("the request ")[2]
        return str(name)

    with answering(path) as jobs, ThreadPoolExecutor(8) as pool:
        told = list(pool.map(hand_in, range(100)))
        until(lambda: files(path) == [])
    for number, answer in enumerate(told):
        expected = {
            "was taken by nobody within 0.001 s": (0,),
            "was taken and may be carried out still, but was not answered within 0.001 s": (0, 1),
            f"tiny{number}": (1,),
        }
        assert jobs.names.count(f"tiny{number}") in expected[answer]


def test_a_spool_has_one_scheduler_which_does_nothing_that_was_left_there(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    request = json.dumps({"do": "submit", "file": "job.py", "source": FILE})
    with answering(path):
        with pytest.raises(InputError, match=f"has a scheduler already: process {os.getpid()} on"):
            Spool(str(path))
        assert submit(path, FILE) == ["tiny"]
    for name in ("requests/1.json", "requests/2.taken", "requests/3.part", "answers/4.json"):
        (path / name).write_text(request)
    with answering(path) as jobs:
        assert files(path) == []
        assert ask(str(path), {"do": "list"}, 20) == []
        assert jobs.names == []


def test_an_answer_that_cannot_be_written_costs_only_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "spool"
    with answering(path):
        (path / "answers").rmdir()
        with pytest.raises(InputError, match="was taken and may be carried out still"):
            ask(str(path), {"do": "list"}, 0.5)
        (path / "answers").mkdir()
        assert ask(str(path), {"do": "list"}, 20) == []
    assert "a request of `dagopt train` cannot be answered: [Errno 2]" in caplog.text


@pytest.mark.parametrize("change", ["opened", "replaced"])
def test_a_folder_that_became_another_ones_is_not_answered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: str
) -> None:
    path, moved, request = tmp_path / "spool", tmp_path / "moved", "requests/1.json"
    caplog.set_level(logging.WARNING)
    with answering(path) as jobs:
        if change == "opened":
            path.chmod(0o755)
        else:
            path.rename(moved)
            shutil.copytree(moved, path)
        told = "must be yours" if change == "opened" else "is another folder"
        # A look between rename and copy has told another thing before.
        until(lambda: told in caplog.text)
        num_told = len(caplog.records)
        (path / request).write_text(json.dumps({"do": "logs", "name": "one"}))
        jobs.goes_on.wait(0.3)  # several looks
        assert files(path) == ["1.json"]
        assert len(caplog.records) == num_told
        (path / request).unlink()
        if change == "opened":
            path.chmod(0o700)
        else:
            shutil.rmtree(path)
            moved.rename(path)
        assert ask(str(path), {"do": "list"}, 20) == []


def test_a_file_that_hangs_blocks_nobody_and_is_not_submitted_after_the_end(tmp_path: Path) -> None:
    path, began, goes_on = tmp_path / "spool", tmp_path / "began", tmp_path / "goes_on"
    wait = f"""
import pathlib, time
pathlib.Path({str(began)!r}).touch()
while not pathlib.Path({str(goes_on)!r}).exists():
    time.sleep(0.01)
"""
    before = set(threading.enumerate())
    with ThreadPoolExecutor() as pool:
        with answering(path) as jobs:
            slow = pool.submit(submit, path, wait + FILE)
            until(began.exists)
            assert ask(str(path), {"do": "list"}, 20) == []
            assert submit(path, FILE.replace("tiny", "quick")) == ["quick"]
            assert not slow.done()
            threads = set(threading.enumerate()) - before
        with pytest.raises(InputError, match="the application has ended"):
            slow.result()
        goes_on.touch()
        until(lambda: not any(one.daemon for one in threads & set(threading.enumerate())))
    assert jobs.names == ["quick"]
    assert files(path) == []


def test_a_file_is_submitted_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    more = 'more = TrainJob(name="{}", training=Tiny(), num_iterations=4, global_batch=12)\n'
    with answering(path) as jobs:
        with pytest.raises(InputError, match="job bad is there already"):
            submit(path, FILE + more.format("bad"))
        assert jobs.names == []
        assert submit(path, FILE + more.format("more") + "same = job\n") == ["tiny", "more"]
        assert jobs.names == ["tiny", "more"]
