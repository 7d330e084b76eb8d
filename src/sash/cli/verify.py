"""`sash verify`: the answers of a script's queries, compared with DuckDB's."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from sash.cli.arguments import Params, ScriptFile
from sash.cli.show import VerifyProgress, show_verifications
from sash.oracle.verification import N_INSTANTS, verify_script
from sash.runtime.script import read_script
from sash.sql.parameters import read_values


def verify(
    file: ScriptFile,
    query: Annotated[str | None, typer.Option(help="Only this query of the script.")] = None,
    instants: Annotated[int, typer.Option(help="At how many instants to compare, evenly spread.")] = N_INSTANTS,
    at_all: Annotated[bool, typer.Option("--all", help="Compare at every instant at which something changes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON, and no progress.")] = False,
    param: Params = None,
) -> None:
    """Run the queries of a script here and compare their answers with DuckDB's; the exit code is 1 if they differ."""
    script = read_script(file, read_values(param or []))
    names = list(script.plans) if query is None else [query]
    with VerifyProgress(is_quiet=as_json) as progress:
        found = verify_script(script, names, None if at_all else instants, progress.report)
    if as_json:
        print(json.dumps({"queries": {name: each.facts() for name, each in found.items()}}, default=str))
    else:
        show_verifications(found)
    if not all(found.values()):
        sys.exit(1)
