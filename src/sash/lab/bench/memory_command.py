"""The command `sash bench memory`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from sash.errors import require_extra
from sash.lab.bench.bench_options import AsJson, Seed
from sash.lab.bench.bench_surroundings import (
    open_files,
    parse_memory,
    parse_ratios,
    require_extras,
    tell_result,
    write_result,
)


def memory(
    memory: Annotated[str, typer.Option(help="What engines may take, such as 64m.")] = "16 MiB",
    ratios: Annotated[
        str | None, typer.Option(help="How many times as large windows are; 0.5,1,2,5,10,20, if not given.")
    ] = None,
    step: Annotated[int, typer.Option(help="Rows of both streams in a step.")] = 5_000,
    measured: Annotated[
        int | None, typer.Option(help="How many steps are measured once the window is full; 20, if not given.")
    ] = None,
    engines: Annotated[
        str | None,
        typer.Option(help="Which of sash, tiered, ewj, rpwj, ahewj, duckdb, builtin run; all, if not given."),
    ] = None,
    patience: Annotated[str, typer.Option(help="An engine that takes longer is left out.")] = "2 minutes",
    quick: Annotated[
        bool, typer.Option("--quick", help="If not given otherwise: 0.5,2,10, 5 steps, and no Spark.")
    ] = False,
    seed: Seed = 1,
    out: Annotated[Path, typer.Option(help="Where memory.json and memory.png go.")] = Path("bench-memory"),
    as_json: AsJson = False,
) -> None:
    """Join two streams whose windows outgrow memory: Sash, joins of a thesis, DuckDB over files, and Spark's own."""
    from sash.lab.bench.compare_engines import parse_engines
    from sash.lab.bench.memory_growth import QUICK, MemoryBench, bench_memory
    from sash.lab.bench.picture import draw_memory
    from sash.lab.bench.show_memory import show_memory
    from sash.lab.bench.stages import Stages
    from sash.lab.bench.step_engines import BUILTIN, ENGINES
    from sash.sql.windows import parse_interval

    given = {
        "ratios": None if ratios is None else parse_ratios(ratios),
        "n_measured": measured,
        "engines": None if engines is None else parse_engines(engines, ENGINES),
    }
    asked = {name: value for name, value in given.items() if value is not None}
    common = {
        "limit_bytes": parse_memory(memory),
        "step_rows": step,
        "patience_s": parse_interval(patience) / 1e6,
        "seed": seed,
    }
    plan = replace(QUICK if quick else MemoryBench(), **asked, **common)
    if BUILTIN in plan.engines:
        require_extra("spark", "Spark's join", "name the other --engines")
    require_extras(is_on_spark=False)
    with open_files(out, is_kept=False) as files, Stages(as_json) as stages:
        facts = bench_memory(plan, files, stages)
    write_result(out / "memory", facts, lambda path: draw_memory(facts, ENGINES, path))
    tell_result(facts, as_json, out / "memory", lambda console: show_memory(facts, console))
