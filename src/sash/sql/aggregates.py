"""SELECTs that aggregate: their groups, their aggregates, and everything else written over those.

SELECT location, 2 * AVG(value) … GROUP BY location HAVING COUNT(*) > 5

groups      _group.0 = location
aggregates  _agg.0 = AVG(value), _agg.1 = COUNT(*)
outputs     _group.0, 2 * _agg.0
having      _agg.1 > 5
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from sash.errors import BindError, PlanError
from sash.sql import duck
from sash.sql.bound_aggregates import LISTINGS, QUANTILES, Aggregate, OrderBy
from sash.sql.bound_query import Output
from sash.sql.call_checks import DEAF_TO_DISTINCT, check_argument, check_call, check_key, read_fractions, read_separator
from sash.sql.calls import AggregateCall, read_call
from sash.sql.casts import read_as
from sash.sql.catalog import UNNESTED
from sash.sql.expressions import ScalarBinder, span_of
from sash.sql.hashable import check_hashable
from sash.sql.parsed import ParsedSelect
from sash.sql.scope import Scope, place

_GROUP, _AGG = "_group", "_agg"


def find_aggregate(expr: exp.Expr) -> exp.Expr | None:
    """The first call of an aggregate in an expression, subqueries apart."""
    nodes = expr.walk(prune=lambda node: isinstance(node, exp.Query))
    return next((node for node in nodes if not isinstance(node, exp.Query) and _is_call(node)), None)


def _is_call(node: exp.Expr) -> bool:
    """Whether a node calls an aggregate, of groups of rows and not OVER rows."""
    return read_call(node) is not None and not _is_over(node)


def _is_over(node: exp.Expr) -> bool:
    parent = node.parent
    if isinstance(parent, exp.Filter):
        return parent.this is node and _is_over(parent)
    return isinstance(parent, exp.Window) and parent.this is node


def refuse_aggregates(expr: exp.Expr, text: str, clause: str, remedy: str) -> None:
    call = find_aggregate(expr)
    if call is not None:
        raise BindError(f"an aggregate cannot stand in {clause}; {remedy}", text, span_of(call))


class AggregateBinder:
    """Collects the groups and aggregates of a SELECT while its expressions are rewritten over them."""

    def __init__(self, select: ParsedSelect, scope: Scope, scalars: ScalarBinder, aliases: Mapping[str, exp.Expr]):
        self._select = select
        self._scope = scope
        self._scalars = scalars
        self._aliases = aliases
        self._groups: list[Output] = []
        self._aggregates: list[Aggregate] = []

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        return tuple(self._aggregates)

    def columns(self) -> pa.Schema:
        """The groups and aggregates as the columns that rewritten expressions are over."""
        fields = [(f"{_GROUP}.{i}", group.type) for i, group in enumerate(self._groups)]
        fields += [(f"{_AGG}.{i}", aggregate.type) for i, aggregate in enumerate(self._aggregates)]
        return pa.schema(fields)

    def bind_groups(self, items: Sequence[exp.Expr]) -> tuple[Output, ...]:
        """The expressions of GROUP BY, each once; `items` are those of SELECT, which it may name by position or all."""
        exprs = [self._group(written, items) for written in _flatten(self._select.groups or ())]
        if self._select.groups_all:
            exprs = [item.unnest() for item in items if item.find(exp.Column) and find_aggregate(item) is None]
            # What is the same for all groups tells none apart.
            exprs = [expr for expr in exprs if not (isinstance(expr, exp.Column) and _is_lifted(expr))] or exprs
        for expr in map(_normalised, exprs):
            if _is_lifted(expr):
                reason = "a subquery cannot be grouped by; name it in a subquery in `FROM`, and group by that"
                raise PlanError(reason, self._select.text, span_of(expr))
            refuse_aggregates(expr, self._select.text, "`GROUP BY`", "aggregate in a subquery in `FROM`")
            scalar = self._scalars.bind(expr)
            if expr not in [group.expr for group in self._groups]:
                self._groups.append(Output(scalar.name, expr, scalar.type, scalar.sql_type))
        check_hashable(self._groups, "`GROUP BY`", self._select.text)
        return tuple(self._groups)

    def _group(self, written: exp.Expr, items: Sequence[exp.Expr]) -> exp.Expr:
        written = written.unnest()
        if isinstance(written, exp.Literal) and written.is_int:
            position = int(written.name)
            if not 1 <= position <= len(items):
                reason = f"`GROUP BY {position}` names no column of SELECT; give a number from 1 to {len(items)}"
                raise BindError(reason, self._select.text, span_of(written))
            return items[position - 1]
        if isinstance(written, exp.Column) and not self._scope.has(written) and self._alias_of(written):
            return self._aliases[written.name.lower()]
        return self._scope.resolve(written).unnest()

    def rewrite(self, expr: exp.Expr) -> exp.Expr:
        """An expression over the columns of FROM, written over groups and aggregates."""
        expr = _normalised(expr)
        return expr.transform(self._rewrite_node)

    def rewrite_having(self, written: exp.Expr) -> exp.Expr:
        """A conjunct of HAVING, which unlike others may use the aliases of SELECT."""
        return self.rewrite(self._scope.resolve(written.transform(self._expand_alias)))

    def name_of(self, expr: exp.Expr) -> str:
        """The name that DuckDB would give to an expression that `rewrite` takes."""
        return self._scalars.name_of(expr, [group.expr for group in self._groups])

    def _expand_alias(self, node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or not self._alias_of(node) or is_in_call(node):
            return node
        if self._scope.has(node) and self._index(_normalised(self._scope.resolve(node))) is not None:
            return node
        expr = self._aliases[node.name.lower()].copy()
        for part in expr.walk():
            part.meta.pop("start", None)
            part.meta.pop("end", None)
        return place(exp.Paren(this=expr), node)

    def _alias_of(self, column: exp.Column) -> bool:
        return len(column.parts) == 1 and column.name.lower() in self._aliases

    def _rewrite_node(self, node: exp.Expr) -> exp.Expr:
        index = self._index(node)
        if index is not None:
            return self._column(_GROUP, index, node)
        if call := read_call(node):
            return self._aggregate(call, node)
        if isinstance(node, exp.Column) and not node.table.startswith(UNNESTED):
            name = f"{node.table}.{node.name}"
            remedy = "add it to GROUP BY or put it into an aggregate such as MIN"
            raise BindError(f"`{name}` is neither grouped nor aggregated; {remedy}", self._select.text, span_of(node))
        return node

    def _index(self, node: exp.Expr) -> int | None:
        # A group that is a constant is the same in every row; as an expression it may stand where no column can.
        exprs = [group.expr if group.expr.find(exp.Column) else None for group in self._groups]
        return exprs.index(node) if node in exprs else None

    def _column(self, table: str, index: int, node: exp.Expr) -> exp.Expr:
        column = place(exp.column(str(index), table=table, quoted=True), node)
        own = (self._groups if table == _GROUP else self._aggregates)[index]
        return read_as(column, own.sql_type) if duck.is_renamed(own.sql_type, own.type) else column

    def _aggregate(self, call: AggregateCall, node: exp.Expr) -> exp.Expr:
        """A call as an expression over aggregates: a column, or of several fractions a list of as many."""
        aggregate = self._bind(call)
        if call.function not in QUANTILES:
            return self._column(_AGG, self._add(aggregate), node)
        is_list = isinstance(call.arguments[1].unnest(), exp.Array)
        if is_list:
            scalar = self._scalars.bind_aggregate(_with_fraction(call))
            aggregate = replace(aggregate, type=scalar.type, sql_type=scalar.sql_type)
        added = [self._add(replace(aggregate, fraction=each)) for each in read_fractions(call, self._select.text)]
        columns = [self._column(_AGG, idx, node) for idx in added]
        if not is_list:
            return columns[0]
        # Over no values DuckDB gives no list, not a list of NULLs.
        is_there = place(exp.Not(this=exp.Is(this=columns[0].copy(), expression=exp.Null())), node)
        return place(exp.Case(ifs=[exp.If(this=is_there, true=exp.Array(expressions=columns))]), node)

    def _bind(self, call: AggregateCall) -> Aggregate:
        """What a call asks for, less the fraction of a quantile."""
        text, argument = self._select.text, call.argument
        check_call(call, text)
        for expr in (*call.arguments, *(each.this for each in call.order)):
            refuse_aggregates(expr, text, "another aggregate", "aggregate in a subquery in `FROM` first")
        if argument is not None:
            check_argument(call, self._scalars.bind(argument), text)
        if call.filter is not None:
            refuse_aggregates(call.filter, text, "`FILTER`", "use `HAVING`, or aggregate in a subquery in `FROM`")
            self._scalars.bind_condition(call.filter)
        for constant in call.arguments[1:] if call.function in (*QUANTILES, "string_agg") else ():
            self._scalars.bind(constant)
        if call.function in QUANTILES:
            read_fractions(call, text)
        separator = read_separator(call, text) if call.function == "string_agg" else ","
        scalar = self._scalars.bind_aggregate(call.node)
        return Aggregate(
            call.function,
            argument,
            scalar.type,
            scalar.sql_type,
            call.filter,
            is_distinct=call.is_distinct and call.function not in (*DEAF_TO_DISTINCT, "count_distinct"),
            order=self._bind_order(call),
            is_descending=any(each.args.get("desc") for each in call.within or ()),
            separator=separator,
        )

    def _bind_order(self, call: AggregateCall) -> tuple[OrderBy, ...]:
        """By what an aggregate places its values, if it does not go by the time of rows."""
        if call.function in ("arg_min", "arg_max"):
            keys = [OrderBy(call.arguments[1])]
        elif call.function in LISTINGS and call.is_distinct and not call.order:
            keys = [OrderBy(call.arguments[0])]
        else:
            keys = [OrderBy(o.this, bool(o.args.get("desc")), bool(o.args.get("nulls_first"))) for o in call.order]
        for key in keys:
            check_key(call, self._scalars.bind(key.expr), key.expr, self._select.text)
        return tuple(keys)

    def _add(self, aggregate: Aggregate) -> int:
        if aggregate not in self._aggregates:
            self._aggregates.append(aggregate)
        return self._aggregates.index(aggregate)


def _is_lifted(expr: exp.Expr) -> bool:
    """Whether an expression reads a subquery that stands for a value beside aggregates."""
    return any(column.table.startswith(UNNESTED) for column in expr.find_all(exp.Column))


def _with_fraction(call: AggregateCall) -> exp.Expr:
    """The call of a quantile with one fraction instead of several, which tells the type of each."""
    node = call.node.copy()
    for fractions in list(node.find_all(exp.Array)):
        if fractions == call.arguments[1].unnest():
            fractions.replace(exp.Literal.number("0.5"))
            break
    return node


def _flatten(groups: Iterable[exp.Expr]) -> Iterator[exp.Expr]:
    """What to group by, without brackets: `GROUP BY (a, b)` is `GROUP BY a, b`, and `GROUP BY ()` is one group."""
    for group in groups:
        yield from _flatten(group.expressions) if isinstance(group, exp.Tuple) else (group,)


def is_in_call(node: exp.Expr) -> bool:
    """Whether a node stands within the call of an aggregate."""
    parent = node.parent
    while parent is not None and not read_call(parent):
        parent = parent.parent
    return parent is not None


def _normalised(expr: exp.Expr) -> exp.Expr:
    """With the names of functions in lower case, so that equal expressions are equal."""
    return expr.transform(_lower_name)


def _lower_name(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Anonymous) and isinstance(node.this, str):
        node.set("this", node.this.lower())
    return node
