"""How far a workload has come, on the terminal."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from sash.lab.workloads.batches import Batch

DELAY_SECONDS = 2.0


class WorkloadProgress:
    """A line on stderr, on a terminal only, once it takes longer than two seconds.

    `seconds` is a clock that never goes back.
    """

    def __init__(self, title: str, duration_us: int, seconds: Callable[[], float], is_quiet: bool = False):
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        console = Console(stderr=True)
        self._bar = Bar(*columns, console=console, disable=is_quiet or not console.is_terminal)
        self._title, self._duration_us, self._seconds = title, duration_us, seconds
        self._started = seconds()
        self._task = None
        self._first_us: int | None = None
        self._n_rows = 0

    def note(self, batch: Batch) -> None:
        """Takes note of a batch that has been written."""
        self._n_rows += batch.rows.num_rows
        self._first_us = batch.due_us if self._first_us is None else self._first_us
        if self._task is None and self._seconds() - self._started < DELAY_SECONDS:
            return
        if self._task is None:
            self._task = self._bar.add_task(self._title, total=self._duration_us)
            self._bar.start()
        told = f"{self._title}: {self._n_rows:,} rows"
        self._bar.update(self._task, description=told, completed=batch.due_us - self._first_us)

    def __enter__(self) -> WorkloadProgress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._task is not None:
            self._bar.stop()
