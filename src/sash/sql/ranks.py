"""`ORDER BY … LIMIT`, `QUALIFY` and `DISTINCT ON`, as queries around the query whose rows they choose from.

    SELECT k, v FROM s ORDER BY v + w LIMIT 3

    SELECT k, v FROM (SELECT k, v, v + w AS "_rank.0" FROM s) _ranked       of all rows the first 3 by "_rank.0"

What they order and partition by is computed by the query within, as columns behind its own. Rows that ORDER BY leaves
equal are placed by the columns of SELECT, from left to right, then by what other clauses order by: so which rows are
the first follows from the rows alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sash.errors import BindError, PlanError
from sash.sql.bound_aggregates import OrderBy
from sash.sql.bound_query import RANKED, Block, BoundQuery, Output, Ranking
from sash.sql.expressions import ScalarBinder, span_of
from sash.sql.hashable import check_hashable
from sash.sql.outputs import IS_HIDDEN
from sash.sql.parsed import ParsedQuery, ParsedSelect, ParsedSet
from sash.sql.parsed_ranks import ParsedRanks
from sash.sql.rank_conditions import RankCondition, read_condition
from sash.sql.scope import Scope, read
from sash.sql.sets import select_from
from sash.sql.sources import Context, derive

_HIDDEN = "_rank"


@dataclass(frozen=True, slots=True)
class _Step:
    """One choice of rows, and the clause that asks for it."""

    clause: str
    condition: RankCondition

    @property
    def exprs(self) -> Iterator[exp.Expr]:
        yield from self.condition.partition_by
        yield from (each.this for each in self.condition.order)


def bind_ranks(query: ParsedQuery, context: Context) -> BoundQuery:
    """A query with one of these clauses, or several."""
    ranks = query.ranks
    assert ranks is not None
    if "emit_final" in query.tree.meta:
        reason = f"`EMIT ON WINDOW CLOSE` cannot stand with {ranks.keeper}"
        remedy = "leave one of them out; without the first, rows are taken back when others come before them"
        raise PlanError(f"{reason}; {remedy}", query.text, query.tree.meta["emit_final"])
    steps = list(_steps(ranks, query.text))
    context = replace(context, keeper=context.keeper or ranks.keeper)
    is_distinct = isinstance(query, ParsedSelect) and query.is_distinct and not ranks.distinct_on
    block, n_shown, places = _bind_within(query, steps, context)
    check_hashable(block.outputs, ranks.keeper, query.text)
    if is_distinct and any(place >= n_shown for step, own in zip(steps, places) for place in own if _is_late(step)):
        reason = "of `SELECT DISTINCT`, `LIMIT` can order by columns of SELECT alone"
        raise BindError(f"{reason}; add what it orders by, or use `GROUP BY`", query.text, span_of(*ranks.order))
    is_distinct = is_distinct and not all(map(_is_late, steps))
    while steps:
        step, own = steps.pop(0), places.pop(0)
        if is_distinct and _is_late(step):
            block, is_distinct = replace(_selected(block, n_shown), is_distinct=True), False
        kept = _needed(n_shown, places)
        block = _ranked(block, step, own, kept)
        places = [list(map(kept.index, each)) for each in places]
    if is_distinct:
        assert isinstance(block, BoundQuery)
        block = replace(block, is_distinct=True)
    assert isinstance(block, BoundQuery)
    return replace(block, hints=query.hints, emit_changes=query.emit_changes, spans=query.spans)


def _needed(n_shown: int, places: Sequence[Sequence[int]]) -> list[int]:
    """The columns that are shown, and behind them others that steps read."""
    return [*range(n_shown), *dict.fromkeys(place for own in places for place in own if place >= n_shown)]


def _is_late(step: _Step) -> bool:
    """Whether rows are chosen after DISTINCT."""
    return step.clause == "`LIMIT`"


def _steps(ranks: ParsedRanks, text: str) -> Iterator[_Step]:
    if ranks.qualify is not None:
        yield _Step("`QUALIFY`", read_condition(ranks.qualify, text))
    if ranks.distinct_on:
        yield _Step("`DISTINCT ON`", RankCondition("row_number", ranks.distinct_on, ranks.order, 0, 1))
    if ranks.n_rows is not None:
        function = "rank" if ranks.with_ties else "row_number"
        last = ranks.n_skipped + ranks.n_rows
        yield _Step("`LIMIT`", RankCondition(function, (), ranks.order, ranks.n_skipped, last))


def _bind_within(query: ParsedQuery, steps: Sequence[_Step], context: Context) -> tuple[Block, int, list[list[int]]]:
    """The query that rows are chosen from, how many of its columns are the user's, and which each step reads."""
    plain = replace(query, ranks=None, hints=(), emit_changes=False)
    if isinstance(plain, ParsedSet):
        return _bind_set(plain, steps, context)
    written = [[_located(expr, step, plain) for expr in step.exprs] for step in steps]
    hidden = [each for own in written for each in own if not isinstance(each, int)]
    for number, each in enumerate(hidden):
        each.meta[IS_HIDDEN] = True
        each.set("alias", exp.to_identifier(f"{_HIDDEN}.{number}", quoted=True))
    is_distinct = plain.is_distinct and all(map(_is_late, steps))
    within = replace(plain, outputs=(*plain.outputs, *hidden), is_distinct=is_distinct)
    block = context.bind(within, context)
    n_shown = len(block.outputs) - len(hidden)
    return _without_doubles(block, n_shown, _places(written, block, n_shown, query.text))


