"""The commands of `sash bench` that compare joins of streams."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sash.lab.bench.bench_options import AsJson, Master, Payload, Rate, Seed
from sash.lab.bench.bench_surroundings import (
    open_files,
    open_spark,
    parse_factors,
    require_extras,
    tell_result,
    write_result,
)
from sash.lab.bench.runtimes import Runtime


def join(
    tuples: Annotated[int, typer.Option(help="Rows of both streams together.")] = 1_000_000,
    rate: Rate = 50_000,
    window: Annotated[str, typer.Option(help='How long a row lives, such as "30 seconds".')] = "2 seconds",
    keys: Annotated[
        int | None, typer.Option(help="How many keys; as many as give one joined row per tuple, if not given.")
    ] = None,
    payload: Payload = "none",
    skew: Annotated[float, typer.Option(help="0: keys are equally likely; else the exponent of a Zipf law.")] = 0.0,
    batch: Annotated[int, typer.Option(help="Rows of both streams in a batch.")] = 500_000,
    seed: Seed = 1,
    out: Annotated[Path, typer.Option(help="Where join.json and join.png go.")] = Path("bench-join"),
    engine: Annotated[
        Runtime, typer.Option(help="On Spark; or in this process, against DuckDB with one thread.")
    ] = Runtime.spark,
    engines: Annotated[str, typer.Option(help="On Spark: which of sash, builtin, duckdb run.")] = "sash,builtin,duckdb",
    master: Master = "local[*]",
    keep: Annotated[bool, typer.Option("--keep", help="Keep streams, answers and checkpoints in OUT/files.")] = False,
    as_json: AsJson = False,
) -> None:
    """Join two streams with Sash, Spark's own join and DuckDB, check that all agree, and compare what it took."""
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
    workload = JoinWorkload(tuples, parse_interval(window), rate, keys, payload, skew, batch, seed)
    if engine is Runtime.embedded:
        with open_files(out, keep) as files, Stages(as_json) as stages:
            facts = bench_embedded_join(workload, files, stages)
        write_result(out / "join", facts, lambda path: draw_embedded_join(facts, path))
        tell_result(facts, as_json, out / "join", lambda console: show_embedded_join(facts, console))
        return
    with open_files(out, keep) as files, Stages(as_json) as stages, open_spark(needed, stages) as spark:
        facts = bench_join(workload, files, named, spark, stages).facts()
    write_result(out / "join", facts, lambda path: draw_join(facts, ENGINES, path))
    tell_result(facts, as_json, out / "join", lambda console: show_join(facts, ENGINES, console))


def multiway(
    streams: Annotated[int, typer.Option(help="How many streams are joined.")] = 3,
    tuples: Annotated[int, typer.Option(help="Rows of all streams together.")] = 480_000,
    rate: Rate = 3_333,
    window: Annotated[str, typer.Option(help="Rows of a combination are less than this apart in time.")] = "10 seconds",
    keys: Annotated[int, typer.Option(help="How many keys.")] = 10_000,
    payload: Payload = "none",
    batch: Annotated[int, typer.Option(help="Rows of all streams in a batch in this process.")] = 30_000,
    share: Annotated[float, typer.Option(help="Which share of tuples, rate and keys is for Spark.")] = 1.0,
    spark_batch: Annotated[int, typer.Option(help="Rows of all streams in a batch on Spark.")] = 60_000,
    seed: Seed = 1,
    out: Annotated[Path, typer.Option(help="Where multiway.json and multiway.png go.")] = Path("bench-multiway"),
    engine: Annotated[Runtime | None, typer.Option(help="Only in this process, or only on Spark; else both.")] = None,
    engines: Annotated[str, typer.Option(help="On Spark: which of sash, builtin, duckdb run.")] = "sash,builtin,duckdb",
    master: Master = "local[*]",
    keep: Annotated[bool, typer.Option("--keep", help="Keep streams, answers and checkpoints in OUT/files.")] = False,
    as_json: AsJson = False,
) -> None:
    """Join three streams or more: Sash in this process, and on Spark against a cascade of Spark's own joins."""
    from sash.lab.bench.compare_engines import ENGINES, ON_SPARK, describe_environment, parse_engines
    from sash.lab.bench.many_streams import bench_multiway_embedded, bench_multiway_spark, share_of
    from sash.lab.bench.picture import draw_multiway
    from sash.lab.bench.show_multiway import show_multiway
    from sash.lab.bench.stages import Stages
    from sash.lab.workloads.join_streams import JoinWorkload
    from sash.sql.windows import parse_interval

    named = parse_engines(engines)
    needed = master if engine is not Runtime.embedded and ON_SPARK & set(named) else None
    require_extras(is_on_spark=needed is not None)
    whole = JoinWorkload(tuples, parse_interval(window), rate, keys, payload, 0.0, batch, seed, streams)
    smaller = share_of(whole, share, spark_batch)
    facts: dict[str, Any] = {"benchmark": "multiway", "environment": describe_environment()}
    facts |= {"embedded": None, "spark": None}
    with open_files(out, keep) as files, Stages(as_json) as stages:
        if engine is not Runtime.spark:
            facts["embedded"] = bench_multiway_embedded(whole, files / "embedded", stages)
        if engine is not Runtime.embedded:
            with open_spark(needed, stages) as spark:
                facts["spark"] = bench_multiway_spark(smaller, files / "spark", named, spark, stages)
    write_result(out / "multiway", facts, lambda path: draw_multiway(facts, ENGINES, path))
    tell_result(facts, as_json, out / "multiway", lambda console: show_multiway(facts, ENGINES, console))


