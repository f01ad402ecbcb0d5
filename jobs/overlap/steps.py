"""A progress bar for benchmarks."""

from __future__ import annotations

from collections.abc import Callable

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class Steps:
    """A progress bar that is told what begins."""

    def __init__(self, num_steps: int) -> None:
        self._bar = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
        )
        self._task = self._bar.add_task("starting", total=num_steps, completed=-1)

    def __enter__(self) -> Callable[[str], None]:
        self._bar.start()
        return lambda text: self._bar.update(self._task, advance=1, description=text)

    def __exit__(self, *exc: object) -> None:
        self._bar.update(self._task, advance=1, description="done")
        self._bar.stop()
