"""The commands `sash experiment list`, `run` and `report`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from sash.errors import PlanError, SourceError, require_extra

experiment = typer.Typer(name="experiment")

Out = Annotated[Path, typer.Option(help="Where results, pictures and the report go.")]
OUT = Path("experiments-output")


@experiment.callback(invoke_without_command=True)
def describe(context: typer.Context) -> None:
    """Repeat the experiments of the papers, and check what they claim."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@experiment.command("list")
def list_experiments() -> None:
    """Show which experiments there are."""
    from sash.lab.experiments.experiment_registry import PAPERS, of_paper

    for key, paper in PAPERS.items():
        print(f"{key}: {paper.title}")
        for each in of_paper(key):
            print(f"  {each.name:14}Figure {each.figure}: {each.title}")


@experiment.command()
def run(
    name: Annotated[str, typer.Argument(help="An experiment or a paper, several with commas, or all.")],
    quick: Annotated[bool, typer.Option("--quick", help="A small part, in a few seconds.")] = False,
    full: Annotated[bool, typer.Option("--full", help="More points, and longer runs.")] = False,
    out: Out = OUT,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON, and no progress.")] = False,
) -> None:
    """Run experiments; writes a JSON and a PNG for each, and a report."""
    from sash.lab.bench.stages import Stages
    from sash.lab.experiments.experiment_registry import named
    from sash.lab.experiments.report import write_outcome, write_report

    if quick and full:
        raise PlanError("--quick and --full exclude each other; leave one of them out")
    require_extra("plots", "drawing the figures of an experiment")
    scale_name, chosen = "quick" if quick else "full" if full else "default", named(name)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SourceError(f"`{out}` cannot be made: {error.strerror}; name another directory with --out") from None
    found = []
    with Stages(as_json) as stages:
        for each in chosen:
            with stages.stage(f"{each.name}: {each.title}", None) as note:
                scale = each.paper.scales[scale_name]
                found.append(write_outcome(each, each.run(scale, note), scale, out))
    page = write_report(out)
    if as_json:
        print(json.dumps(found))
        return
    _show(found, Console())
    _tell(page)


@experiment.command()
def report(out: Out = OUT) -> None:
    """Write the report of the experiments that have been run."""
    from sash.lab.experiments.report import read_outcomes, write_report

    _show(read_outcomes(out), Console())
    _tell(write_report(out))


def _tell(page: Path) -> None:
    print(f"written to {page} and {page.with_suffix('.html')}")


def _show(found: list[dict], console: Console) -> None:
    from sash.lab.experiments.report import verdict

    table = Table(title="claims", title_justify="left", show_lines=True)
    for heading in ("experiment", "claim", "measured", ""):
        table.add_column(heading)
    for facts in found:
        for claim in facts["claims"]:
            table.add_row(facts["experiment"], claim["text"], claim["measured"], verdict(claim))
    console.print(table)