def shared(
    queries: Annotated[int, typer.Option(help="How many queries there are.")] = 20,
    shortest: Annotated[str, typer.Option(help="The shortest window.")] = "1 second",
    longest: Annotated[str, typer.Option(help="The longest window.")] = "10 minutes",
    tuples: Annotated[int, typer.Option(help="Rows of both streams together.")] = 300_000,
    rate: Rate = 100,
    keys: Annotated[
        int | None,
        typer.Option(help="How many keys; as many as a stream has rows in the longest window, if not given."),
    ] = None,
    batch: Annotated[int, typer.Option(help="Rows of both streams in a batch.")] = 25_000,
    seed: Seed = 1,
    out: Annotated[Path, typer.Option(help="Where shared.json and shared.png go.")] = Path("bench-shared"),
    engine: Annotated[Runtime | None, typer.Option(help="Only in this process, or only on Spark; else both.")] = None,
    master: Master = "local[*]",
    keep: Annotated[bool, typer.Option("--keep", help="Keep streams, answers and checkpoints in OUT/files.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run many queries over one join, which they share, against the same queries each for itself."""
    from sash.lab.bench.compare_engines import describe_environment
    from sash.lab.bench.picture import draw_shared
    from sash.lab.bench.shared_queries import SharedQueries
    from sash.lab.bench.shared_spark import bench_shared_spark
    from sash.lab.bench.sharing_gain import bench_shared_embedded
    from sash.lab.bench.show_shared import show_shared
    from sash.lab.bench.stages import Stages
    from sash.lab.workloads.join_streams import JoinWorkload
    from sash.sql.windows import parse_interval

    require_extras(is_on_spark=engine is not Runtime.embedded)
    workload = JoinWorkload(tuples, parse_interval(longest), rate, keys, "none", 0.0, batch, seed)
    asked = SharedQueries(workload, queries, parse_interval(shortest))
    facts: dict[str, Any] = {"benchmark": "shared", "environment": describe_environment()}
    facts |= {"embedded": None, "spark": None}
    with open_files(out, keep) as files, Stages(as_json) as stages:
        if engine is not Runtime.spark:
            facts["embedded"] = bench_shared_embedded(asked, files / "embedded", stages)
        if engine is not Runtime.embedded:
            with open_spark(master, stages) as spark:
                assert spark is not None, "a master was given"
                facts["spark"] = bench_shared_spark(asked, files / "spark", spark, stages)
    write_result(out / "shared", facts, lambda path: draw_shared(facts, path))
    tell_result(facts, as_json, out / "shared", lambda console: show_shared(facts, console))


def window(
    base: Annotated[str, typer.Option(help="The shortest window.")] = "1 second",
    factors: Annotated[str, typer.Option(help="How many times longer the windows are.")] = "1,10,100",
    rate: Rate = 50_000,
    batch: Annotated[int, typer.Option(help="Rows of both streams in a batch.")] = 200_000,
    measured: Annotated[int, typer.Option(help="How many batches are measured once the window is full.")] = 8,
    payload: Payload = "none",
    seed: Seed = 1,
    engine: Annotated[Runtime, typer.Option(help="On Spark, or in this process.")] = Runtime.spark,
    out: Annotated[Path, typer.Option(help="Where window.json and window.png go.")] = Path("bench-window"),
    master: Master = "local[*]",
    as_json: AsJson = False,
) -> None:
    """Measure what a tuple costs as the window grows and the number of its matches does not."""
    from sash.lab.bench.picture import draw_window
    from sash.lab.bench.show_join import show_window
    from sash.lab.bench.stages import Stages
    from sash.lab.bench.window_growth import WindowBench, bench_window, window_facts
    from sash.sql.windows import parse_interval

    require_extras(is_on_spark=engine is Runtime.spark)
    plan = WindowBench(parse_interval(base), parse_factors(factors), rate, batch, measured, payload=payload, seed=seed)
    needed = master if engine is Runtime.spark else None
    with open_files(out, is_kept=False) as files, Stages(as_json) as stages, open_spark(needed, stages) as spark:
        facts = window_facts(bench_window(plan, files, spark, stages), engine.value)
    write_result(out / "window", facts, lambda path: draw_window(facts, path))
    tell_result(facts, as_json, out / "window", lambda console: show_window(facts, console))
