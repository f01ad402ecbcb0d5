"""What a sweep needs of Spark, done in this process, and drivers that die where a test says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from dagopt.tune.checkpoint import Store


class Rows:
    """An RDD that is a list."""

    def __init__(self, rows: Sequence[Any]) -> None:
        self.rows = rows

    def map(self, function: Callable[[Any], Any]) -> Rows:
        return Rows([function(row) for row in self.rows])

    def collect(self) -> Sequence[Any]:
        return self.rows


def executor(host: str, cores: int, gpus: int | None = None) -> Any:
    """What Spark's status says of an executor."""
    addresses = SimpleNamespace(addresses=lambda: [str(n) for n in range(gpus or 0)])
    option = SimpleNamespace(isDefined=lambda: gpus is not None, get=lambda: addresses)
    return SimpleNamespace(
        id=lambda: "0",
        totalCores=lambda: cores,
        resourceProfileId=lambda: 0,
        resources=lambda: SimpleNamespace(get=lambda _: option),
        hostPort=lambda: f"{host}:4040",
    )


class Context:
    """A SparkContext whose tasks run when they are asked for."""

    master = "local[2]"
    applicationId = "local-1"  # noqa: N815  Spark's name

    def __init__(self) -> None:
        self.properties: dict[str, str | None] = {}
        self.conf: dict[str, str] = {}
        self.executors = [executor("localhost", 2)]

    def getConf(self) -> Any:  # noqa: N802  Spark's name
        return self.conf

    @property
    def _jsc(self) -> Any:
        """The way to the executors in the JVM."""
        found = SimpleNamespace(size=lambda: len(self.executors), apply=self.executors.__getitem__)
        store = SimpleNamespace(executorList=lambda _: found)
        return SimpleNamespace(sc=lambda: SimpleNamespace(statusStore=lambda: store))

    def setLocalProperty(self, key: str, value: str | None) -> None:  # noqa: N802  Spark's name
        self.properties[key] = value

    def getLocalProperty(self, key: str) -> str | None:  # noqa: N802  Spark's name
        return self.properties.get(key)

    def broadcast(self, value: Any) -> Any:
        return SimpleNamespace(value=value, destroy=lambda: None)

    def parallelize(self, rows: Sequence[Any], _: int) -> Rows:
        return Rows(rows)


def session() -> Any:
    """A session with such a context."""
    return SimpleNamespace(sparkContext=Context())


class Killed(BaseException):
    """The driver has died."""


@contextmanager
def dying(patch: pytest.MonkeyPatch, left: int) -> Iterator[None]:
    """The driver dies before it changes the checkpoint for the ``left``-th time, from 0 on."""
    count = iter(range(left))

    def mortal(change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*arguments: Any) -> Any:
            if next(count, None) is None:
                raise Killed
            return change(*arguments)

        return changed

    with patch.context() as patched:
        for name in ("add_boundary", "write", "delete"):
            patched.setattr(Store, name, mortal(getattr(Store, name)))
        yield
