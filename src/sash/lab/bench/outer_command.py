"""The command `sash bench outer`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sash.lab.bench.bench_surroundings import open_files, open_spark, require_extras, tell_result, write_result
from sash.lab.bench.runtimes import Runtime


def outer(
    tuples: Annotated[int, typer.Option(help="Rows of both streams together.")] = 1_000_000,
    rate: Annotated[int, typer.Option(help="Tuples per second of event time, of each stream.")] = 50_000,
    window: Annotated[str, typer.Option(help="How long a row lives, and waits for a partner.")] = "2 seconds",
    keys: Annotated[
        int | None, typer.Option(help="How many keys; as many as a stream has rows in a window, if not given.")
    ] = None,
    payload: Annotated[
        str,
        typer.Option(help="none; wide: two strings of 20 characters and a DECIMAL(18,2); or the width of one string."),
    ] = "none",
    batch: Annotated[int, typer.Option(help="Rows of both streams in a batch.")] = 500_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same streams.")] = 1,
    out: Annotated[Path, typer.Option(help="Where outer.json and outer.png go.")] = Path("bench-outer"),
    engine: Annotated[
        Runtime, typer.Option(help="On Spark; or in this process, against DuckDB with one thread.")
    ] = Runtime.spark,
    engines: Annotated[str, typer.Option(help="On Spark: which of sash, builtin, duckdb run.")] = "sash,builtin,duckdb",
    master: Annotated[str, typer.Option(help="The Spark master.")] = "local[*]",
    keep: Annotated[bool, typer.Option("--keep", help="Keep streams, answers and checkpoints in OUT/files.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and no progress.")] = False,
) -> None:
    """Join two streams by LEFT JOIN, final rows only: Sash, Spark's own outer join and DuckDB, which must agree."""
    from sash.lab.bench.compare_engines import ENGINES, ON_SPARK, bench_join, parse_engines
    from sash.lab.bench.embedded_join import bench_embedded_join
    from sash.lab.bench.picture import draw_embedded_join, draw_join
    from sash.lab.bench.show_join import show_embedded_join, show_join
    from sash.lab.bench.stages import Stages
    from sash.lab.workloads.join_streams import JoinWorkload
    from sash.sql.windows import parse_interval

    named = parse_engines(engines)
    needed = master if engine is Runtime.spark and ON_SPARK & set(named) else None
    require_extras(is_on_spark=needed is not None)
    workload = JoinWorkload(tuples, parse_interval(window), rate, keys, payload, 0.0, batch, seed, is_outer=True)
    if engine is Runtime.embedded:
        with open_files(out, keep) as files, Stages(as_json) as stages:
            facts = bench_embedded_join(workload, files, stages)
        write_result(out / "outer", facts, lambda path: draw_embedded_join(facts, path))
        tell_result(facts, as_json, out / "outer", lambda console: show_embedded_join(facts, console))
        return
    with open_files(out, keep) as files, Stages(as_json) as stages, open_spark(needed, stages) as spark:
        facts = bench_join(workload, files, named, spark, stages).facts()
    write_result(out / "outer", facts, lambda path: draw_join(facts, ENGINES, path))
    tell_result(facts, as_json, out / "outer", lambda console: show_join(facts, ENGINES, console))
