"""The queries of Nexmark are right, and `sash bench nexmark` gets the same rows from whoever has to give them."""

from __future__ import annotations

import json
import re
from io import StringIO

import pyarrow as pa
import pytest
from rich.console import Console

import sash
from sash.errors import MismatchError, PlanError
from sash.lab.bench.nexmark_queries import BUILTIN, QUERIES
from sash.lab.bench.nexmark_runs import TITLES, _require_same, bench_nexmark, parse_queries
from sash.lab.bench.picture import draw_nexmark
from sash.lab.bench.show_nexmark import show_nexmark
from sash.lab.bench.stages import Stages
from sash.lab.workloads.nexmark import Nexmark

QUIET = Stages(is_quiet=True)
SMALL = Nexmark(rate=100, duration_us=25_000_000)


@pytest.fixture(scope="module")
def frames() -> dict:
    streams = {each.name: sash.stream(pa.concat_tables(SMALL.generate(each.name)), each.time) for each in SMALL.streams}
    return streams | {name: sash.relation(table) for name, table in SMALL.tables.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_every_query_is_right(name, frames):
    read = {each: frame for each, frame in frames.items() if re.search(rf"\b{each}\b", QUERIES[name])}
    found = sash.verify(QUERIES[name], 12, **read)
    assert found, found
    assert found.n_changes > 0


@pytest.mark.slow
def test_in_this_process(tmp_path):
    facts = json.loads(json.dumps(bench_nexmark(SMALL, ["q2", "q8", "q13"], tmp_path, QUIET, None)))
    assert [set(told) for told in facts["queries"].values()] == [{"embedded"}] * 3
    assert facts["queries"]["q8"]["embedded"]["n_read"] == 200
    _check_told(facts, tmp_path)


@pytest.mark.deep
@pytest.mark.parametrize("name", QUERIES)
def test_on_spark(spark, tmp_path, name):
    facts = bench_nexmark(SMALL, [name], tmp_path, QUIET, spark)
    assert set(facts["queries"][name]) == {"embedded", "spark", *({"builtin"} if name in BUILTIN else ())}
    _check_told(facts, tmp_path)


def test_other_rows_are_told():
    _require_same("q1", {"embedded": "2 rows, checksum 7", "spark": "2 rows, checksum 7"})
    with pytest.raises(MismatchError, match="the answers to q1 differ: `embedded` gives 2 rows, checksum 7, `spark`"):
        _require_same("q1", {"embedded": "2 rows, checksum 7", "spark": "no rows"})


def test_queries_are_named():
    assert parse_queries("") == tuple(QUERIES)
    assert parse_queries(" Q3,q1,q3") == ("q3", "q1")
    with pytest.raises(PlanError, match="there is no query `q99`"):
        parse_queries("q1,q99")


def _check_told(facts, tmp_path):
    draw_nexmark(facts, TITLES, tmp_path / "nexmark.png")
    assert (tmp_path / "nexmark.png").read_bytes().startswith(b"\x89PNG")
    shown = StringIO()
    show_nexmark(facts, Console(width=120, file=shown))
    assert all(name in shown.getvalue() for name in facts["queries"])
