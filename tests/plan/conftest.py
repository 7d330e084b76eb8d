"""A small world for plans: its streams and relations, and logical plans as text."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from sash.plan.logical import Join, Relational, Scan, Select, logical_plan
from sash.plan.planner import plan_query
from sash.plan.query_plan import QueryPlan
from sash.plan.rules import RULES
from sash.sql.bind import bind
from sash.sql.bound_query import Block
from sash.sql.catalog import Catalog, RelationInfo, StreamInfo
from sash.sql.expressions import to_duckdb
from sash.sql.parse import parse_query
from sash.sql.window_kinds import WINDOW_COLUMNS


def _stream(**columns: pa.DataType) -> StreamInfo:
    return StreamInfo(pa.schema([("ts", pa.int64()), *columns.items()]), "ts")


CATALOG: Catalog = {
    "a": _stream(k=pa.int64(), x=pa.int32(), s=pa.string()),
    "b": _stream(k=pa.int64(), y=pa.float64(), s=pa.string()),
    "c": _stream(k=pa.int64(), z=pa.int64(), s=pa.string()),
    "r": RelationInfo(pa.schema([("k", pa.int64()), ("name", pa.string())])),
    "q": RelationInfo(pa.schema([("name", pa.string()), ("price", pa.decimal128(9, 2))])),
}


def bind_text(sql: str) -> Block:
    return bind(parse_query(sql), CATALOG)


def plan_text(sql: str) -> QueryPlan:
    return plan_query(bind_text(sql))


def logical_text(sql: str, rule: str | None) -> str:
    """The logical plan after the rules up to and including this one; as written if there is none."""
    query = logical_plan(bind_text(sql))
    assert isinstance(query, Select)
    for one in RULES if rule else ():
        query = one(query)
        if one.__name__ == rule:
            break
    return "\n".join(_show_select(query))


def _show_select(select: Select) -> Iterator[str]:
    yield _facts("Select", outputs=[output.name for output in select.outputs], where=_sql(select.conjuncts))
    yield from _show(select.input, "  ")


def _show(node: Relational, indent: str) -> Iterator[str]:
    computed = [f"{to_duckdb(expr)} AS {name}" for name, expr in node.computed]
    if isinstance(node, Scan):
        title = f"Scan {node.source.alias}"
        above = [WINDOW_COLUMNS[1]] if node.ends_above else []
        chosen = {"above": above, "keeps": _kept(node), "says": _said(node)}
        yield indent + _facts(
            title, columns=list(node.columns), where=_sql(node.conjuncts), computes=computed, **chosen
        )
        return
    keys = [" = ".join(pair) for pair in node.keys]
    yield indent + _facts(
        "Join" if node.kind == "INNER" else f"{node.kind} JOIN",
        keys=keys,
        where=_sql(node.conjuncts),
        computes=computed,
    )
    yield from _show(node.left, indent + "  ")
    yield from _show(node.right, indent + "  ")


def _kept(scan: Scan) -> list[str]:
    """The first rows that a subquery keeps."""
    ranking = scan.body.bound.ranking if isinstance(scan.body, Select) else None
    return [f"{ranking.function} > {ranking.first} and <= {ranking.last}"] if ranking else []


def _said(scan: Scan) -> list[str]:
    """What a subquery has of functions OVER rows."""
    over = scan.body.bound.over if isinstance(scan.body, Select) else None
    return [each.function for window in over.windows for _, each in window.functions] if over else []


def _sql(conjuncts: tuple) -> list[str]:
    return [to_duckdb(conjunct) for conjunct in conjuncts]


def _facts(title: str, **facts: list[str]) -> str:
    return " | ".join([title, *(f"{name} {', '.join(items)}" for name, items in facts.items() if items)]).replace(
        '"', ""
    )


@pytest.fixture
def plan() -> Callable[[str], QueryPlan]:
    return plan_text


@pytest.fixture
def show_logical() -> Callable[[str, str | None], str]:
    return logical_text


@pytest.fixture
def find_joins() -> Callable[[str], list[Join]]:
    """The joins of the logical plan after all rules, the outermost first."""

    def find(sql: str) -> list[Join]:
        query = logical_plan(bind_text(sql))
        assert isinstance(query, Select)
        for rule in RULES:
            query = rule(query)
        joins, node = [], query.input
        while isinstance(node, Join):
            joins.append(node)
            node = node.left
        return joins

    return find


def pytest_addoption(parser: pytest.Parser) -> None:
    with contextlib.suppress(ValueError):  # tests/golden has the same option
        parser.addoption("--rewrite-goldens", action="store_true", help="write today's answers into the golden files")
