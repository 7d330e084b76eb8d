"""`sash bench relation`: the same pairs from every engine, and what each of them has read."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import sash
from sash.cost.lookup_cost import INL, MESH, PARTITIONED_HASH, PARTITIONED_RANGE
from sash.errors import MismatchError, PlanError
from sash.lab.bench import relation_growth
from sash.lab.bench.relation_engines import BUILTIN, ENGINES, POSTGRES, ROW_BYTES, DuckDbLookup
from sash.lab.bench.relation_growth import RelationBench, RelationPlace, Servers, bench_relation, open_postgres
from sash.lab.bench.show_relation import draw_relation, show_relation
from sash.lab.bench.stages import Stages
from support.postgres_server import Server

QUIET = Stages(is_quiet=True)
HERE = tuple(engine for engine in ENGINES if engine not in (BUILTIN, POSTGRES))
SMALL = RelationBench(
    1 << 20, (0.05, 2), (0.6,), engines=HERE, steps=(300, 700), usual_step=300, n_warm=1, n_measured=2
)


@pytest.fixture(autouse=True)
def no_limit_afterwards():
    yield
    sash.configure()


@pytest.mark.slow
def test_all_engines_give_the_same_pairs(tmp_path: Path):
    facts = json.loads(json.dumps(bench_relation(SMALL, tmp_path, Servers(), QUIET)))
    cells = {(cell["engine"], cell["ratio"], cell["step_rows"]): cell for cell in facts["cells"]}
    assert set(cells) == {(engine, *place) for engine in HERE for place in [(0.05, 300), (2, 300), (2, 700)]}
    assert {cell["bias"] for cell in facts["cells"]} == {0.6}
    assert [each["rows"] for each in facts["answers"]] == [900, 900, 2100]
    relation_bytes = 2 << 20
    for (engine, ratio, step), cell in cells.items():
        assert cell["tuples_per_second"] > 0
        assert 0 < cell["mean_delay_ms"] <= cell["p99_delay_ms"]
        if engine == INL:
            assert cell["read_per_tuple"] is None
        elif ratio == 2 and engine in (PARTITIONED_HASH, PARTITIONED_RANGE, MESH):
            assert 0 < step * cell["read_per_tuple"] < 1.5 * relation_bytes
    assert 300 * cells[MESH, 2, 300]["read_per_tuple"] > relation_bytes
    shown = StringIO()
    show_relation(facts, Console(file=shown, width=200))
    assert all(ENGINES[engine] in shown.getvalue() for engine in HERE)
    draw_relation(facts, tmp_path / "relation.png")
    assert (tmp_path / "relation.png").stat().st_size > 10_000


def test_a_relation_has_the_size_that_is_asked_for():
    workload = SMALL.workload(RelationPlace(2, 0.6, 300))
    assert workload.relation().nbytes == pytest.approx(workload.n_rows * ROW_BYTES, rel=0.02)
    assert workload.relation().equals(workload.relation())
    assert [step.num_rows for step in workload.steps()] == [300, 300, 300]


def test_engines_that_differ_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    class Forgetful(DuckDbLookup):
        def push(self, step):
            return super().push(step).slice(1)

    monkeypatch.setattr(relation_growth, "DuckDbLookup", Forgetful)
    bench = RelationBench(1 << 20, (0.05,), (0.6,), engines=(MESH, "duckdb"), steps=(50,), usual_step=50, n_warm=0)
    with pytest.raises(MismatchError, match="only `mesh`, not `duckdb`"):
        bench_relation(bench, tmp_path, Servers(), QUIET)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"ratios": ()}, "there must be some"),
        ({"ratios": (0,)}, "each more than 0"),
        ({"biases": (0.4,)}, "at least 0.5"),
        ({"n_measured": 0}, "at least 1"),
        ({"steps": (10, 0)}, "each must have a tuple"),
        ({"limit_bytes": 1000}, "or more"),
    ],
)
def test_what_cannot_be_measured_is_refused(settings: dict, reason: str):
    with pytest.raises(PlanError, match=reason):
        RelationBench(**settings)


def test_a_server_that_nobody_needs_is_not_started(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(relation_growth, "find_programs", lambda: None)
    with open_postgres(HERE, None, 1 << 20) as address:
        assert address is None
    with open_postgres((POSTGRES,), "postgresql://somewhere/db", 1 << 20) as address:
        assert address == "postgresql://somewhere/db"
    with pytest.raises(PlanError, match="no PostgreSQL on this machine"), open_postgres((POSTGRES,), None, 1 << 20):
        pass


def test_postgresql_gives_the_same_pairs_and_is_left_as_it_was(postgres: Server, tmp_path: Path):
    bench = RelationBench(1 << 20, (4,), (0.6,), engines=(MESH, POSTGRES), steps=(200,), usual_step=200, n_warm=1)
    facts = bench_relation(bench, tmp_path, Servers(postgres=postgres.address()), QUIET)
    assert facts["cells"][1]["read_per_tuple"] is not None
    assert not postgres.execute("SELECT * FROM pg_tables WHERE tablename = 'sash_bench_relation'")
