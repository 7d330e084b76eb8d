"""The `sash` command."""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from sash import __version__
from sash.cli.script_outputs import check_outputs, refuse_distant, remove_outputs, shared_checkpoints
from sash.cli.show import Progress, VerifyProgress, show_changes, show_summary, show_verifications
from sash.cli.stopping import SPOKEN, StoppedError, StopRequest, TerminatedError, ended_by_sigterm
from sash.errors import (
    InternalError,
    PlanError,
    ResourceError,
    SashError,
    describe_os_error,
    mask_secrets,
    require_extra,
)
from sash.lab.bench.bench_commands import bench
from sash.lab.experiments.experiment_commands import experiment
from sash.lab.workloads.workload_commands import workload
from sash.oracle.verification import N_INSTANTS, verify_script
from sash.plan.explain.describe_sharing import explain_sharing, shares_any
from sash.plan.explain.tree import explain_plan
from sash.runtime.job import Report, Tally
from sash.runtime.run_groups import Runs, group_runs, known_layers
from sash.runtime.run_lock import hold_locks
from sash.runtime.script import Script, read_script
from sash.spark.query_watch import N_RESTARTS

INTERRUPTED, TERMINATED, NOBODY_READS = 130, 143, 141
"""Exit codes, as a shell has them for a process that SIGINT, SIGTERM or SIGPIPE has ended."""
app = typer.Typer(name="sash", add_completion=False)
app.add_typer(bench)
app.add_typer(experiment)
app.add_typer(workload)


class Engine(StrEnum):
    """Where queries run."""

    spark = "spark"
    embedded = "embedded"


