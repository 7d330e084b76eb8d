"""Filter and projection: what is plain enough is answered as DuckDB would, without asking it for every batch."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sash.operators import evaluator
from sash.operators.project import IS_ENTERING, Project, ProjectSpec
from sash.store.batch import NEVER, SIGNED_FIELDS
from support.steps import signed

COLUMNS = pa.schema([("k", pa.int64()), ("s", pa.string())])
SCHEMA = pa.schema([*COLUMNS, *SIGNED_FIELDS])
BATCH = signed([(1, 1, 9, (5, "a")), (-1, 2, 9, (None, "b")), (1, 3, 9, (7, None))], COLUMNS)
CONSTANTS = {
    "CAST(NULL AS BIGINT)": None,
    "CAST(NULL AS VARCHAR)": None,
    "CAST(NULL AS DECIMAL(18, 2))": None,
    "CAST(NULL AS TIMESTAMP WITH TIME ZONE)": None,
    f"CAST({NEVER} AS BIGINT)": NEVER,
    "CAST(-3 AS INTEGER)": -3,
}


@pytest.mark.parametrize("sql", CONSTANTS)
def test_a_constant_is_as_duckdb_says(sql: str) -> None:
    project = Project(ProjectSpec((("x", sql),), ("k", "_op")), SCHEMA)
    found = project.process([BATCH], 9)
    assert found.schema == project.schema
    assert found.column("x").to_pylist() == [CONSTANTS[sql]] * 3
    assert found.column("k").to_pylist() == [5, None, 7]


def test_duckdb_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project(ProjectSpec((("x", "CAST(17 AS BIGINT)"),), ("k", "_op"), IS_ENTERING), SCHEMA)
    asked, run = [], evaluator.run
    monkeypatch.setattr(evaluator, "run", lambda sql, **tables: asked.append(sql) or run(sql, **tables))
    for _ in range(3):
        assert project.process([BATCH], 9).to_pydict() == {"k": [5, 7], "_op": [1, 1], "x": [17, 17]}
    assert len(asked) == 1


def test_other_expressions_are_evaluated() -> None:
    project = Project(ProjectSpec((("x", '"k" + CAST(1 AS BIGINT)'),), ("s",), '"_op" < 0 OR "k" > 5'), SCHEMA)
    assert project.process([BATCH], 9).to_pydict() == {"s": ["b", None], "x": [None, 8]}
