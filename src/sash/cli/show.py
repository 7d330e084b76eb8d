"""What the command line shows: live progress, the newest changes, a summary."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.live import Live
from rich.status import Status
from rich.table import Table

from sash.cost.disk_prices import DiskPrices
from sash.cost.multiway_prices import MultiwayCosts, MultiwayPrices
from sash.embedded.calibration import UNITS, Fit
from sash.io.places import shown_place
from sash.io.sink import read_sink
from sash.operators.changes import read_times
from sash.oracle.verification import Verification
from sash.runtime.job import QueryRun, Tally
from sash.runtime.jobs import Jobs
from sash.store.batch import BEGINNING, TS
from sash.store.byte_sizes import format_bytes

console = Console()
WIDE = 132
"""Where lines are shorter, progress does not say what the work was."""


def error_console() -> Console:
    """Where errors and remarks go: standard error as it is now, in lines as long as they are."""
    return Console(stderr=True, soft_wrap=True)


def escaped(text: str) -> str:
    """Text that rich prints as it is."""
    return text.replace("[", r"\[")


class Progress:
    """A live table with a line per query. The clock is passed in: seconds that never go back."""

    def __init__(self, runs: Sequence[QueryRun], clock: Callable[[], float], is_quiet: bool = False):
        self.tallies = {run.name: Tally() for run in runs}
        self._plans = {run.name: run.plan for run in runs}
        self._clock = clock
        self._started = clock()
        self._live = None if is_quiet else Live(get_renderable=self._table, console=console, refresh_per_second=2)

    def report(self, name: str, tally: Tally) -> None:
        """Takes note of what a query has done so far."""
        self.tallies[name] = tally

    def __enter__(self) -> Progress:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()
            console.print()

    def _table(self) -> Table:
        seconds = max(self._clock() - self._started, 1e-9)
        table = Table(box=None, header_style="dim")
        for name, tally in self.tallies.items():
            cells = {
                "query": name,
                "batches": f"{tally.n_batches:,}" if tally.n_batches else f"starting, {seconds:.0f} s",
                "rows read": f"{tally.n_read:,}",
                "rows/s": f"{tally.n_read / seconds:,.0f}",
                "changes": f"{tally.n_changes:,}",
                "state rows": f"{tally.n_state_rows:,}",
                "state": format_bytes(tally.n_state_bytes),
                **({"work": _format_work(tally)} if console.width >= WIDE else {}),
                "up to": _format_clock(tally.clock_us, self._plans[name].time_type),
            }
            if not table.columns:
                for heading in cells:
                    justify = "left" if heading in ("query", "work", "up to") else "right"
                    table.add_column(heading, justify=justify, no_wrap=heading in ("query", "up to"))
            table.add_row(*cells.values())
        return table


class VerifyProgress:
    """A line on stderr, on a terminal only: how far a verification has come."""

    def __init__(self, is_quiet: bool = False):
        self._status = Status("reading", console=Console(stderr=True, quiet=is_quiet))

    def report(self, name: str, n_done: int, n_all: int) -> None:
        """Takes note of how many instants of a query have been compared."""
        self._status.update(f"{name}: {n_done:,} of {n_all:,} instants compared")

    def __enter__(self) -> VerifyProgress:
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()


class CountedProgress:
    """A line on stderr, on a terminal only: how many of the parts of some work are done."""

    def __init__(self, done: str, is_quiet: bool = False):
        self._done = done
        self._status = Status("compiling", console=Console(stderr=True, quiet=is_quiet))

    def report(self, n_done: int, n_all: int) -> None:
        """Takes note of how many parts are done."""
        self._status.update(f"{n_done} of {n_all} {self._done}")

    def __enter__(self) -> CountedProgress:
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()


def show_fits(fits: Mapping[str, Fit]) -> None:
    """The prices that were fitted, and how well they explain what was measured."""
    table = Table(title="nanoseconds for one unit of a join's work, on this machine", title_justify="left")
    for heading in ("index", *UNITS, "mean error", "worst"):
        table.add_column(heading, justify="left" if heading == "index" else "right")
    for name, each in fits.items():
        prices = [f"{price:,.2f}" if price < 10 else f"{price:,.0f}" for price in each.unit_prices]
        table.add_row(name, *prices, f"{each.mean_error:.0%}", f"{each.worst_error:.0%}")
    console.print(table)


def show_multiway_prices(prices: MultiwayPrices) -> None:
    """The prices of joins of many streams."""
    title = "nanoseconds for one unit of work of a join of many streams"
    table = Table(title=title, title_justify="left")
    for heading in ("algorithm", *(each.name for each in fields(MultiwayCosts))):
        table.add_column(heading, justify="left" if heading == "algorithm" else "right")
    for name, costs in asdict(prices).items():
        table.add_row(name, *(f"{price:,.2f}" if price < 10 else f"{price:,.0f}" for price in costs.values()))
    console.print(table)


def show_disk(disk: DiskPrices, spill: Path) -> None:
    """What was measured of the disk that windows go to."""
    title = "the disk for what does not fit into memory: nanoseconds for a byte, microseconds for an access"
    table = Table(title=title, title_justify="left")
    table.add_column("directory")
    for heading in ("write", "read", "access"):
        table.add_column(heading, justify="right")
    table.add_row(str(spill), f"{1e9 * disk.write:,.2f}", f"{1e9 * disk.read:,.2f}", f"{1e6 * disk.access:,.0f}")
    console.print(table)


def show_costs_path(path: Path) -> None:
    """Where prices are kept."""
    console.print(f"kept in {path}; queries planned from now on use them", highlight=False, soft_wrap=True)


def show_verifications(found: Mapping[str, Verification]) -> None:
    """What was compared for each query, and where it differs first."""
    for name, each in found.items():
        console.print(f"[bold]{name}[/bold]: {each.summary}", highlight=False)
        for note in each.notes:
            console.print(f"  {note}", highlight=False, markup=False)
        if each.differences:
            console.print(_table_of(each.differences[0].rows))


def show_changes(run: QueryRun, n_rows: int) -> None:
    """The newest changes that a query has written."""
    changes = read_sink(run.sink, run.plan.schema)
    if not changes.num_rows:
        console.print(f"\n[bold]{run.name}[/bold]: no changes")
        return
    order = pa.array(_order_by_time(changes.column(TS))[max(0, changes.num_rows - n_rows) :])
    title = f"{run.name}: the newest {len(order):,} of {changes.num_rows:,} changes"
    console.print()
    console.print(_table_of(changes.take(order), title))


def show_answer(title: str, answer: pa.Table, n_rows: int) -> None:
    """The rows of an answer, or the first of them."""
    shown = answer.slice(0, n_rows)
    n_all = f"{answer.num_rows:,} {'row' if answer.num_rows == 1 else 'rows'}"
    more = "" if shown.num_rows == answer.num_rows else f", of which the first {shown.num_rows:,}"
    console.print(f"{escaped(title)}: {n_all}{more}", highlight=False)
    if shown.num_rows:
        console.print(_table_of(shown))


def show_summary(jobs: Jobs, tallies: dict[str, Tally], seconds: float, goes_on: bool = False) -> None:
    """What was read and where everything went. `goes_on`: the next run reads only files that are new."""
    console.print()
    for plan in (job.plan for job in jobs.all):
        if plan.trunk is not None:
            shared = f"one join for {', '.join(plan.queries)}: {plan.trunk.signature}"
            console.print(shared, highlight=False, markup=False)
    for run in [each for job in jobs.all for each in job.members]:
        tally = tallies[run.name]
        console.print(
            f"[bold]{escaped(run.name)}[/bold]: {_format_account(tally)}; {tally.n_changes:,} changes in "
            f"{shown_place(run.sink.path)}",
            highlight=False,
        )
        for stream, n_late in tally.late_by_stream.items():
            console.print(
                f"  late rows of {stream}: {n_late:,} in {shown_place(run.late_sink(stream).path)}", highlight=False
            )
        if tally.n_rejected:
            remedy = "; bring corrected records in a file of another name" if goes_on else ""
            console.print(
                f"  rejected records: {tally.n_rejected:,} in {shown_place(run.reject_sink.path)}{remedy}",
                highlight=False,
            )
        for note in tally.notes:
            console.print(f"  {note}", highlight=False, markup=False)
        if tally.partial_until_us is not None:
            until = datetime.fromtimestamp(tally.partial_until_us / 1e6, UTC).replace(tzinfo=None)
            console.print(f"  began late: its answers are exact from {until} on", highlight=False)
    n_read = sum(tallies[each.members[0].name].n_read for each in jobs.all)
    console.print(f"{seconds:.1f} s, {n_read / max(seconds, 1e-9):,.0f} rows/s", highlight=False)


def _order_by_time(column: pa.ChunkedArray) -> np.ndarray:
    """What holds since the beginning of time has no `_ts`, and is the oldest."""
    times = np.full(len(column), BEGINNING)
    times[column.is_valid().to_numpy()] = read_times(column.drop_null())
    return times.argsort(kind="stable")


def _table_of(rows: pa.Table, title: str | None = None) -> Table:
    table = Table(title=title, title_justify="left")
    for field in rows.schema:
        is_number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        table.add_column(field.name, justify="right" if is_number else "left")
    for row in rows.to_pylist():
        table.add_row(*(_format_value(value) for value in row.values()))
    return table


def _format_account(tally: Tally) -> str:
    """What has become of every row."""
    before = f" + {tally.n_held_before:,} held before" if tally.n_held_before else ""
    held = f" + {tally.n_held:,} held" if tally.n_held else ""
    return (
        f"{tally.n_read:,} rows read{before} = {tally.n_accepted:,} accepted + {tally.n_late:,} late + "
        f"{tally.n_rejected:,} rejected{held}"
    )


def _format_work(tally: Tally) -> str:
    """Milliseconds per batch by kind of work, and how groups were found, where the engine tells."""
    if not tally.operators:
        return ""
    kinds = (("kernel", tally.kernel_ms), ("convert", tally.conversion_ms), ("state", tally.state_ms))
    times = " ".join(f"{name} {ms / tally.n_batches:.0f}" for name, ms in kinds)
    evicted = f", {tally.n_evictions:,} evicted" if tally.n_evictions else ""
    return f"{times} ms; index {tally.n_index_hits:,} found, {tally.n_index_rebuilds:,} rebuilt{evicted}"


def _format_clock(clock_us: int | None, time_type: pa.DataType) -> str:
    if clock_us is None:
        return ""
    if not pa.types.is_timestamp(time_type):
        return str(clock_us)
    return datetime.fromtimestamp(clock_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _format_value(value: object) -> str:
    if value is None:
        return "[dim]NULL[/dim]"
    return f"{value:g}" if isinstance(value, float) else escaped(str(value))
