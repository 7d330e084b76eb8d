"""The first rows of tables, in SQL that tells DuckDB which are meant.

    SELECT k, v FROM r ORDER BY w LIMIT 3                              … ORDER BY w, 1, 2 LIMIT 3
    SELECT k, v FROM r ORDER BY w FETCH FIRST 3 ROWS WITH TIES         … QUALIFY rank() OVER (ORDER BY w) <= 3

Of rows that are equal in order, those come first that do so by the columns of SELECT, as those of streams: see `ranks`.
DuckDB has no WITH TIES.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sash.errors import PlanError
from sash.sql.expressions import span_of
from sash.sql.parsed_ranks import ParsedRanks, read_ranks, written_out
from sash.sql.stars import star_of


def say_which_come_first(query: exp.Query, text: str) -> None:
    """Changes the clauses of a SELECT or set operation, not of what stands within it."""
    ranks = read_ranks(query, text)
    if ranks is None:
        return
    if ranks.with_ties:
        _keep_ties(query, ranks, text)
    elif isinstance(query, exp.Select):
        _break_ties(query)


def _break_ties(select: exp.Select) -> None:
    shown = _shown(select)
    qualify, distinct = select.args.get("qualify"), select.args.get("distinct")
    for window in qualify.find_all(exp.Window) if qualify else ():
        if window.this.name.lower() == "row_number":
            _order_further(window, shown)
    if select.args.get("limit") or (distinct and distinct.args.get("on")):
        _order_further(select, [exp.Literal.number(place) for place in range(1, len(shown) + 1)])


def _keep_ties(query: exp.Query, ranks: ParsedRanks, text: str) -> None:
    if not isinstance(query, exp.Select) or query.args.get("qualify") or query.args.get("distinct"):
        reason = "over tables alone `WITH TIES` cannot stand beside `DISTINCT`, `QUALIFY` or a set operation"
        raise PlanError(f"{reason}; put that into a subquery in `FROM`", text, span_of(*ranks.order))
    assert ranks.n_rows is not None
    order = [written_out(each, query.expressions) for each in ranks.order]
    kept: exp.Expr = exp.LTE(this=_count("rank", order), expression=_number(ranks.n_skipped + ranks.n_rows))
    if ranks.n_skipped:
        place = _count("row_number", order)
        _order_further(place, _shown(query))
        kept = exp.and_(exp.GT(this=place, expression=_number(ranks.n_skipped)), kept)
    for clause in ("order", "limit", "offset"):
        query.set(clause, None)
    query.set("qualify", exp.Qualify(this=kept))


def _shown(select: exp.Select) -> list[exp.Expr]:
    """The columns of SELECT; of `*` they are not known here."""
    shown = [output.unalias() for output in select.expressions]
    return [] if any(star_of(output) is not None for output in shown) else shown


def _count(function: str, order: Sequence[exp.Expr]) -> exp.Window:
    by = exp.Order(expressions=[each.copy() for each in order])
    return exp.Window(this=exp.Anonymous(this=function), order=by, over="OVER")


def _number(number: int) -> exp.Expr:
    return exp.Literal.number(number)


def _order_further(node: exp.Expr, exprs: Sequence[exp.Expr]) -> None:
    order = node.args.get("order") or exp.Order(expressions=[])
    further = [exp.Ordered(this=expr.copy(), desc=False, nulls_first=False) for expr in exprs]
    if order.expressions or further:
        node.set("order", exp.Order(expressions=[*order.expressions, *further]))
