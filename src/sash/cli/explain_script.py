"""`sash explain`: how the queries of a script would run."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import pyarrow as pa
import typer

from sash.cli.arguments import Params, ScriptFile
from sash.errors import SashError
from sash.plan.explain.describe_memory import memory_line
from sash.plan.explain.describe_sharing import explain_sharing
from sash.plan.explain.tree import explain_plan
from sash.plan.sharing.who_shares import LEAST_IN_SCRIPTS, decide_sharing
from sash.runtime.memory_settings import configured
from sash.runtime.script import Script, read_script
from sash.sql.parameters import read_values


def explain(
    file: ScriptFile,
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
    """Show how the queries of a script would run."""
    script: Script = read_script(file, read_values(param or []))
    if analyze:
        from sash.embedded.analyze import analyze_files

        for each in script.runs(is_fixed=True):
            print(f"Query {each.name}\n{analyze_files(each, verbose, memory)}")
        return
    sharing = decide_sharing(script.plans, LEAST_IN_SCRIPTS)
    settings = configured(memory)
    forecast = settings.forecast(sharing.plans, _file_tables(script) if settings.budget() else None)
    if sharing.is_any:
        print(explain_sharing(sharing, verbose=verbose, forecast=forecast))
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
