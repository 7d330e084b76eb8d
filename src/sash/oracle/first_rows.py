"""ORDER BY … LIMIT, QUALIFY and DISTINCT ON, in SQL that says which rows are meant where several would do.

    SELECT k, v FROM s ORDER BY w LIMIT 3

    SELECT * EXCLUDE ("#h0", "#n", "#r")
    FROM (SELECT *, row_number() OVER (ORDER BY "#h0", q) AS "#n", … AS "#r" FROM (SELECT k, v, w AS "#h0" FROM s) q)
    WHERE "#n" > 0 AND "#r" <= 3

`q` is the whole row: rows that are equal in what they are ordered by are placed by their columns, from left to right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sash.sql.parsed_ranks import read_ranks
from sash.sql.rank_conditions import RankCondition, read_condition

_CLAUSES = ("order", "limit", "offset", "qualify")


@dataclass(frozen=True, slots=True)
class _Step:
    """A choice of rows, with the columns that it reads: of the partition, and of the order with how it goes."""

    function: str
    partition_by: tuple[str, ...]
    order: tuple[tuple[str, exp.Ordered], ...]
    first: int
    last: int
    is_late: bool


def spell_out_first_rows(tree: exp.Query) -> exp.Query:
    """The query with such clauses, wherever they stand, written as conditions on the numbers of rows."""
    for query in list(tree.find_all(exp.Select, exp.SetOperation)):
        if read_ranks(query, "") is None:
            continue
        place = exp.Placeholder()
        parent = query.parent
        if parent is not None:
            query.replace(place)
        chosen = _chosen(query)
        chosen.meta.update({name: query.meta[name] for name in ("window",) if name in query.meta})
        if parent is None:
            tree = chosen
        else:
            place.replace(chosen)
    return tree


def _chosen(query: exp.Query) -> exp.Query:
    steps, hidden = _read_steps(query)
    distinct = query.args.get("distinct")
    is_distinct = isinstance(query, exp.Select) and bool(distinct) and not distinct.args.get("on")
    if isinstance(query, exp.Select) and any(not step.is_late for step in steps):
        query.set("distinct", None)
    else:
        is_distinct = False
    for clause in _CLAUSES:
        query.set(clause, None)
    if isinstance(query, exp.Select):
        for name, expr in hidden:
            query.append("expressions", exp.alias_(expr.copy(), name, quoted=True))
    else:
        columns = [exp.alias_(expr.copy(), name, quoted=True) for name, expr in hidden]
        query = exp.select("*", *columns).from_(exp.Subquery(this=query, alias=_alias("s")))
    left = [name for name, _ in hidden]
    for number, step in enumerate(steps):
        if is_distinct and step.is_late:
            query, is_distinct = _excluding(query, []).distinct(), False
        query = _numbered(query, step)
        later = {name for each in steps[number + 1 :] for name in (*each.partition_by, *(n for n, _ in each.order))}
        query = _excluding(query, [*(name for name in left if name not in later), "#n", "#r"])
        query = query.where(f'"#n" > {step.first} AND "#r" <= {step.last}', dialect="duckdb")
        left = [name for name in left if name in later]
    return query.distinct() if is_distinct else query


def _read_steps(query: exp.Query) -> tuple[list[_Step], list[tuple[str, exp.Expr]]]:
    ranks = read_ranks(query, "")
    assert ranks is not None
    hidden: list[tuple[str, exp.Expr]] = []

    def name(expr: exp.Expr) -> str:
        hidden.append((f"#h{len(hidden)}", expr))
        return hidden[-1][0]

    def step(given: RankCondition, is_late: bool, meant: Callable[[exp.Expr], exp.Expr]) -> _Step:
        by = tuple(name(meant(each)) for each in given.partition_by)
        keys = tuple((name(meant(each.this)), each) for each in given.order)
        return _Step(given.function, by, keys, given.first, given.last, is_late)

    def named(expr: exp.Expr) -> exp.Expr:
        return _meant(expr, query)

    steps: list[_Step] = []
    if ranks.qualify is not None:
        steps.append(step(read_condition(ranks.qualify, ""), False, lambda expr: expr))
    if ranks.distinct_on:
        steps.append(step(RankCondition("row_number", ranks.distinct_on, ranks.order, 0, 1), False, named))
    if ranks.n_rows is not None:
        function, last = "rank" if ranks.with_ties else "row_number", ranks.n_skipped + ranks.n_rows
        steps.append(step(RankCondition(function, (), ranks.order, ranks.n_skipped, last), True, named))
    return steps, hidden


def _meant(expr: exp.Expr, query: exp.Query) -> exp.Expr:
    """What ORDER BY names by its position or its alias."""
    expr = expr.unnest()
    outputs = query.selects
    if isinstance(expr, exp.Literal) and expr.is_int:
        output = outputs[int(expr.name) - 1]
        is_set = isinstance(query, exp.SetOperation)
        return exp.column(output.alias_or_name, quoted=True) if is_set else output.unalias()
    if isinstance(query, exp.Select) and isinstance(expr, exp.Column) and len(expr.parts) == 1:
        named = {output.alias.lower(): output.unalias() for output in outputs if output.alias}
        return named.get(expr.name.lower(), expr)
    return expr


def _numbered(query: exp.Query, step: _Step) -> exp.Select:
    partition = [exp.column(name, "q", quoted=True) for name in step.partition_by]
    keys = list(_keys(step))
    total = [*keys, exp.Ordered(this=exp.column("q"), nulls_first=False)]
    number = _window("row_number", partition, total)
    rank = number if step.function == "row_number" else _window(step.function, partition, keys)
    columns = [exp.alias_(number, "#n", quoted=True), exp.alias_(rank.copy(), "#r", quoted=True)]
    return exp.select("q.*", *columns, dialect="duckdb").from_(exp.Subquery(this=query, alias=_alias("q")))


def _keys(step: _Step) -> Iterator[exp.Ordered]:
    for name, written in step.order:
        ordered = written.copy()
        assert isinstance(ordered, exp.Ordered)
        ordered.set("this", exp.column(name, "q", quoted=True))
        yield ordered


def _window(function: str, partition: Sequence[exp.Expr], order: Sequence[exp.Expr]) -> exp.Window:
    return exp.Window(
        this=exp.Anonymous(this=function),
        partition_by=[each.copy() for each in partition],
        order=exp.Order(expressions=[each.copy() for each in order]) if order else None,
        over="OVER",
    )


def _excluding(query: exp.Query, names: Sequence[str]) -> exp.Select:
    star = exp.Star(**({"except_": [exp.to_identifier(name, quoted=True) for name in names]} if names else {}))
    return exp.select(star).from_(exp.Subquery(this=query, alias=_alias("p")))


def _alias(name: str) -> exp.TableAlias:
    return exp.TableAlias(this=exp.to_identifier(name))
