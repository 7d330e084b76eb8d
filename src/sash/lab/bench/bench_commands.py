"""The commands of `sash bench` that compare joins and plans; `outer`, `relation` and `topk` have their own modules."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from sash.errors import require_extra
from sash.lab.bench.bench_surroundings import (
    open_files,
    open_spark,
    parse_factors,
    parse_memory,
    parse_ratios,
    require_extras,
    tell_result,
    write_result,
)
from sash.lab.bench.outer_command import outer
from sash.lab.bench.relation_command import relation
from sash.lab.bench.runtimes import Runtime
from sash.lab.bench.top_k_command import topk

bench = typer.Typer(name="bench")

Rate = Annotated[int, typer.Option(help="Tuples per second of event time, of each stream.")]
Payload = Annotated[
    str, typer.Option(help="none; wide: two strings of 20 characters and a DECIMAL(18,2); or the width of one string.")
]
Seed = Annotated[int, typer.Option(help="The same seed gives the same streams.")]
Master = Annotated[str, typer.Option(help="The Spark master.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and no progress.")]


@bench.callback(invoke_without_command=True)
def describe(context: typer.Context) -> None:
    """Measure what Sash costs on this machine."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@bench.command()
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


@bench.command()
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


@bench.command()
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


@bench.command()
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


@bench.command()
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


bench.command()(outer)
bench.command()(relation)
bench.command()(topk)


@bench.command()
def plans(
    queries: Annotated[str, typer.Option(help="Which of the retail queries q1 … q5 run.")] = "q1,q2,q3,q4,q5",
    tuples: Annotated[int, typer.Option(help="Rows of all streams of a query that are measured.")] = 400_000,
    rate: Rate = 2_000,
    window: Annotated[str, typer.Option(help="How long a row lives.")] = "1 minute",
    batch: Annotated[int, typer.Option(help="Rows of a batch.")] = 10_000,
    schedule: Annotated[str, typer.Option(help="How operators learn what expires: tpa, nta or hybrid.")] = "tpa",
    sweep: Annotated[bool, typer.Option("--sweep", help="Also with shorter windows, and with fewer groups.")] = False,
    factors: Annotated[str, typer.Option(help="How many times longer, or more, the steps of --sweep are.")] = "1,10",
    without_numba: Annotated[bool, typer.Option("--without-numba", help="Also with kernels as plain Python.")] = False,
    seed: Seed = 1,
    out: Annotated[Path, typer.Option(help="Where plans.json and plans.png go.")] = Path("bench-plans"),
    as_json: AsJson = False,
) -> None:
    """Measure whole query plans in this process: joins, DISTINCT, GROUP BY and MINUS over sales of retail stores."""
    from sash.lab.bench.picture import draw_plans
    from sash.lab.bench.plan_costs import PlanBench, bench_plans, compare_without_numba, plan_facts
    from sash.lab.bench.plan_sweep import sweep_groups, sweep_window
    from sash.lab.bench.show_plans import show_plans
    from sash.lab.bench.stages import Stages
    from sash.sql.windows import parse_interval

    require_extras(is_on_spark=False)
    window_us, steps = parse_interval(window), parse_factors(factors)
    benches = [
        PlanBench(name.strip(), tuples, rate, window_us, batch, None, schedule, seed) for name in queries.split(",")
    ]
    with open_files(out, is_kept=False), Stages(as_json) as stages:
        facts = plan_facts(bench_plans(benches, stages))
        if sweep:
            facts["sweeps"] = sweep_window(benches, steps, stages) + sweep_groups(benches[0], steps, stages)
        if without_numba:
            facts["without_numba"] = compare_without_numba(benches, stages)
    write_result(out / "plans", facts, lambda path: draw_plans(facts, path))
    tell_result(facts, as_json, out / "plans", lambda console: show_plans(facts, console))


@bench.command()
def nexmark(
    rate: Annotated[float, typer.Option(help="Events per second of event time: people, auctions and bids.")] = 10_000,
    duration: Annotated[str, typer.Option(help="How much event time the streams cover.")] = "60 seconds",
    queries: Annotated[str, typer.Option(help="Which run, such as q3,q5; all that Sash can run, if not given.")] = "",
    seed: Seed = 1,
    out: Annotated[Path, typer.Option(help="Where nexmark.json and nexmark.png go.")] = Path("bench-nexmark"),
    engine: Annotated[
        Runtime, typer.Option(help="On Spark as well, against its own queries; or in this process only.")
    ] = Runtime.spark,
    master: Master = "local[*]",
    keep: Annotated[bool, typer.Option("--keep", help="Keep streams, answers and checkpoints in OUT/files.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run the queries of the Nexmark benchmark, and compare Sash in this process, Sash on Spark, and Spark's own."""
    from sash.lab.bench.compare_engines import describe_environment
    from sash.lab.bench.nexmark_runs import TITLES, bench_nexmark, parse_queries
    from sash.lab.bench.picture import draw_nexmark
    from sash.lab.bench.show_nexmark import show_nexmark
    from sash.lab.bench.stages import Stages
    from sash.lab.workloads.nexmark import Nexmark
    from sash.sql.windows import parse_interval

    require_extras(is_on_spark=engine is Runtime.spark)
    needed = master if engine is Runtime.spark else None
    workload, named = Nexmark(rate, parse_interval(duration), seed), parse_queries(queries)
    with open_files(out, keep) as files, Stages(as_json) as stages, open_spark(needed, stages) as spark:
        facts = bench_nexmark(workload, named, files, stages, spark)
    facts = {"benchmark": "nexmark", "environment": describe_environment()} | facts
    write_result(out / "nexmark", facts, lambda path: draw_nexmark(facts, TITLES, path))
    tell_result(facts, as_json, out / "nexmark", lambda console: show_nexmark(facts, console))


@bench.command()
def planner(
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the workloads only.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure every join method under fifty loads, and whether the planner's choice is the best of them."""
    from sash.cost.prices import load_prices
    from sash.lab.bench.planner_choice import QUICK, bench_planner, grid, planner_facts
    from sash.lab.bench.show_planner import show_planner
    from sash.lab.bench.stages import Stages

    prices = load_prices()
    with Stages(as_json) as stages:
        facts = planner_facts(bench_planner(grid()[:: QUICK if quick else 1], prices, stages), prices)
    if as_json:
        print(json.dumps(facts))
    else:
        show_planner(facts, Console(width=max(120, Console().width)))