def _located(expr: exp.Expr, step: _Step, select: ParsedSelect) -> int | exp.Alias:
    """What rows are ordered or told apart by: the place of a column of SELECT, from 0 on, or one more of them.

    A name alone is first of all an alias of SELECT where SQL says so.
    """
    inner = expr.unnest()
    if step.clause != "`QUALIFY`":
        if isinstance(inner, exp.Literal) and inner.is_int:
            return int(inner.name) - 1
        aliased = {output.alias.lower(): output for output in select.outputs if output.alias}
        if isinstance(inner, exp.Column) and len(inner.parts) == 1 and inner.name.lower() in aliased:
            inner = aliased[inner.name.lower()].unalias()
    return exp.Alias(this=inner.copy())


def _places(written: Sequence[Sequence[int | exp.Expr]], block: Block, n_shown: int, text: str) -> list[list[int]]:
    """Where the columns are that each step reads; what SELECT has anyway is read there."""
    found: list[list[int]] = []
    n_hidden = 0
    for own in written:
        found.append([])
        for each in own:
            if isinstance(each, int):
                if not 0 <= each < n_shown:
                    reason = f"`ORDER BY {each + 1}` names no column of SELECT; give a number from 1 to {n_shown}"
                    raise BindError(reason, text, block.spans.get("select"))
                found[-1].append(each)
            else:
                place = n_shown + n_hidden
                exprs = [output.expr for output in block.outputs]
                found[-1].append(exprs.index(exprs[place]))
                n_hidden += 1
    return found


def _without_doubles(block: Block, n_shown: int, places: list[list[int]]) -> tuple[Block, int, list[list[int]]]:
    kept = _needed(n_shown, places)
    block = replace(block, outputs=tuple(block.outputs[place] for place in kept))
    return block, n_shown, [list(map(kept.index, own)) for own in places]


def _bind_set(query: ParsedSet, steps: Sequence[_Step], context: Context) -> tuple[Block, int, list[list[int]]]:
    """A set operation is ordered by its columns."""
    block = context.bind(query, context)
    n_shown, source = len(block.outputs), derive(block, RANKED)
    scope, added, written = Scope((source,), query.text), list[Output](), list[list[int | exp.Expr]]()
    with ScalarBinder(scope.columns(), query.text) as scalars:
        for step in steps:
            written.append([])
            for expr in (each.unnest() for each in step.exprs):
                is_place = isinstance(expr, exp.Literal) and expr.is_int
                written[-1].append(int(expr.name) - 1 if is_place else expr)
                if not is_place:
                    resolved = scope.resolve(expr)
                    scalar = scalars.bind(resolved)
                    added.append(Output(f"{_HIDDEN}.{len(added)}", resolved, scalar.type, scalar.sql_type))
    select = select_from(block, block.outputs, RANKED)
    select = replace(select, outputs=(*select.outputs, *added), spans=block.spans)
    return _without_doubles(select, n_shown, _places(written, select, n_shown, query.text))


def _selected(block: Block, n_shown: int) -> BoundQuery:
    return replace(select_from(block, block.outputs[:n_shown], RANKED), spans=block.spans)


def _ranked(block: Block, step: _Step, places: Sequence[int], kept: Sequence[int]) -> BoundQuery:
    """The rows of a block that a step chooses, with the columns that are kept."""
    source, condition = derive(block, RANKED), step.condition
    columns = [exp.column(output.name, RANKED, quoted=True) for output in block.outputs]
    n_keys = len(condition.partition_by)
    order = [
        OrderBy(columns[place], bool(each.args.get("desc")), bool(each.args.get("nulls_first")))
        for place, each in zip(places[n_keys:], condition.order, strict=True)
    ]
    ranking = Ranking(
        clause=step.clause,
        function=condition.function,
        partition_by=tuple(columns[place] for place in dict.fromkeys(places[:n_keys])),
        order=tuple(order),
        columns=tuple(columns[place] for place in kept),
        first=condition.first,
        last=condition.last,
    )
    outputs = [replace(block.outputs[place], expr=read(source, block.outputs[place].name)) for place in kept]
    return BoundQuery(
        text=block.text, sources=(source,), outputs=tuple(outputs), conjuncts=(), spans=block.spans, ranking=ranking
    )
