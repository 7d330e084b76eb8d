"""The `sash` command."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import asdict
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sash.bench.commands import bench
from sash.errors import InternalError, PlanError, SashError, SourceError
from sash.experiments.commands import experiment
from sash.plan.describe_sharing import explain_sharing, shares_any
from sash.plan.explain import explain_plan
from sash.run import QueryRun, Report, SharedRun, Tally
from sash.script import DEFAULT_OUTPUT, Script, read_script
from sash.share import Runs, group_runs, known_layers
from sash.show import Progress, VerifyProgress, show_changes, show_summary, show_verifications
from sash.verify import N_INSTANTS, verify_script
from sash.workloads.commands import workload

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
        print(f"sash {metadata.version('sash')}")
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
    files_per_batch: Annotated[int, typer.Option(help="At most so many files of a stream in one batch.")] = 8,
    follow: Annotated[bool, typer.Option("--follow", help="Keep running and answer for files as they arrive.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first record that cannot be read.")] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Remove the outputs and checkpoints of earlier runs first.")
    ] = False,
    rows: Annotated[int, typer.Option(help="How many of the newest changes to show at the end.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, and no progress.")] = False,
) -> None:
    """Run the queries of a script, from files to files."""
    if follow and engine is Engine.embedded:
        raise PlanError("--follow needs Spark; leave it out, or leave --engine embedded out")
    runs, root = read_script(file).runs(strict), _shared_checkpoints(file)
    if fresh:
        shutil.rmtree(root, ignore_errors=True)
    together = group_runs(runs, root, known_layers if engine is Engine.spark else lambda path: None, least=2)
    for each in together.all:
        _prepare_outputs(each, fresh, may_resume=engine is Engine.spark)
    started = time.monotonic()
    with Progress(runs, time.monotonic, is_quiet=as_json) as progress:
        tallies = _run_engine(together, engine, progress.report, (master, files_per_batch, follow))
    seconds = time.monotonic() - started
    if as_json:
        print(json.dumps({"seconds": seconds, "queries": {name: _facts(tally) for name, tally in tallies.items()}}))
        return
    for each in runs:
        show_changes(each, rows)
    show_summary(together, tallies, seconds)


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
    from sash.calibrate import calibrate as measure
    from sash.calibrate import fit_facts, fitted_prices
    from sash.plan.costs import save_prices
    from sash.show import CalibrateProgress, show_fits

    with CalibrateProgress(is_quiet=as_json) as progress:
        fits = measure(progress.report)
    facts = {"sash": metadata.version("sash"), **fit_facts(fits)}
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
    console = Console(stderr=True, soft_wrap=True)
    try:
        app(standalone_mode=False)
    except SashError as error:
        _fail(console, error)
    except typer.Abort:
        _fail(console, SourceError("stopped"))
    except KeyboardInterrupt:
        console.print("stopped" + ("; on Spark the same command goes on from here" if sys.argv[1:2] == ["run"] else ""))
        sys.exit(130)
    except Exception as error:
        if hasattr(error, "format_message"):
            console.print(f"[red]error:[/red] {error.format_message()}")  # pyright: ignore[reportAttributeAccessIssue]
            sys.exit(2)
        _fail(console, InternalError(f"{type(error).__name__}: {error}"), error)


def _run_engine(
    runs: Runs, engine: Engine, report: Report, spark_options: tuple[str, int | None, bool]
) -> dict[str, Tally]:
    if engine is Engine.embedded:
        from sash.embedded.run import run_files

        return {name: tally for each in runs.all for name, tally in run_files(each, report).items()}
    from sash.spark.run import run_on_spark
    from sash.spark.session import spark_session

    master, files_per_batch, is_followed = spark_options
    spark = spark_session(master)
    try:
        return run_on_spark(runs.all, spark, report, files_per_batch, is_followed)
    finally:
        spark.stop()


def _shared_checkpoints(file: Path) -> str:
    """Where the checkpoints of joins are that queries of a script share: each script has its own, by its path."""
    parts = Path(os.path.relpath(file)).with_suffix("").parts
    return f"{DEFAULT_OUTPUT}/{'-'.join(parts)}.checkpoint"


def _prepare_outputs(run: QueryRun | SharedRun, is_fresh: bool, may_resume: bool) -> None:
    """Outputs of an earlier run are gone on from, removed if asked for, and never mixed with new ones."""
    may_resume = may_resume and Path(run.checkpoint).exists()
    for each in run.members:
        outputs = [Path(each.sink.path + suffix) for suffix in ("", ".late", ".rejects", ".checkpoint")]
        if is_fresh:
            for path in outputs:
                shutil.rmtree(path, ignore_errors=True)
        elif outputs[0].exists() and not may_resume:
            raise SourceError(
                f"{outputs[0]} holds the output of an earlier run that cannot be gone on from; "
                "run with --fresh to replace it, or write INTO another directory"
            )


def _facts(tally: Tally) -> dict:
    return asdict(tally) | {"n_accepted": tally.n_accepted}


def _fail(console: Console, error: SashError, cause: Exception | None = None) -> None:
    console.print(f"[red]error:[/red] {_escaped(str(error))}", highlight=False)
    if cause is not None:
        console.print(f"the details are in {_write_details(cause)}", highlight=False)
    sys.exit(1)


def _escaped(text: str) -> str:
    return text.replace("[", r"\[")


def _write_details(cause: Exception) -> str:
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="sash-", suffix=".log", delete=False) as file:
        traceback.print_exception(cause, file=file)
    return file.name


if __name__ == "__main__":
    main()
