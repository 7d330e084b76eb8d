"""How far a benchmark has come, on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from sash.lab.bench.measure import Note


class Stages:
    """A line per stage, with a bar if it is known how much there is to do. Goes to stderr: stdout is for results."""

    def __init__(self, is_quiet: bool = False):
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=Console(stderr=True), disable=is_quiet)

    def __enter__(self) -> Stages:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    @contextmanager
    def stage(self, title: str, total: int | None) -> Iterator[Note]:
        """One stage; call what is yielded with how many of `total` are done."""
        task = self._progress.add_task(title, total=total)
        yield lambda done: self._progress.update(task, completed=done)
        self._progress.update(task, total=total or 1, completed=total or 1)
