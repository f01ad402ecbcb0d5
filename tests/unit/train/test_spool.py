from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dagopt.errors import InputError
from dagopt.train.job import TrainJob
from dagopt.train.records import JobStatus
from dagopt.train.spool import Spool, ask

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

    def submit(self, job: TrainJob) -> None:
        self.names.append(job.name)

    def jobs(self) -> list[JobStatus]:
        return []

    def cancel(self, name: str) -> None:
        raise InputError(f"there is no job {name}; there are none")

    def logs(self, name: str) -> list[str]:
        return [f"{name} said", "hello"]


@contextmanager
def answering(path: Path) -> Iterator[Jobs]:
    jobs, spool, ends = Jobs(), Spool(str(path)), threading.Event()

    def run() -> None:
        while not ends.wait(0.01):
            spool.answer(jobs)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield jobs
    finally:
        ends.set()
        thread.join()


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
    assert [file for file in path.rglob("*") if file.is_file()] == []


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        ({"do": "cancel", "name": "x"}, "there is no job x"),
        ({"do": "dance"}, "request is 'dance'"),
        ({"do": "submit", "file": "a.py", "source": "1 / 0"}, "ZeroDivisionError"),
        ({"do": "submit", "file": "a.py", "source": "x = 1"}, "a.py has no TrainJob"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, request_: dict[str, str], told: str) -> None:
    path = tmp_path / "spool"
    with answering(path), pytest.raises(InputError, match=told):
        ask(str(path), request_, 20)


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
