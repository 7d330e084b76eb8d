"""`sash run`: the queries of a script, from files to files, on Spark or in this process."""

from __future__ import annotations

import json
import logging
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from sash.cli.arguments import Engine, Params, RunsOn, ScriptFile
from sash.cli.script_outputs import check_outputs, refuse_distant, remove_outputs, shared_checkpoints
from sash.cli.show import Progress, error_console, escaped, show_changes, show_summary
from sash.cli.stopping import SPOKEN, StoppedError, StopRequest
from sash.errors import PlanError, ResourceError, require_extra
from sash.runtime.job import Report, Tally
from sash.runtime.jobs import Jobs, decide_script, group_runs
from sash.runtime.run_lock import hold_locks
from sash.runtime.script import read_script
from sash.spark.query_watch import N_RESTARTS
from sash.sql.parameters import read_values


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """What `sash run` is told about Spark."""

    master: str
    memory: str | None
    files_per_batch: int
    is_followed: bool
    n_restarts: int


def run(
    file: ScriptFile,
    engine: RunsOn = Engine.spark,
    master: Annotated[str, typer.Option(help="The Spark master.")] = "local[*]",
    memory: Annotated[
        str | None,
        typer.Option(
            help="What windows may take of the memory, like 256m; the rest goes to disk. On Spark, of each machine."
        ),
    ] = None,
    files_per_batch: Annotated[int, typer.Option(min=1, help="At most so many files of a stream in one batch.")] = 8,
    follow: Annotated[bool, typer.Option("--follow", help="Keep running and answer for files as they arrive.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first record that cannot be read.")] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Remove the outputs and checkpoints of earlier runs first.")
    ] = False,
    restarts: Annotated[
        int, typer.Option(min=0, help="With --follow: how often in a row to start a query again that fails.")
    ] = N_RESTARTS,
    rows: Annotated[int, typer.Option(min=0, help="How many of the newest changes to show at the end.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, and no progress.")] = False,
    param: Params = None,
) -> None:
    """Run the queries of a script, from files to files."""
    if follow and engine is Engine.embedded:
        raise PlanError("--follow needs Spark; leave it out, or leave --engine embedded out")
    if engine is Engine.spark:
        require_extra("spark", "`sash run` on Spark", "use --engine embedded")
    script, root = read_script(file, read_values(param or [])), shared_checkpoints(file)
    runs = script.runs(strict)
    with hold_locks([root, *(each.output.path for each in runs)]):
        if fresh:
            if engine is Engine.spark:
                refuse_distant(group_runs(runs, decide_script(script.plans, None), root).all)
            remove_outputs(runs, root)
        sharing = decide_script(script.plans, root if engine is Engine.spark else None)
        jobs = group_runs(runs, sharing, root)
        check_outputs(jobs.all, may_resume=engine is Engine.spark)
        started = time.monotonic()
        with Progress(runs, time.monotonic, is_quiet=as_json) as progress, StopRequest() as stop:
            options = SparkOptions(master, memory, files_per_batch, follow, restarts)
            _run_engine(jobs, engine, progress, stop, options)
        seconds = time.monotonic() - started
    if as_json:
        facts = {name: _facts(tally) for name, tally in progress.tallies.items()}
        print(
            json.dumps({"seconds": seconds, "queries": facts} | ({"stopped": stop.signal.name} if stop.signal else {}))
        )
    else:
        for each in () if stop.signal else runs:
            show_changes(each, rows)
        show_summary(jobs, progress.tallies, seconds, engine is Engine.spark)
    if stop.signal:
        remedy = "run the same command again to go on" if engine is Engine.spark else "a run with --fresh begins anew"
        error_console().print(f"stopped by {SPOKEN[stop.signal]} after the batch at hand; {remedy}", highlight=False)
        sys.exit(stop.exit_code)


def _run_engine(jobs: Jobs, engine: Engine, progress: Progress, stop: StopRequest, options: SparkOptions) -> None:
    """Runs until all is answered for, or until somebody says stop; what was done is in the progress."""
    if engine is Engine.spark:
        return _run_on_spark(jobs, progress.report, stop, options)
    from sash.embedded.run_to_end import run_files

    def report(name: str, tally: Tally) -> None:
        progress.report(name, tally)
        stop.check()

    with suppress(StoppedError):
        for each in jobs.all:
            run_files(each, report, options.memory)


def _run_on_spark(jobs: Jobs, report: Report, stop: StopRequest, options: SparkOptions) -> None:
    from sash.spark.query_watch import Watch
    from sash.spark.session_checks import require_same_python
    from sash.spark.session_settings import MEMORY
    from sash.spark.spark_run import run_on_spark
    from sash.spark.spark_session import end_session, find_log, spark_session

    spark = spark_session(options.master, **({MEMORY: options.memory} if options.memory else {}))
    log, console, is_well = find_log(spark), error_console(), False
    try:
        require_same_python(spark)
    except ResourceError:
        end_session(spark, is_well=True)
        raise
    stop.listen()  # PySpark has a handler of its own, which breaks the line to the JVM
    logging.getLogger().addHandler(logging.FileHandler(log) if log else logging.NullHandler())
    watch = Watch(stop.wait, options.n_restarts, lambda said: console.print(escaped(said), highlight=False))
    try:
        if not stop.signal:
            run_on_spark(jobs.all, spark, report, options.files_per_batch, options.is_followed, watch)
        is_well = True
    except ResourceError as error:
        raise ResourceError(f"{error}; the details are in `{log}`") if log else error from None
    finally:
        end_session(spark, is_well)


def _facts(tally: Tally) -> dict:
    return asdict(tally) | {"n_accepted": tally.n_accepted}
