"""The commands `sash workload list`, `sash workload NAME` and `sash workload replay`."""

from __future__ import annotations

import json
import shlex
import time
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sash.errors import PlanError
from sash.lab.workloads.batches import BatchCut
from sash.lab.workloads.progress import WorkloadProgress
from sash.lab.workloads.recorder import Clock, Note, Recorder, play, record
from sash.lab.workloads.replay import open_replay
from sash.lab.workloads.workload import Workload
from sash.lab.workloads.workload_registry import KINDS, PARAMETERS, make_workload
from sash.sql.windows import parse_interval

N_FILES = 10
"""Of each stream, if nothing else is said and all are written at once."""
LIVE_FILE_US = 1_000_000
CLOCK = Clock(lambda: time.time_ns() // 1000, time.sleep)

workload = typer.Typer(name="workload")


class Format(StrEnum):
    """What files are written."""

    csv = "csv"
    json = "json"
    parquet = "parquet"


Out = Annotated[Path, typer.Option(help="A new or empty directory, for the streams and streams.sql.")]
OutFormat = Annotated[Format, typer.Option("--format", help="What files are written.")]
FileRows = Annotated[int | None, typer.Option(help="A file has so many rows.")]
FileEvery = Annotated[str | None, typer.Option(help='A file has the rows of so much time, such as "10 seconds".')]
Live = Annotated[bool, typer.Option("--live", help="Write files in real time, with times from now on, until Ctrl-C.")]
Now = Annotated[bool, typer.Option("--now", help="Times start now; all files are still written at once.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print what was written as JSON, and no progress.")]
OUT = Path("workload")


@dataclass(frozen=True, slots=True)
class Manner:
    """How a workload is written, as the options say."""

    out: Path
    format: str
    file_rows: int | None
    file_every: str | None
    is_live: bool
    is_now: bool
    as_json: bool

    def cut(self, made: Workload) -> BatchCut:
        """Where files end: if nothing is said, live after each second, else so that there are ten of each stream."""
        if self.file_rows is not None and self.file_every is not None:
            seen = f"--file-rows is {self.file_rows} and --file-every is {self.file_every}"
            raise PlanError(f"{seen}, but only one of them can say where a file ends; leave the other out")
        if self.file_rows is not None:
            return BatchCut(rows=self.file_rows)
        default_us = LIVE_FILE_US if self.is_live else -(-made.duration_us // N_FILES)
        return BatchCut(every_us=default_us if self.file_every is None else parse_interval(self.file_every))


@workload.callback(invoke_without_command=True)
def describe(context: typer.Context) -> None:
    """Generate streams as files, or play a recording again."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@workload.command("list")
def list_workloads() -> None:
    """Show which workloads there are."""
    for name, kind in KINDS.items():
        streams = ", ".join(stream.name for stream in kind.make().streams)
        options = " ".join(f"--{option}" for option in kind.options)
        print(f"{name:10}{kind.title}\n{'':10}streams {streams}; {options}")
        if kind.settings:
            print(f"{'':10}--set {' '.join(f'{each}=…' for each in kind.settings)}")


def generate(
    context: typer.Context,
    out: Out = OUT,
    format: OutFormat = Format.parquet,
    rate: Annotated[float | None, typer.Option(help="Rows per second, of each stream.")] = None,
    duration: Annotated[str | None, typer.Option(help='How long, such as "60s" or "2 hours".')] = None,
    arrivals: Annotated[str | None, typer.Option(help="even, poisson, pareto:BURST or bmodel:BIAS.")] = None,
    keys: Annotated[int | None, typer.Option(help="How many keys.")] = None,
    key_skew: Annotated[str | None, typer.Option(help="none, zipf:EXPONENT or bmodel:BIAS.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same streams.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE, as `sash workload list` shows them.")
    ] = None,
    file_rows: FileRows = None,
    file_every: FileEvery = None,
    live: Live = False,
    now: Now = False,
    as_json: AsJson = False,
) -> None:
    """Generate a workload."""
    name = str(context.info_name)
    options = dict(zip(PARAMETERS, (rate, duration, arrivals, keys, key_skew, seed)))
    made = make_workload(name, options, settings or [])
    _write(name, made, Manner(out, format.value, file_rows, file_every, live, now, as_json))


for _name, _each in KINDS.items():
    workload.command(_name, help=f"Generate {_each.title}.")(generate)


@workload.command()
def replay(
    file: Annotated[str, typer.Argument(help="A file, or a directory of files, of CSV, JSON lines or Parquet.")],
    speed: Annotated[float, typer.Option(help="How many times as fast; 2 halves the time between rows.")] = 1.0,
    time: Annotated[str | None, typer.Option(help="The column of times, if there are several.")] = None,
    stream: Annotated[str | None, typer.Option(help="What the stream is called; as the file, if not given.")] = None,
    out: Out = OUT,
    format: OutFormat = Format.parquet,
    file_rows: FileRows = None,
    file_every: FileEvery = None,
    live: Live = False,
    now: Now = False,
    as_json: AsJson = False,
) -> None:
    """Play a recording again, faster or slower."""
    made = open_replay(file, speed, time, stream)
    _write("replay", made, Manner(out, format.value, file_rows, file_every, live, now, as_json))


def _write(name: str, made: Workload, manner: Manner) -> None:
    """Writes files and tells about them."""
    recorder, cut = Recorder(manner.out, manner.format, is_stamped=not manner.is_live), manner.cut(made)
    with WorkloadProgress(name, made.duration_us, time.monotonic, manner.as_json) as progress:
        if manner.is_live:
            is_stopped = _play(made, recorder, cut, progress.note, manner.as_json)
        else:
            is_stopped = False
            record(made, recorder, cut, progress.note, CLOCK.now_us() if manner.is_now else None)
    if manner.as_json:
        streams = {stream: asdict(tally) for stream, tally in recorder.tallies.items()}
        print(json.dumps({"workload": name, "script": str(recorder.script), "stopped": is_stopped, "streams": streams}))
    else:
        _tell(name, recorder, is_stopped)


def _play(made: Workload, recorder: Recorder, cut: BatchCut, note: Note, is_quiet: bool) -> bool:
    """Whether Ctrl-C ended it, as it may."""
    if not is_quiet:
        print(f"to follow from another terminal: {_command(recorder, '--follow')}", flush=True)
    try:
        play(made, recorder, cut, note, CLOCK)
    except KeyboardInterrupt:
        return True
    return False


def _tell(name: str, recorder: Recorder, is_stopped: bool) -> None:
    for stream, tally in recorder.tallies.items():
        print(f"{stream}: {tally.n_rows:,} rows in {tally.n_files:,} files in {recorder.directory / stream}")
    done = "was stopped" if is_stopped else "is written"
    print(f"{name} {done}; {recorder.script} declares the streams, and a query over them. To run it:")
    print(f"  {_command(recorder, '--engine embedded')}")


def _command(recorder: Recorder, options: str) -> str:
    return f"sash run {shlex.quote(str(recorder.script))} {options}"
