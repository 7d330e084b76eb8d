"""The command `sash bench topk`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sash.lab.bench.bench_surroundings import open_files, require_extras, tell_result, write_result


def topk(
    keys: Annotated[int, typer.Option(help="How many keys there are.")] = 1_000_000,
    limit: Annotated[int, typer.Option(help="How many groups are shown.")] = 10,
    tuples: Annotated[int, typer.Option(help="How many are measured once the window is full.")] = 500_000,
    per_key: Annotated[float, typer.Option(help="Tuples in the window, by the number of keys.")] = 2.0,
    aggregate: Annotated[str, typer.Option(help="By which groups are ordered: of `v`, or of all rows.")] = "count(*)",
    batch: Annotated[int, typer.Option(help="Rows of a batch.")] = 20_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same stream.")] = 1,
    out: Annotated[Path, typer.Option(help="Where topk.json and topk.png go.")] = Path("bench-topk"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and no progress.")] = False,
) -> None:
    """Measure what the first rows of a GROUP BY cost in this process, against the GROUP BY alone."""
    from sash.lab.bench.show_top_k import draw_top_k, show_top_k
    from sash.lab.bench.stages import Stages
    from sash.lab.bench.top_k_cost import TopKBench, bench_top_k

    require_extras(is_on_spark=False)
    bench = TopKBench(keys, limit, tuples, per_key, aggregate, batch, seed)
    with open_files(out, is_kept=False), Stages(as_json) as stages:
        facts = bench_top_k(bench, stages)
    write_result(out / "topk", facts, lambda path: draw_top_k(facts, path))
    tell_result(facts, as_json, out / "topk", lambda console: show_top_k(facts, console))
