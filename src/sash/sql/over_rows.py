"""A SELECT with functions OVER rows, as a query around the one whose rows they are over.

    SELECT k, v - AVG(v) OVER (PARTITION BY k) AS d FROM s

    SELECT _ranked.k, _ranked."_over.0" - _over.0 AS d       each row with _over.0 = AVG(_ranked."_over.0") for each k
    FROM (SELECT k, v AS "_over.0" FROM s) _ranked

Rows that an order leaves equal are placed by the columns of SELECT that have no such function, from left to right, then
by what functions read: so what they say follows from the rows alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from sash.errors import PlanError
from sash.sql import duck
from sash.sql.bound_aggregates import OrderBy
from sash.sql.bound_over import OVER, OverFunction, OverRows, OverWindow
from sash.sql.bound_query import RANKED, BoundQuery, Output
from sash.sql.call_checks import check_argument
from sash.sql.calls import AggregateCall
from sash.sql.casts import read_as
from sash.sql.expressions import Scalar, ScalarBinder, span_of
from sash.sql.hashable import check_hashable
from sash.sql.over_calls import AGGREGATES
from sash.sql.over_frames import bind_frame
from sash.sql.over_items import HIDDEN, TakenFunction, TakenItems, check_marks, find_window, mark_of
from sash.sql.parsed import ParsedSelect
from sash.sql.reading import check_syntax
from sash.sql.scope import place, read
from sash.sql.sets import CommonType, cast
from sash.sql.sources import Context, derive
from sash.sql.stars import star_of

_KEEPER = "`OVER`"


def has_over(select: ParsedSelect) -> bool:
    """Whether a SELECT has functions OVER rows among its items."""
    return any(find_window(output) is not None for output in select.outputs)


def bind_over(select: ParsedSelect, context: Context) -> BoundQuery:
    """A SELECT that has."""
    check_syntax(select.written or select)
    _check_places(select, context)
    context = replace(context, keeper=context.keeper or _KEEPER)
    taken = TakenItems(select.text)
    items = list(map(taken.take, select.outputs))
    if len(taken.exprs) == len(items):
        taken.hide_something()
    within = replace(
        select,
        outputs=(*items, *taken.hidden),
        is_distinct=False,
        hints=(),
        emit_changes=False,
        written=select.written or select,
    )
    block = context.bind(within, context)
    assert isinstance(block, BoundQuery)
    check_marks(block)
    bound = _Rows(taken, block).bind()
    return replace(bound, hints=select.hints, emit_changes=select.emit_changes, is_distinct=select.is_distinct)


def _check_places(select: ParsedSelect, context: Context) -> None:
    windows = [window for window in map(find_window, select.outputs) if window is not None]
    if "emit_final" in select.tree.meta:
        reason = "functions `OVER` rows cannot stand with `EMIT FINAL` or `EMIT ON WINDOW CLOSE`"
        remedy = "leave one or the other out; rows are taken back when others change what is said of them"
        raise PlanError(f"{reason}; {remedy}", select.text, select.tree.meta["emit_final"])
    if context.is_at_rest:
        reason = (
            "functions `OVER` rows of tables alone cannot run in this version; compute them where the table is made"
        )
        raise PlanError(reason, select.text, span_of(windows[0]))
    for output in select.outputs:
        if star_of(output) is not None and (window := find_window(output)) is not None:
            reason = "`OVER` cannot stand in `REPLACE`; select it beside `*`, under a name of its own"
            raise PlanError(reason, select.text, span_of(window))
    for window in windows:
        if window.find_ancestor(exp.Lambda, exp.Comprehension):
            reason = "`OVER` cannot stand in what is done to a list; select it in a subquery in `FROM`, under a name"
            raise PlanError(reason, select.text, span_of(window))


class _Rows:
    """Puts what was taken out of items together again, over the rows of the query within."""

    def __init__(self, taken: TakenItems, block: BoundQuery):
        self._taken = taken
        self._within = block
        n_shown = len(block.outputs) - len(taken.hidden)
        self._shown, hidden = block.outputs[:n_shown], block.outputs[n_shown:]
        self._columns = [output for output in self._shown if mark_of(output.expr) is None]
        """Of the rows: those that are shown as they are, then others."""
        self._places = [self._place(output) for output in hidden]
        """Of hidden columns, among those of the rows."""
        self._functions: list[OverFunction] = []

    def _place(self, output: Output) -> int:
        exprs = [each.expr for each in self._columns]
        if output.expr not in exprs:
            self._columns.append(output)
            return len(exprs)
        return exprs.index(output.expr)

    def bind(self) -> BoundQuery:
        text = self._within.text
        check_hashable(self._columns, _KEEPER, text)
        defaults = [self._default(each) for each in self._taken.functions]
        source = derive(replace(self._within, outputs=tuple(self._columns)), RANKED)
        columns = pa.schema([field.with_name(f"{RANKED}.{field.name}") for field in source.schema])
        with ScalarBinder(columns, text) as scalars:
            self._functions = [self._bind(*each, scalars) for each in zip(self._taken.functions, defaults, strict=True)]
        made = pa.schema([(f"{OVER}.{idx}", each.type) for idx, each in enumerate(self._functions)])
        with ScalarBinder(pa.schema([*columns, *made]), text) as scalars:
            outputs = [
                replace(output, expr=read(source, output.name))
                if (item := mark_of(output.expr)) is None
                else self._output(output, self._taken.exprs[item], scalars)
                for output in self._shown
            ]
        rows = OverRows(tuple(map(self._column, range(len(self._columns)))), tuple(self._windows()))
        return BoundQuery(
            text=text, sources=(source,), outputs=tuple(outputs), conjuncts=(), spans=self._within.spans, over=rows
        )

    def _column(self, place: int) -> exp.Column:
        return exp.column(self._columns[place].name, RANKED, quoted=True)

    def _hidden(self, number: int) -> exp.Column:
        return self._column(self._places[number])

    def _default(self, taken: TakenFunction) -> int | None:
        """Where the default of LAG and LEAD is among the columns, of the type that the argument has."""
        if taken.default is None or taken.argument is None:
            return None
        value, default = (self._columns[self._places[number]] for number in (taken.argument, taken.default))
        converted = cast(default, CommonType(value.type, value.sql_type))
        place = self._places[taken.default]
        if converted is default:
            return place
        if self._places.count(place) == 1 and default not in self._shown:
            self._columns[place] = converted
            return place
        self._columns.append(replace(converted, name=f"{default.name}.{len(self._columns)}"))
        return len(self._columns) - 1

    def _bind(self, taken: TakenFunction, default: int | None, scalars: ScalarBinder) -> OverFunction:
        written, text = taken.written, self._within.text
        argument = None if taken.argument is None else self._hidden(taken.argument)
        key = self._columns[self._places[taken.order[0]]] if len(taken.order) == 1 else None
        frame = bind_frame(written, key, text)
        scalar = self._value(taken, argument, scalars)
        return OverFunction(
            written.function,
            argument,
            frame,
            scalar.type,
            scalar.sql_type,
            written.n_rows,
            None if default is None else self._column(default),
        )

    def _value(self, taken: TakenFunction, argument: exp.Column | None, scalars: ScalarBinder) -> Scalar:
        """The type of what a function says."""
        written = taken.written
        if argument is None or taken.argument is None:
            return Scalar("", pa.int64(), "BIGINT")
        output = self._columns[self._places[taken.argument]]
        scalar = Scalar("", output.type, output.sql_type)
        if written.function not in AGGREGATES:
            return scalar
        assert written.argument is not None
        call = AggregateCall(written.node, written.function, (written.argument,), False)
        check_argument(call, scalar, self._within.text)
        value = read_as(argument, output.sql_type) if duck.is_renamed(output.sql_type, output.type) else argument
        return scalars.bind_aggregate(exp.Anonymous(this=written.function, expressions=[value]))

    def _output(self, output: Output, expr: exp.Expr, scalars: ScalarBinder) -> Output:
        expr = expr.transform(self._resolve)
        scalar = scalars.bind(expr)
        return replace(output, expr=expr, type=scalar.type, sql_type=scalar.sql_type)

    def _resolve(self, node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.table not in (HIDDEN, OVER):
            return node
        if node.table == HIDDEN:
            own = self._columns[self._places[int(node.name)]]
            column = exp.column(own.name, RANKED, quoted=True)
        else:
            own, column = self._functions[int(node.name)], node.copy()
        column = place(column, node)
        return read_as(column, own.sql_type) if duck.is_renamed(own.sql_type, own.type) else column

    def _windows(self) -> Iterator[OverWindow]:
        """Functions that are over the same rows in the same order, together."""
        found: dict[tuple[tuple[int, ...], tuple[tuple[int, bool, bool], ...]], list[tuple[int, OverFunction]]] = {}
        for number, (taken, function) in enumerate(zip(self._taken.functions, self._functions, strict=True)):
            partition = tuple(dict.fromkeys(self._places[each] for each in taken.partition_by))
            how = [(bool(each.args.get("desc")), bool(each.args.get("nulls_first"))) for each in taken.written.order]
            order = tuple((self._places[each], *hows) for each, hows in zip(taken.order, how, strict=True))
            found.setdefault((partition, order), []).append((number, function))
        for (partition, order), functions in found.items():
            keys = tuple(OrderBy(self._column(idx), is_descending, nulls) for idx, is_descending, nulls in order)
            yield OverWindow(tuple(map(self._column, partition)), keys, tuple(functions))
