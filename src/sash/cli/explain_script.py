"""`sash explain`: how the queries of a script would run."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import pyarrow as pa
import typer

from sash.cli.arguments import Engine, Params, ScriptFile
from sash.cli.script_outputs import shared_checkpoints
from sash.errors import PlanError, SashError
from sash.plan.explain.describe_memory import memory_line
from sash.plan.explain.describe_sharing import explain_together
from sash.plan.explain.tree import explain_plan
from sash.plan.explain.under_limit import sharing_under_limit
from sash.plan.memory_forecast import MemoryForecast
from sash.plan.physical import Plan
from sash.plan.sharing.who_shares import Sharing
from sash.runtime.jobs import decide_script
from sash.runtime.memory_settings import configured
from sash.runtime.script import Script, read_script
from sash.spark.machine_budget import MachineBudget, parse_memory
from sash.spark.machine_forecast import forecast_on_machine
from sash.sql.parameters import read_values


def explain(
    file: ScriptFile,
    engine: Annotated[
        Engine | None, typer.Option(help="As by a run on Spark, which is the default, or in this process.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="As if the outputs and checkpoints of earlier runs were removed first.")
    ] = False,
    analyze: Annotated[
        bool,
        typer.Option("--analyze", help="Run the queries in this process, discard answers, and show what was measured."),
    ] = False,
    memory: Annotated[
        str | None,
        typer.Option(help="As if windows might take so much of the memory, like 256m. On Spark, of each machine."),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show all there is to say of every operator, not one line.")
    ] = False,
    param: Params = None,
) -> None:
    """Show how the queries of a script would run, by `sash run` with the same engine."""
    script: Script = read_script(file, read_values(param or []))
    if analyze:
        _refuse_with_analyze(engine is Engine.spark, fresh)
        return _analyze(script, verbose, memory)
    is_spark = engine is not Engine.embedded
    sharing = decide_script(script.plans, shared_checkpoints(file) if is_spark and not fresh else None)
    tell = _tell_on_spark if is_spark else _tell_here
    tell(script, sharing, verbose, memory)


def _refuse_with_analyze(is_on_spark: bool, is_fresh: bool) -> None:
    if is_on_spark:
        raise PlanError("--analyze runs the queries in this process; leave --engine spark out, or --analyze")
    if is_fresh:
        raise PlanError("--analyze goes on from nothing and leaves nothing behind; leave --fresh out, or --analyze")


def _analyze(script: Script, verbose: bool, memory: str | None) -> None:
    from sash.embedded.analyze import analyze_files

    for each in script.runs(is_fixed=True):
        print(f"Query {each.name}\n{analyze_files(each, verbose, memory)}")


def _tell_on_spark(script: Script, sharing: Sharing, verbose: bool, memory: str | None) -> None:
    """All queries run at once, and have one limit together: `--memory` alone says which. There is always one, but
    without a word it is too large to tell of.
    """
    budget = MachineBudget(None if memory is None else parse_memory(memory, "--memory"))
    sharing = sharing_under_limit(sharing)
    forecast = forecast_on_machine(budget, sharing.plans, _file_tables(script) if budget.n_bytes else None)
    for plan in sharing.plans:
        print(_told(plan, sharing, True, verbose, forecast))
    if forecast is not None:
        print(memory_line(forecast), end="")


def _tell_here(script: Script, sharing: Sharing, verbose: bool, memory: str | None) -> None:
    """One plan runs after the other, and each has the whole limit."""
    settings = configured(memory)
    sharing = sharing_under_limit(sharing) if settings.is_limited else sharing
    tables = _file_tables(script) if settings.is_limited else None
    for plan in sharing.plans:
        forecast = settings.forecast([plan], tables)
        print(_told(plan, sharing, False, verbose, forecast))
        if forecast is not None:
            print(memory_line(forecast), end="" if plan is sharing.plans[-1] else "\n")


def _told(plan: Plan, sharing: Sharing, is_spark: bool, verbose: bool, forecast: MemoryForecast | None) -> str:
    """Of the only query of a script there is no need to say why it shares nothing."""
    if plan.trunk is None and len(sharing.plans) == 1:
        ((name, query),) = plan.queries.items()
        return f"Query {name}\n{explain_plan(query, verbose=verbose, forecast=forecast)}"
    return explain_together(plan, sharing, is_spark, verbose, forecast)


def _file_tables(script: Script) -> dict[str, pa.Table]:
    """The tables in files, as far as they can be read now: how large they are decides how they are looked up in."""
    found: dict[str, pa.Table] = {}
    for name, source in script.tables.items():
        with suppress(SashError):
            if source.path is not None:
                found[name] = script.relation(name)
    return found
