"""The command `sash bench relation`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from sash.errors import require_extra
from sash.lab.bench.bench_surroundings import (
    open_files,
    open_spark,
    parse_memory,
    parse_ratios,
    require_extras,
    tell_result,
    write_result,
)


def relation(
    memory: Annotated[str | None, typer.Option(help="What engines may take, such as 64m; 8 MiB, if not given.")] = None,
    ratios: Annotated[
        str | None, typer.Option(help="How many times as large the relation is; 0.1,1,5,20, if not given.")
    ] = None,
    biases: Annotated[
        str | None, typer.Option(help="How unequal keys are, with the largest relation; 0.5,0.6,0.8,0.95.")
    ] = None,
    steps: Annotated[
        str | None, typer.Option(help="Tuples in a step, with the largest relation; 1000,10000,100000.")
    ] = None,
    step: Annotated[int, typer.Option(help="Tuples in a step where that is not what differs.")] = 1_000,
    measured: Annotated[int | None, typer.Option(help="How many steps are measured; 20, if not given.")] = None,
    engines: Annotated[
        str | None,
        typer.Option(
            help="Which of partitioned_hash, partitioned_range, mesh, inl, postgres, builtin, duckdb run; all, if not "
            "given."
        ),
    ] = None,
    postgres: Annotated[
        str | None,
        typer.Option(help="The address of a PostgreSQL server with room for a table; one is started, if not given."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="If not given otherwise: 2 MiB, 0.1,20, 5 steps, and no Spark.")
    ] = False,
    seed: Annotated[int, typer.Option(help="The same seed gives the same streams.")] = 1,
    out: Annotated[Path, typer.Option(help="Where relation.json and relation.png go.")] = Path("bench-relation"),
    master: Annotated[str, typer.Option(help="The Spark master.")] = "local[*]",
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and no progress.")] = False,
) -> None:
    """Look up in a relation that outgrows memory: Sash by each method, PostgreSQL, Spark's own join, and DuckDB."""
    from sash.lab.bench.compare_engines import parse_engines
    from sash.lab.bench.relation_engines import BUILTIN, ENGINES, POSTGRES
    from sash.lab.bench.relation_growth import QUICK, RelationBench, Servers, bench_relation, open_postgres
    from sash.lab.bench.show_relation import draw_relation, show_relation
    from sash.lab.bench.stages import Stages

    given = {
        "limit_bytes": None if memory is None else parse_memory(memory),
        "ratios": None if ratios is None else parse_ratios(ratios),
        "biases": None if biases is None else parse_ratios(biases),
        "steps": None if steps is None else tuple(map(int, parse_ratios(steps))),
        "n_measured": measured,
        "engines": None if engines is None else parse_engines(engines, ENGINES),
    }
    asked = {name: value for name, value in given.items() if value is not None}
    plan = replace(QUICK if quick else RelationBench(), **asked, usual_step=step, seed=seed)
    if POSTGRES in plan.engines:
        require_extra("postgres", "PostgreSQL", "name the other --engines")
    if BUILTIN in plan.engines:
        require_extra("spark", "Spark's join", "name the other --engines")
    require_extras(is_on_spark=False)
    with (
        open_files(out, is_kept=False) as files,
        Stages(as_json) as stages,
        open_spark(master if BUILTIN in plan.engines else None, stages) as spark,
        open_postgres(plan.engines, postgres, plan.limit_bytes) as server,
    ):
        facts = bench_relation(plan, files, Servers(spark, server), stages)
    write_result(out / "relation", facts, lambda path: draw_relation(facts, path))
    tell_result(facts, as_json, out / "relation", lambda console: show_relation(facts, console))
