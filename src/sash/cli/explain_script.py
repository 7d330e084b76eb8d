"""`sash explain`: how the queries of a script would run."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import pyarrow as pa
import typer

from sash.cli.arguments import Engine, Params, RunsOn, ScriptFile
from sash.cli.script_outputs import shared_checkpoints
from sash.errors import SashError
from sash.plan.explain.describe_memory import memory_line
from sash.plan.explain.describe_sharing import explain_sharing
from sash.plan.explain.tree import explain_plan
from sash.runtime.jobs import decide_script
from sash.runtime.memory_settings import configured
from sash.runtime.script import Script, read_script
from sash.sql.parameters import read_values


def explain(
    file: ScriptFile,
    engine: RunsOn = Engine.spark,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="As if the outputs and checkpoints of earlier runs were removed first.")
    ] = False,
    analyze: Annotated[
        bool, typer.Option("--analyze", help="Run the queries here, discard the answers, and show what was measured.")
    ] = False,
    memory: Annotated[
        str | None, typer.Option(help="As if windows might take so much of the memory, like 256m.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show all there is to say of every operator, not one line.")
    ] = False,
    param: Params = None,
) -> None:
    """Show how the queries of a script would run, by `sash run` with the same engine."""
    script: Script = read_script(file, read_values(param or []))
    if analyze:
        from sash.embedded.analyze import analyze_files

        for each in script.runs(is_fixed=True):
            print(f"Query {each.name}\n{analyze_files(each, verbose, memory)}")
        return
    is_spark = engine is Engine.spark
    sharing = decide_script(script.plans, shared_checkpoints(file) if is_spark and not fresh else None)
    settings = configured(memory)
    forecast = settings.forecast(sharing.plans, _file_tables(script) if settings.budget() else None)
    if sharing.is_any:
        print(explain_sharing(sharing, is_spark, verbose, forecast))
    else:
        for name, plan in script.plans.items():
            print(f"Query {name}\n{explain_plan(plan, verbose=verbose, forecast=forecast)}")
    if forecast is not None:
        print(memory_line(forecast), end="")


def _file_tables(script: Script) -> dict[str, pa.Table]:
    """The tables in files, as far as they can be read now: how large they are decides how they are looked up in."""
    found: dict[str, pa.Table] = {}
    for name, source in script.tables.items():
        with suppress(SashError):
            if source.path is not None:
                found[name] = script.relation(name)
    return found
