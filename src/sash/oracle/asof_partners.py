"""ASOF joins for DuckDB, which takes any of the partners that have the same time: of those, one is left.

    a ASOF JOIN b ON a.k = b.k AND a.ts >= b.ts

    a ASOF JOIN (SELECT * FROM b QUALIFY row_number() OVER (PARTITION BY b.k, b.ts ORDER BY b.k DESC, …) = 1) b
    ON a.k = b.k AND a.ts >= b.ts

Conditions on `b` alone are asked first, as they say who may be a partner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sqlglot
from sqlglot import exp

from sash.errors import PlanError
from sash.sql.aggregate_order import alias_of
from sash.sql.catalog import Catalog, StreamInfo
from sash.sql.expressions import split_conjuncts
from sash.sql.join_trees import ASOF
from sash.sql.window_kinds import WINDOW_COLUMNS, TableWindow


def leave_one_partner(join: exp.Join, catalog: Catalog) -> None:
    """Changes an ASOF join such that DuckDB has no choice; other joins stay as they are."""
    if join.args.get("method") != ASOF:
        return
    item = join.this
    alias = alias_of(item).name
    names = _names(item, catalog)
    known = {name.lower() for name in names}
    inside = list(_read_of(join, alias, known))
    keys = [expr for expr, is_condition in inside if not is_condition]
    keys += [exp.column(name.copy(), exp.to_identifier(alias, quoted=True)) for name in join.args.get("using") or ()]
    own = exp.to_identifier(alias, quoted=True).sql(dialect="duckdb")
    order = ", ".join(f"{own}.{exp.to_identifier(name, quoted=True).sql(dialect='duckdb')}" for name in names)
    order = order.replace(", ", " DESC NULLS LAST, ") + " DESC NULLS LAST"
    by = ", ".join(key.sql(dialect="duckdb") for key in keys)
    first = sqlglot.parse_one(f"row_number() OVER (PARTITION BY {by} ORDER BY {order}) = 1", dialect="duckdb")
    following = item.args.pop("joins", None)
    inner = exp.select("*").from_(item.copy())
    for condition in (expr for expr, is_condition in inside if is_condition):
        inner = inner.where(condition)
    inner.set("qualify", exp.Qualify(this=first))
    one = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    one.set("joins", following)
    item.replace(one)


def _names(item: exp.Expr, catalog: Catalog) -> Sequence[str]:
    """The columns of an item of FROM, those first that decide between rows of one time."""
    if isinstance(item, exp.Table):
        info = catalog[item.name.lower()]
        clause = item.meta.get("window") or (item.args.get("alias") or item).meta.get("window")
        shown = WINDOW_COLUMNS if clause is not None and isinstance(clause.window, TableWindow) else ()
        first = info.tie if isinstance(info, StreamInfo) else ()
        return list(dict.fromkeys([*first, *info.schema.names, *shown]))
    names = item.this.named_selects if isinstance(item, exp.Subquery) and isinstance(item.this, exp.Query) else []
    if not names or "*" in names:
        raise PlanError("the partners of an ASOF JOIN are known here if their columns are named, without `*`")
    return names


def _read_of(join: exp.Join, alias: str, names: set[str]) -> Iterator[tuple[exp.Expr, bool]]:
    """What ON reads of the partner: sides of comparisons, and conditions on it alone."""
    for conjunct in split_conjuncts(join.args.get("on")):
        if _is_of(conjunct, alias, names):
            yield conjunct, True
            continue
        for side in (conjunct.args.get("this"), conjunct.args.get("expression")):
            if isinstance(side, exp.Expr) and _is_of(side, alias, names):
                yield side, False


def _is_of(expr: exp.Expr, alias: str, names: set[str]) -> bool:
    columns = list(expr.find_all(exp.Column))
    return bool(columns) and all(
        column.table.lower() == alias.lower() if column.table else column.name.lower() in names for column in columns
    )
