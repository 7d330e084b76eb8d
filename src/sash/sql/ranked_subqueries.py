"""Subqueries in expressions that keep their first rows: these are found in FROM, then compared with the outside.

    (SELECT v FROM R WHERE R.k = A.k AND R.v > 5 ORDER BY R.ts DESC LIMIT 1)

    (SELECT q.value0 FROM (SELECT R.k AS key0, v AS value0 FROM R WHERE R.v > 5
                           QUALIFY row_number() OVER (PARTITION BY R.k ORDER BY R.ts DESC) <= 1) q
     WHERE q.key0 = A.k)

What is compared by equality tells rows apart, so the first rows of each of its values are those that SQL means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from sqlglot import exp

from sash.errors import PlanError
from sash.sql.correlation import Correlation
from sash.sql.expressions import span_of
from sash.sql.outputs import is_aggregating
from sash.sql.parsed import ParsedQuery, ParsedSelect
from sash.sql.parsed_ranks import ParsedRanks, written_out
from sash.sql.read_query import read_query
from sash.sql.stars import star_of
from sash.sql.table_queries import to_tree

_ROWS = "first rows"
_CLAUSES = ("order", "limit", "offset", "qualify", "distinct")


def is_first_row(query: ParsedQuery) -> bool:
    """Whether a query keeps one row, of all or of those that are compared with the same."""
    ranks = query.ranks
    return ranks is not None and ranks.n_rows == 1 and not ranks.with_ties


def without_idle_limit(query: ParsedQuery, is_any: bool) -> ParsedQuery:
    """The query without a LIMIT that leaves everything as it is: of EXISTS (`is_any`), and of an aggregate of all."""
    ranks = query.ranks
    if not isinstance(query, ParsedSelect) or ranks is None or ranks.n_skipped or ranks.qualify is not None:
        return query
    is_one = is_aggregating(query) and not query.groups and not query.groups_all and not ranks.distinct_on
    return _with_ranks(query, None) if is_any or is_one else query


def rank_within(correlation: Correlation) -> ParsedSelect:
    """The subquery of a correlation as one that compares the rows of another, which has only its first rows."""
    query, inside = correlation.query, tuple(key for key, _ in correlation.pairs)
    _check(correlation)
    outputs = [output.unalias() for output in query.outputs]
    names = [f"value{place}" for place in range(len(outputs))]
    keys = [f"key{place}" for place in range(len(inside))]
    columns = [exp.alias_(each.copy(), name, quoted=True) for each, name in zip((*inside, *outputs), (*keys, *names))]
    ranked = replace(query, outputs=tuple(columns), is_distinct=False)
    within = to_tree(_of_each(ranked, inside, query.outputs))
    _forget_place(within.args.get("where"))
    item = exp.Subquery(this=within)
    item.set("alias", exp.TableAlias(this=exp.to_identifier(_ROWS, quoted=True)))
    tree = exp.Select(expressions=list(map(_column, names)), from_=exp.From(this=item))
    compared = [
        exp.EQ(this=_column(key), expression=outside.copy()) for key, (_, outside) in zip(keys, correlation.pairs)
    ]
    tree.set("where", exp.Where(this=exp.and_(*compared)))
    select = read_query(tree, query.text, query.named)
    assert isinstance(select, ParsedSelect)
    return replace(select, spans=query.spans, written=query.written or query)


def _forget_place(where: exp.Where | None) -> None:
    """Of several conjuncts, as the text between them may hold others, or a bracket."""
    if where is not None and isinstance(where.this, exp.And):
        for node in where.walk():
            for name in ("start", "end"):
                node.meta.pop(name, None)


def _column(name: str) -> exp.Column:
    return exp.column(name, _ROWS, quoted=True)


def _check(correlation: Correlation) -> None:
    query, ranks = correlation.query, correlation.query.ranks
    assert ranks is not None
    if not correlation.is_by_equality:
        reason = "in a subquery that compares columns from outside otherwise than by equality"
        _refuse(query, reason, "`LEFT JOIN` it, and choose the first rows in a query around the join")
    if is_aggregating(query):
        _refuse(query, "beside `GROUP BY` in a subquery that uses columns from outside", "group in its `FROM`")
    if ranks.n_rows is not None and (ranks.qualify or ranks.distinct_on or (query.is_distinct and ranks.n_rows > 1)):
        reason = "beside `DISTINCT` or `QUALIFY` in a subquery that uses columns from outside"
        _refuse(query, reason, "put one of them into a subquery in its `FROM`")
    if any(star_of(output) is not None for output in query.outputs):
        _refuse(query, "in a subquery that uses columns from outside and selects `*`", "name the columns")


def _refuse(query: ParsedSelect, where: str, remedy: str) -> NoReturn:
    assert query.ranks is not None
    raise PlanError(f"{query.ranks.keeper} cannot stand {where}; {remedy}", query.text, span_of(query.tree))


def _of_each(query: ParsedSelect, keys: Sequence[exp.Expr], shown: Sequence[exp.Expr]) -> ParsedSelect:
    """The query with the first rows of each value of the keys, where it had those of all."""
    ranks = query.ranks
    assert ranks is not None
    if ranks.distinct_on:
        return _with_ranks(query, replace(ranks, distinct_on=(*keys, *ranks.distinct_on)))
    if ranks.qualify is not None:
        return _with_ranks(query, replace(ranks, qualify=_within(ranks.qualify, keys)))
    assert ranks.n_rows is not None
    call = exp.Anonymous(this="rank" if ranks.with_ties else "row_number")
    order = [written_out(each, shown) for each in ranks.order]
    window = exp.Window(this=call, partition_by=[key.copy() for key in keys], over="OVER")
    if order:
        window.set("order", exp.Order(expressions=order))
    first, last = (exp.Literal.number(each) for each in (ranks.n_skipped + 1, ranks.n_skipped + ranks.n_rows))
    bounds = (
        exp.Between(this=window, low=first, high=last) if ranks.n_skipped else exp.LTE(this=window, expression=last)
    )
    return _with_ranks(query, ParsedRanks(qualify=bounds))


def _within(condition: exp.Expr, keys: Sequence[exp.Expr]) -> exp.Expr:
    """A condition on the number of a row, which is counted within the rows of equal keys."""
    condition = condition.copy()
    for window in condition.find_all(exp.Window):
        window.set("partition_by", [*(key.copy() for key in keys), *(window.args.get("partition_by") or ())])
    return condition


def _with_ranks(query: ParsedSelect, ranks: ParsedRanks | None) -> ParsedSelect:
    """The query, and its tree, with `QUALIFY` or `DISTINCT ON` alone, or with nothing that chooses first rows."""
    tree = query.tree.copy()
    for clause in _CLAUSES:
        tree.set(clause, None)
    if ranks is not None and ranks.qualify is not None:
        tree.set("qualify", exp.Qualify(this=ranks.qualify.copy()))
    if ranks is not None and ranks.distinct_on:
        tree.set("order", exp.Order(expressions=[each.copy() for each in ranks.order]) if ranks.order else None)
    return replace(query, tree=tree, ranks=ranks, is_distinct=ranks is not None and bool(ranks.distinct_on))
