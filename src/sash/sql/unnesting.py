"""Subqueries in expressions become items of FROM: what they are worth is found by joins.

    x > (SELECT MAX(y) FROM R)                     FROM …, (SELECT MAX(y) FROM R) q               x > q.v
    (SELECT COUNT(*) FROM R WHERE R.k = A.k)       FROM … LEFT JOIN (SELECT R.k, COUNT(*) AS v FROM R GROUP BY R.k) q
                                                   ON q.k = A.k                                   coalesce(q.v, 0)
    c OR EXISTS (SELECT 1 FROM R WHERE R.k = A.k)  FROM … LEFT JOIN (SELECT DISTINCT R.k FROM R) q ON q.k = A.k
                                                                                                  c OR q.k IS NOT NULL
    EXISTS (SELECT 1 FROM R WHERE R.v > A.v)       FROM … SEMI JOIN (SELECT R.v FROM R) q ON q.v > A.v

`IN` and `EXISTS` by themselves in WHERE, over streams and compared with the outside by equality, stay: see
`memberships`. What a subquery gives is known at every instant; so are the rows that are joined with it.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sash.sql.aggregates import is_in_call
from sash.sql.correlation import Correlation, column_of, find_correlation
from sash.sql.expressions import span_of, split_conjuncts
from sash.sql.join_trees import ANTI, INNER, LEFT, SEMI, are_plain
from sash.sql.outputs import is_aggregating
from sash.sql.parsed import ParsedQuery, ParsedSelect, refuse_statement_clauses
from sash.sql.rank_conditions import refuse_windows
from sash.sql.ranked_subqueries import is_first_row, rank_within, without_idle_limit
from sash.sql.read_query import read_query
from sash.sql.scope import Scope, place
from sash.sql.single_values import as_value
from sash.sql.sources import Context, bind_sources
from sash.sql.stars import star_of
from sash.sql.subqueries import is_membership, is_predicate, refuse_quantified, strip_negations, without_quantifiers
from sash.sql.subquery_parts import (
    VALUE,
    as_select,
    bool_or,
    grouped,
    is_made_of_rows,
    operands_of,
    selected,
    single_operand,
)
from sash.sql.table_queries import reads_stream
from sash.sql.unnested_items import UnnestedItems, all_of, without_on

_ANY, _HAS_NULL = "any", "has_null"
_ONE = exp.Literal.number(1)


def unnest(select: ParsedSelect, context: Context) -> ParsedSelect:
    """The SELECT without subqueries in its expressions, less those that `memberships` sees to."""
    if not any(expr.find(exp.Query) for expr in _expressions(select)):
        return select
    return _Unnesting(_without_quantifiers(select), context).apply()


def _without_quantifiers(select: ParsedSelect) -> ParsedSelect:
    return replace(
        select,
        outputs=tuple(map(without_quantifiers, select.outputs)),
        on=tuple(map(without_quantifiers, select.on)),
        where=None if select.where is None else without_quantifiers(select.where),
        having=None if select.having is None else without_quantifiers(select.having),
    )


def _expressions(select: ParsedSelect) -> list[exp.Expr]:
    clauses = [clause for clause in (select.where, select.having) if clause is not None]
    return [*select.outputs, *select.on, *(select.groups or ()), *clauses]


class _Unnesting:
    """Takes the subqueries out of one SELECT."""

    def __init__(self, select: ParsedSelect, context: Context):
        self._select = select
        self._context = context.within(select, None)
        self._items = UnnestedItems(select.text)
        self._is_grouped = False
        self._scope: Scope | None = None

    def apply(self) -> ParsedSelect:
        select = self._select
        self._is_grouped = False  # WHERE is before all groups
        where = [self._conjunct(part) for part in split_conjuncts(select.where)]
        on = select.on
        if are_plain(select.trees) and any(each.find(exp.Query) for each in on):
            # Of inner joins, a condition in ON is one in WHERE.
            where += [self._conjunct(part) for each in on for part in split_conjuncts(each)]
            on = ()
        self._is_grouped = is_aggregating(select)
        outputs = tuple(map(self._output, select.outputs))
        having = None if select.having is None else self._rewrite(select.having)
        if not self._items:
            return select
        trees = select.trees if on or not select.on else without_on(select.trees)
        return replace(
            select,
            outputs=outputs,
            having=having,
            lifted=tuple(self._items.lifted),
            on=on,
            where=all_of([part for part in where if part is not None]),
            sources=(*select.sources, *self._items.sources),
            trees=self._items.joined_to(trees, len(select.sources)),
        )

    def _output(self, output: exp.Expr) -> exp.Expr:
        """An item of SELECT; without an alias it is called as it is written."""
        if not output.find(exp.Query):
            return output
        changed = self._rewrite(output.unalias())
        span = span_of(output)
        name = output.alias or (" ".join(self._select.text[span.start : span.end].split()) if span else VALUE)
        alias = exp.Alias(this=changed, alias=exp.to_identifier(name, quoted=True))
        alias.meta.update(output.meta)
        return alias

    def _rewrite(self, expr: exp.Expr) -> exp.Expr:
        return expr.transform(self._replace) if expr.find(exp.Query) else expr

    def _replace(self, node: exp.Expr) -> exp.Expr:
        refuse_quantified(node, self._select.text)
        if not is_predicate(node) and not isinstance(node, exp.Query):
            return node
        self._items.is_lifting = self._is_grouped and not is_in_call(node)
        changed = self._mark(node) if is_predicate(node) else self._value(node)
        self._items.is_lifting = False
        return place(changed, node)

    def _conjunct(self, part: exp.Expr) -> exp.Expr | None:
        """A conjunct of WHERE; None if it has become a join."""
        if not is_membership(part):
            return self._rewrite(part)
        predicate, is_negated = strip_negations(part)
        query = self._read(predicate)
        correlation = self._correlation(query)
        is_at_rest = not self._reads_stream(query)
        if isinstance(predicate, exp.In):
            if not is_at_rest and not correlation.parts:
                return part
            if is_negated and not correlation.parts:
                return exp.Not(this=self._mark(predicate))
            return self._look_up(predicate, correlation, is_negated)
        stays = not is_at_rest and query.ranks is None
        if not correlation.parts:
            return exp.Not(this=self._mark(predicate)) if is_negated else part if stays else self._mark(predicate)
        if stays and correlation.is_by_equality:
            return part
        return self._look_up(predicate, correlation, is_negated)

    def _look_up(self, predicate: exp.Expr, correlation: Correlation, is_negated: bool) -> None:
        """A condition by itself, as a join that asks whether there is a partner."""
        operands = [self._rewrite(operand) for operand in operands_of(predicate)]
        alias = self._items.next_alias()
        query, conditions, names = correlation.over(alias)
        if isinstance(predicate, exp.In):
            values = selected(correlation.query, predicate, self._select.text)
            names = [*names, *(f"{VALUE}{place}" for place in range(len(values)))]
            equal = [
                exp.EQ(this=operand.copy(), expression=column_of(alias, name))
                for operand, name in zip(operands, names[-len(values) :], strict=True)
            ]
            if is_negated:
                # NOT IN does not hold where an equality is unknown.
                equal = [exp.Coalesce(this=exp.Paren(this=all_of(equal)), expressions=[exp.true()])]
            query, conditions = replace(query, outputs=(*query.outputs, *values)), [*conditions, *equal]
        self._items.add(ANTI if is_negated else SEMI, alias, query, names, predicate, conditions)

    def _mark(self, predicate: exp.Expr) -> exp.Expr:
        """What IN or EXISTS is worth: true, false or NULL."""
        query = self._read(predicate)
        correlation = self._correlation(query)
        correlation.require_equalities(self._select.text)
        if isinstance(predicate, exp.In):
            single_operand(predicate, self._select.text)
        there = self._exists(predicate, correlation)
        if not isinstance(predicate, exp.In):
            return exp.Paren(this=exp.Not(this=exp.Is(this=there[_ANY], expression=exp.Null())))
        (value,) = selected(correlation.query, predicate, self._select.text)
        (operand,) = single_operand(predicate, self._select.text)
        operand = exp.Paren(this=self._rewrite(operand))
        alias = self._items.next_alias()
        keyed, conditions, names = correlation.keyed(alias)
        keyed = replace(keyed, outputs=(*keyed.outputs, value), is_distinct=True)
        conditions.append(exp.EQ(this=operand.copy(), expression=column_of(alias, VALUE)))
        self._items.add(LEFT, alias, keyed, [*names, VALUE], predicate, conditions)
        unknown = exp.Or(this=exp.Is(this=operand.copy(), expression=exp.Null()), expression=there[_HAS_NULL])
        case = (
            exp.Case()
            .when(exp.Not(this=exp.Is(this=column_of(alias, VALUE), expression=exp.Null())), exp.true())
            .when(exp.Is(this=there[_ANY], expression=exp.Null()), exp.false())
            .when(unknown, exp.Null())
            .else_(exp.false())
        )
        return exp.Paren(this=case)

    def _exists(self, predicate: exp.Expr, correlation: Correlation) -> dict[str, exp.Expr]:
        """Whether a subquery has a row, and one that is NULL, for which it is compared with the outside."""
        alias = self._items.next_alias()
        query, conditions, names = correlation.keyed(alias)
        flags = [bool_or(exp.true())]
        if isinstance(predicate, exp.In):
            (value,) = selected(correlation.query, predicate, self._select.text)
            flags.append(bool_or(exp.Is(this=exp.Paren(this=value.unalias()), expression=exp.Null())))
        query = grouped(query, flags, correlation)
        names = [*names, _ANY, _HAS_NULL][: len(names) + len(flags)]
        self._items.add(LEFT if conditions else INNER, alias, query, names, predicate, conditions)
        return {name: column_of(alias, name) for name in (_ANY, _HAS_NULL)}

    def _value(self, node: exp.Expr) -> exp.Expr:
        """What a subquery that stands for a value is worth."""
        query = without_idle_limit(read_query(node, self._select.text, self._select.named), is_any=False)
        for output in query.outputs if isinstance(query, ParsedSelect) else ():
            refuse_windows(output, query.text)
        refuse_statement_clauses(query, "a subquery")
        correlation = self._correlation(query, as_value=True)
        alias = self._items.next_alias()
        correlation.require_equalities(self._select.text)
        is_at_rest, is_first = not self._reads_stream(query), is_first_row(query)
        single = as_value(correlation, is_at_rest, span_of(node), self._select.text, is_first)
        keyed, conditions, names = correlation.keyed(alias)
        keyed = replace(keyed, outputs=(*keyed.outputs, single.expr), having=None, groups=single.groups)
        if single.is_checked:
            self._items.add(LEFT, alias, keyed, [*names, VALUE], node, conditions or [exp.true()], unique=tuple(names))
            return column_of(alias, VALUE)
        keyed = replace(keyed, is_distinct=False)
        self._items.add(LEFT if conditions else INNER, alias, keyed, [*names, VALUE], node, conditions)
        value = column_of(alias, VALUE)
        if not conditions or single.of_nothing is None:
            return value
        is_there = exp.Not(this=exp.Is(this=column_of(alias, names[0]), expression=exp.Null()))
        return exp.Paren(this=exp.Case().when(is_there, value).else_(single.of_nothing))

    def _read(self, predicate: exp.Expr) -> ParsedQuery:
        tree = predicate.args["query"] if isinstance(predicate, exp.In) else predicate.this
        is_exists = isinstance(predicate, exp.Exists)
        query = without_idle_limit(read_query(tree, self._select.text, self._select.named), is_any=is_exists)
        refuse_statement_clauses(query, "a subquery")
        if is_exists and isinstance(query, ParsedSelect) and not is_aggregating(query):
            # What functions OVER rows say makes no difference to whether there are any.
            outputs = [each for each in query.outputs if not each.find(exp.Window)]
            outputs = [each for each in outputs if query.ranks is None or star_of(each) is None]
            return replace(query, outputs=tuple(outputs) or (_ONE,))
        return query

    def _correlation(self, query: ParsedQuery, as_value: bool = False) -> Correlation:
        if not isinstance(query, ParsedSelect) or (is_made_of_rows(query) and not as_value):
            return Correlation(as_select(query))
        if self._scope is None:
            self._scope = Scope(bind_sources(self._select, self._context), self._select.text)
        context = self._context.subquery(self._select)
        if not self._reads_stream(query):
            context = replace(context, is_at_rest=True)
        found = _compare(query, context, self._scope)
        if query.ranks is None:
            return found
        return _compare(rank_within(found), context, self._scope) if found.parts else Correlation(as_select(query))

    def _reads_stream(self, query: ParsedQuery) -> bool:
        return reads_stream(query, self._context.catalog)


def _compare(query: ParsedSelect, context: Context, outer: Scope) -> Correlation:
    inner = Scope(bind_sources(query, context.within(query, None)), query.text)
    return find_correlation(query, inner, outer)
