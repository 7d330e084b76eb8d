"""A SELECT that aggregates, with subqueries as values beside its aggregates: these are joined with the groups.

SELECT k, SUM(v) / (SELECT SUM(v) FROM s) FROM s GROUP BY k

SELECT g."0", g."1" / q.value FROM (SELECT k AS "0", SUM(v) AS "1" FROM s GROUP BY k) g, (SELECT SUM(v) AS value …) q
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from sash.sql.bound_aggregates import Aggregate
from sash.sql.bound_query import BoundQuery, Output
from sash.sql.catalog import UNNESTED, Source
from sash.sql.sources import derive

_GROUPS = f"{UNNESTED} groups"
_TABLES = ("_group", "_agg")


def lift(query: BoundQuery, values: Sequence[Source]) -> BoundQuery:
    """The query, whose outputs and HAVING may read these values, as one over its groups."""
    columns = [*_numbered(_TABLES[0], query.groups or ()), *_numbered(_TABLES[1], query.aggregates)]
    inner = replace(query, outputs=tuple(columns), having=(), hints=(), emit_changes=False, is_distinct=False)
    return BoundQuery(
        text=query.text,
        sources=(derive(inner, _GROUPS), *values),
        outputs=tuple(replace(output, expr=output.expr.transform(_over_groups)) for output in query.outputs),
        conjuncts=tuple(condition.transform(_over_groups) for condition in query.having),
        hints=query.hints,
        emit_changes=query.emit_changes,
        spans=query.spans,
        is_distinct=query.is_distinct,
    )


def _numbered(table: str, found: Sequence[Output | Aggregate]) -> list[Output]:
    return [
        Output(f"{table}{number}", exp.column(str(number), table=table, quoted=True), each.type, each.sql_type)
        for number, each in enumerate(found)
    ]


def _over_groups(node: exp.Expr) -> exp.Expr:
    if not isinstance(node, exp.Column) or node.table not in _TABLES:
        return node
    name = exp.to_identifier(f"{node.table}{node.name}", quoted=True)
    column = exp.Column(this=name, table=exp.to_identifier(_GROUPS, quoted=True))
    column.meta.update(node.meta)
    return column