@app.callback(invoke_without_command=True)
def describe(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """Continuous SQL over sliding windows, exactly."""
    if version:
        print(f"sash {__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


ScriptFile = Annotated[
    Path, typer.Argument(help="A script of CREATE STREAM, CREATE TABLE and CREATE QUERY statements.")
]


@app.command()
def run(
    file: ScriptFile,
    engine: Annotated[Engine, typer.Option(help="On Spark, or in this process.")] = Engine.spark,
    master: Annotated[str, typer.Option(help="The Spark master.")] = "local[*]",
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
) -> None:
    """Run the queries of a script, from files to files."""
    if follow and engine is Engine.embedded:
        raise PlanError("--follow needs Spark; leave it out, or leave --engine embedded out")
    if engine is Engine.spark:
        require_extra("spark", "`sash run` on Spark", "use --engine embedded")
    runs, root = read_script(file).runs(strict), shared_checkpoints(file)
    with hold_locks([root, *(each.output.path for each in runs)]):
        if fresh:
            if engine is Engine.spark:
                refuse_distant(group_runs(runs, root, lambda path: None, least=2).all)
            remove_outputs(runs, root)
        together = group_runs(runs, root, known_layers if engine is Engine.spark else lambda path: None, least=2)
        check_outputs(together.all, may_resume=engine is Engine.spark)
        started = time.monotonic()
        with Progress(runs, time.monotonic, is_quiet=as_json) as progress, StopRequest() as stop:
            options = SparkOptions(master, files_per_batch, follow, restarts)
            _run_engine(together, engine, progress, stop, options)
        seconds = time.monotonic() - started
    if as_json:
        facts = {name: _facts(tally) for name, tally in progress.tallies.items()}
        print(
            json.dumps({"seconds": seconds, "queries": facts} | ({"stopped": stop.signal.name} if stop.signal else {}))
        )
    else:
        for each in () if stop.signal else runs:
            show_changes(each, rows)
        show_summary(together, progress.tallies, seconds, engine is Engine.spark)
    if stop.signal:
        remedy = "run the same command again to go on" if engine is Engine.spark else "a run with --fresh begins anew"
        _console().print(f"stopped by {SPOKEN[stop.signal]} after the batch at hand; {remedy}", highlight=False)
        sys.exit(stop.exit_code)


@app.command()
def repair(
    file: ScriptFile,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before removing.")] = False,
) -> None:
    """Remove what outputs have beyond their checkpoints on Spark, so that a run can go on from an older checkpoint."""
    from sash.spark.repair import find_repairs, make

    runs, root = read_script(file).runs(), shared_checkpoints(file)
    with hold_locks([root, *(each.output.path for each in runs)]):
        repairs = find_repairs(group_runs(runs, root, least=2).all)
        if not repairs:
            print("nothing to repair: outputs and checkpoints belong together")
            return
        for line in [line for each in repairs for line in each.summary]:
            print(line)
        if not yes and not typer.confirm("Remove these batches?"):
            print("nothing was removed")
            raise typer.Exit(1)
        for each in repairs:
            make(each)
    print("repaired; sash run goes on from here")


@app.command()
def explain(
    file: ScriptFile,
    analyze: Annotated[
        bool, typer.Option("--analyze", help="Run the queries here, discard the answers, and show what was measured.")
    ] = False,
) -> None:
    """Show how the queries of a script would run."""
    script: Script = read_script(file)
    if analyze:
        from sash.embedded.analyze import analyze_files

        for each in script.runs():
            print(f"Query {each.name}\n{analyze_files(each)}")
        return
    if shares_any(script.plans):
        print(explain_sharing(script.plans))
        return
    for name, plan in script.plans.items():
        print(f"Query {name}\n{explain_plan(plan)}")


@app.command()
def calibrate(
    as_json: Annotated[bool, typer.Option("--json", help="Print the costs as JSON, and no progress.")] = False,
) -> None:
    """Measure what joins cost on this machine, and keep it for the planner. Takes some seconds."""
    from sash.cli.show import CalibrateProgress, show_fits
    from sash.cost.prices import save_prices
    from sash.embedded.calibration import calibrate as measure
    from sash.embedded.calibration import fit_facts, fitted_prices

    with CalibrateProgress(is_quiet=as_json) as progress:
        fits = measure(progress.report)
    facts = {"sash": __version__, **fit_facts(fits)}
    path = save_prices(fitted_prices(fits), facts)
    if as_json:
        print(path.read_text(encoding="utf-8"), end="")
    else:
        show_fits(fits, path)


@app.command()
def verify(
    file: ScriptFile,
    query: Annotated[str | None, typer.Option(help="Only this query of the script.")] = None,
    instants: Annotated[int, typer.Option(help="At how many instants to compare, evenly spread.")] = N_INSTANTS,
    at_all: Annotated[bool, typer.Option("--all", help="Compare at every instant at which something changes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON, and no progress.")] = False,
) -> None:
    """Run the queries of a script here and compare their answers with DuckDB's; the exit code is 1 if they differ."""
    script = read_script(file)
    names = list(script.plans) if query is None else [query]
    with VerifyProgress(is_quiet=as_json) as progress:
        found = verify_script(script, names, None if at_all else instants, progress.report)
    if as_json:
        print(json.dumps({"queries": {name: each.facts() for name, each in found.items()}}, default=str))
    else:
        show_verifications(found)
    if not all(found.values()):
        sys.exit(1)


def main() -> None:
    """Runs the command. Whatever goes wrong, the user sees a reason, not a traceback."""
    console = _console()
    try:
        with ended_by_sigterm():
            code = app(standalone_mode=False)
            sys.stdout.flush()
    except SashError as error:
        _fail(console, error)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except TerminatedError:
        code = TERMINATED
    except BrokenPipeError:
        _end_unread()
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # so rich and typer end a command whose output nobody reads
            _end_unread()
        raise
    except OSError as error:
        _fail(console, describe_os_error(error))
    except Exception as error:
        if hasattr(error, "format_message"):
            console.print(f"[red]error:[/red] {error.format_message()}")  # pyright: ignore[reportAttributeAccessIssue]
            sys.exit(2)
        _fail(console, InternalError(f"{type(error).__name__}: {error}"), error)
    if code in (INTERRUPTED, TERMINATED):
        console.print("stopped at once" if sys.argv[1:2] == ["run"] else "stopped")
    if isinstance(code, int) and code:
        sys.exit(code)


def _end_unread() -> NoReturn:
    """Whoever read the output has gone, as in `sash run … | head`: there is nobody to tell."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(NOBODY_READS)


def _console() -> Console:
    return Console(stderr=True, soft_wrap=True)


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """What `sash run` is told about Spark."""

    master: str
    files_per_batch: int
    is_followed: bool
    n_restarts: int


def _run_engine(runs: Runs, engine: Engine, progress: Progress, stop: StopRequest, options: SparkOptions) -> None:
    """Runs until all is answered for, or until somebody says stop; what was done is in the progress."""
    if engine is Engine.spark:
        return _run_on_spark(runs, progress.report, stop, options)
    from sash.embedded.run_to_end import run_files

    def report(name: str, tally: Tally) -> None:
        progress.report(name, tally)
        stop.check()

    with suppress(StoppedError):
        for each in runs.all:
            run_files(each, report)


def _run_on_spark(runs: Runs, report: Report, stop: StopRequest, options: SparkOptions) -> None:
    from sash.spark.query_watch import Watch
    from sash.spark.spark_run import run_on_spark
    from sash.spark.spark_session import end_session, find_log, spark_session

    spark = spark_session(options.master)
    log, console, is_well = find_log(spark), _console(), False
    stop.listen()  # PySpark has a handler of its own, which breaks the line to the JVM
    logging.getLogger().addHandler(logging.FileHandler(log) if log else logging.NullHandler())
    watch = Watch(stop.wait, options.n_restarts, lambda said: console.print(_escaped(said), highlight=False))
    try:
        if not stop.signal:
            run_on_spark(runs.all, spark, report, options.files_per_batch, options.is_followed, watch)
        is_well = True
    except ResourceError as error:
        raise ResourceError(f"{error}; the details are in `{log}`") if log else error from None
    finally:
        end_session(spark, is_well)


def _facts(tally: Tally) -> dict:
    return asdict(tally) | {"n_accepted": tally.n_accepted}


def _fail(console: Console, error: SashError, cause: Exception | None = None) -> NoReturn:
    console.print(f"[red]error:[/red] {_escaped(str(error))}", highlight=False)
    if cause is not None:
        console.print(f"the details are in {_write_details(cause)}", highlight=False)
    sys.exit(1)


def _escaped(text: str) -> str:
    return text.replace("[", r"\[")


def _write_details(cause: Exception) -> str:
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="sash-", suffix=".log", delete=False) as file:
        file.write(mask_secrets("".join(traceback.format_exception(cause))))
    return file.name


if __name__ == "__main__":
    main()
