"""Sales are what `Retail` says, and the five example scripts answer as DuckDB does."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sash
from sash.embedded.run_to_end import run_files
from sash.errors import PlanError
from sash.io.sink import read_sink
from sash.lab.workloads.retail import (
    EXAMPLE,
    QUERIES,
    Retail,
    batches,
    favorites,
    query_text,
    relations_of,
    sales,
    streams_of,
    write_retail,
)
from sash.runtime.job import Job
from sash.runtime.script import bind_script
from sash.testing import assert_snapshot
from support.profiles import everyday

EXAMPLES = Path(__file__).parents[3] / "examples" / "retail"
SMALL = Retail(rate=3, duration_us=150_000_000, n_items=EXAMPLE.items, n_stores=10, favorites=0.4, seed=3)
SECOND = 1_000_000


def frames(query: str, retail: Retail) -> dict:
    streams = {name: sales(retail, letter) for name, letter in streams_of(query).items()}
    return streams | {name: sash.relation(table) for name, table in relations_of(query, retail).items()}


@pytest.mark.slow
@pytest.mark.parametrize("query", everyday(["q1", "q2", "q3"], QUERIES))
def test_example_scripts_agree_with_duckdb(query, tmp_path):
    """The script as it stands, but for its paths."""
    few = Retail(rate=3, duration_us=150_000_000, n_items=30, n_stores=10, favorites=0.4, seed=3)
    write_retail(tmp_path / "data", few)
    script = (EXAMPLES / f"{query}.sql").read_text().replace("S.ItemID > 982", "S.ItemID > 22")
    script = script.replace("examples/data/retail", str(tmp_path / "data")).replace("examples/output", str(tmp_path))
    (run,) = bind_script(script).runs()
    tally = run_files(Job.alone(run), lambda name, tally: None)[run.name]
    assert tally.n_late == tally.n_rejected == 0
    changes = read_sink(run.sink, run.plan.schema)
    assert changes.num_rows > 10
    text = re.search(r"AS\n(.*?)\s+INTO", script, re.DOTALL)
    assert text
    written = {name: sash.relation(table) for name, table in favorites(few, few.favorites).items() if name in text[1]}
    assert_snapshot(text[1], changes.sort_by("_ts"), **frames(query, few) | written)


@pytest.mark.parametrize("query", QUERIES)
def test_examples_ask_what_benchmarks_and_experiments_ask(query):
    asked = (EXAMPLES / f"{query}.sql").read_text().split("CREATE QUERY")[1].split("AS\n", 1)[1].split("INTO")[0]
    expected = query_text(query, EXAMPLE).replace("60000000 MICROSECONDS", "1 MINUTE")
    assert " ".join(asked.split()) == expected


@pytest.mark.slow
@pytest.mark.parametrize("schedule", everyday(["nta"], ["tpa", "nta", "hybrid"]))
@pytest.mark.parametrize("query", QUERIES)
def test_every_schedule_gives_the_answer(query, schedule):
    few = Retail(rate=2, duration_us=130_000_000, n_items=20, n_stores=6, favorites=0.5, seed=5)
    text = query_text(query, few, schedule)
    given = frames(query, few)
    assert_snapshot(text, sash.sql(text, **given), **given)


def test_a_seed_gives_the_same_sales_and_streams_differ():
    assert sales(SMALL).equals(sales(SMALL))
    assert not sales(SMALL).equals(sales(SMALL, "B"))
    assert not sales(SMALL).equals(sales(Retail(rate=3, duration_us=150 * SECOND, seed=4)))


def test_time_between_sales_is_exponential():
    """Of an exponential distribution, deviation and mean are the same."""
    ts = sales(Retail(rate=10, duration_us=2_000 * SECOND)).column("ts").cast(pa.int64()).to_numpy()
    gaps = np.diff(ts) / SECOND
    assert gaps.mean() == pytest.approx(0.1, rel=0.05)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.05)


def test_selectivities_are_what_was_asked_for():
    retail = Retail(rate=20, duration_us=600 * SECOND)
    a, b = sales(retail), sales(retail, "B")
    items = a.column("ItemID").to_numpy()
    assert np.mean(items > retail.item_threshold) == pytest.approx(0.25, abs=0.02)
    assert pc.mean(pc.greater(a.column("Price"), pa.scalar(retail.price_threshold).cast(pa.float64()))).as_py() == (
        pytest.approx(0.25, abs=0.02)
    )
    for query in ("q3", "q4", "q5"):
        passes = np.ones(len(items), bool)
        for table in relations_of(query, retail).values():
            (column,) = table.column_names
            passes &= np.isin(a.column(column).to_numpy(), table.column(column).to_numpy())
        assert passes.mean() == pytest.approx(0.1, abs=0.02)
    assert share_with_partner(a, b, retail.window_us) == pytest.approx(0.6, abs=0.03)


def share_with_partner(a: pa.Table, b: pa.Table, window_us: int) -> float:
    """Of the sales of `a` in the middle, which are not near the ends of the recording."""
    ours, theirs = (
        (table.column("ItemID").to_numpy(), table.column("ts").cast(pa.int64()).to_numpy()) for table in (a, b)
    )
    middle = (ours[1] > ours[1][0] + window_us) & (ours[1] < ours[1][-1] - window_us)
    found = [np.any((theirs[0] == item) & (abs(theirs[1] - ts) < window_us)) for item, ts in zip(*ours)]
    return float(np.mean(np.array(found)[middle]))


def test_batches_take_turns_and_lose_nothing():
    taken = list(batches(SMALL, "q2", 100))
    assert [name for name, _ in taken[:4]] == ["SalesStream_A", "SalesStream_B"] * 2
    for stream, letter in streams_of("q2").items():
        assert pa.concat_tables([rows for name, rows in taken if name == stream]).equals(sales(SMALL, letter))


@pytest.mark.parametrize("options", [{"predicate": 0}, {"partners": 1.0}, {"favorites": 1.5}, {"rate": 0}])
def test_mistakes_have_reasons(options):
    with pytest.raises(PlanError, match=r"must be|may stay alone"):
        Retail(**options)
