"""The commands of `sash bench`: those of whole plans are here, the others have modules of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sash.lab.bench.bench_options import AsJson, Master, Rate, Seed
from sash.lab.bench.bench_surroundings import (
    open_files,
    open_spark,
    parse_factors,
    require_extras,
    tell_result,
    write_result,
)
from sash.lab.bench.join_commands import join, multiway, shared, window
from sash.lab.bench.memory_command import memory
from sash.lab.bench.outer_command import outer
from sash.lab.bench.relation_command import relation
from sash.lab.bench.runtimes import Runtime
from sash.lab.bench.top_k_command import topk

bench = typer.Typer(name="bench")


@bench.callback(invoke_without_command=True)
def describe(context: typer.Context) -> None:
    """Measure what Sash costs on this machine."""
    if context.invoked_subcommand is None:
        print(context.get_help())


for command in (join, multiway, shared, window, memory, outer, relation, topk):
    bench.command()(command)


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
def algorithms(
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the workloads only.")] = False,
    tuples: Annotated[int, typer.Option(help="Of a step that is measured, at most.")] = 4_096,
    as_json: AsJson = False,
) -> None:
    """Measure every algorithm for joins of many streams under sixty loads, and whether the planner's choice is best."""
    from sash.cost.prices import load_prices
    from sash.lab.bench.algorithm_choice import QUICK, algorithm_facts, bench_algorithms, many_grid
    from sash.lab.bench.show_algorithms import show_algorithms
    from sash.lab.bench.stages import Stages

    prices = load_prices()
    with Stages(as_json) as stages:
        cells = bench_algorithms(many_grid()[:: QUICK if quick else 1], prices, tuples, stages)
    facts = algorithm_facts(cells, prices)
    if as_json:
        print(json.dumps(facts))
    else:
        show_algorithms(facts, Console(width=max(120, Console().width)))


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
