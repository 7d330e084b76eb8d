"""Functions OVER rows, in SQL that says in which order rows are that ORDER BY leaves equal.

    SELECT k, v - LAG(v) OVER (ORDER BY w) AS d FROM s

    SELECT p.* EXCLUDE ("#u", "#w0", "#w1") REPLACE (p."#w0" - LAG(p."#w0") OVER (ORDER BY p."#w1", p."#u") AS d)
    FROM (SELECT q.*, row_number() OVER (ORDER BY q) AS "#u"
          FROM (SELECT k, NULL AS d, v AS "#w0", w AS "#w1" FROM s) q) p

`q` is the whole row: its columns place rows that are equal in order, those of SELECT first, then what functions read.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sash.sql.expressions import stands_alone

_MADE = ("#n", "#r")
"""Numbers that are the oracle's own."""
_BY_PLACE = ("row_number", "lag", "lead")
_VALUES = {"first_value": "first", "last_value": "last"}


def spell_out_over(tree: exp.Query) -> exp.Query:
    """The query with such functions, wherever they stand among the items of a SELECT, over rows in a total order."""
    for select in list(tree.find_all(exp.Select)):
        if not any(map(_is_over, select.expressions)):
            continue
        place, parent = exp.Placeholder(), select.parent
        if parent is not None:
            select.replace(place)
        spelled = _spelled(select)
        if parent is None:
            spelled.meta.update(tree.meta)
            tree = spelled
        else:
            place.replace(spelled)
    return tree


def has_over(tree: exp.Query) -> bool:
    """Whether functions OVER rows stand among the items of a SELECT."""
    return any(_is_over(item) for select in tree.find_all(exp.Select) for item in select.expressions)


def _is_over(item: exp.Expr) -> bool:
    nodes = item.walk(prune=lambda node: isinstance(node, exp.Query))
    return item.alias not in _MADE and any(isinstance(node, exp.Window) for node in nodes)


def _spelled(select: exp.Select) -> exp.Select:
    hidden: list[exp.Expr] = []

    def hide(expr: exp.Expr) -> exp.Column:
        hidden.append(expr.copy())
        return exp.column(f"#w{len(hidden) - 1}", "p", quoted=True)

    def take(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Window):
            return _over_rows(node, hide)
        is_whole = isinstance(node, (exp.Column, exp.Subquery)) or stands_alone(node)
        is_read = is_whole and node.find(exp.Column, exp.Query, exp.AggFunc, exp.Anonymous) is not None
        return hide(node) if is_read and not node.find(exp.Window) else node

    items, replaced = list[exp.Expr](), list[exp.Expr]()
    for item in select.expressions:
        if not _is_over(item):
            items.append(item)
            continue
        name = exp.to_identifier(item.alias or item.sql(dialect="duckdb"), quoted=True)
        replaced.append(exp.alias_(item.unalias().transform(take), name))
        items.append(exp.alias_(exp.null(), name))
    names = [f"#w{number}" for number in range(len(hidden))]
    columns = [exp.alias_(expr, name, quoted=True) for expr, name in zip(hidden, names, strict=True)]
    distinct = select.args.get("distinct")
    select.set("distinct", None)
    select.set("expressions", [*items, *columns])
    number = exp.Window(this=exp.Anonymous(this="row_number"), order=_order([exp.column("q")]), over="OVER")
    rows = exp.select("q.*", exp.alias_(number, "#u", quoted=True)).from_(_subquery(select, "q"))
    except_ = [exp.to_identifier(name, quoted=True) for name in ("#u", *names)]
    spelled = exp.select(exp.Star(except_=except_, replace=replaced)).from_(_subquery(rows, "p"))
    spelled.set("distinct", distinct)
    return spelled


def _over_rows(window: exp.Window, hide: Callable[[exp.Expr], exp.Column]) -> exp.Window:
    """A function over the columns of rows `p`, which `#u` numbers."""
    call, spec, order = window.this, window.args.get("spec"), window.args.get("order")
    passes = call.expression.this if isinstance(call, exp.Filter) else None
    call = (call.this if isinstance(call, exp.Filter) else call).copy()
    name = call.name.lower() if isinstance(call, exp.Anonymous) else call.key
    arguments = _arguments(call)
    if passes is not None:
        value = arguments[0] if arguments else exp.Literal.number(1)
        arguments = [exp.Case(ifs=[exp.If(this=passes.copy(), true=value)])]
    read = [hide(each) if place != 1 or name not in _BY_PLACE else each for place, each in enumerate(arguments)]
    partition = [hide(each) for each in window.args.get("partition_by") or ()]
    keys = [_with_key(each, hide(each.this)) for each in (order.expressions if order else ())]
    is_rows = spec is not None and str(spec.args.get("kind")).upper() == "ROWS"
    total = [*keys, exp.Ordered(this=exp.column("#u", "p", quoted=True), nulls_first=False)]
    if name in _VALUES and not is_rows:
        name = _VALUES[name]
        read = [exp.Order(this=read[0], expressions=[each.copy() for each in total])]
    by = total if name in _BY_PLACE or is_rows else keys
    return exp.Window(
        this=exp.Anonymous(this=name, expressions=read or ([exp.Star()] if name == "count" else [])),
        partition_by=partition,
        order=exp.Order(expressions=by) if by else None,
        spec=spec.copy() if spec else None,
        over="OVER",
    )


def _arguments(call: exp.Expr) -> list[exp.Expr]:
    given = call.expressions if isinstance(call, exp.Anonymous) else [call.this, *call.expressions]
    return [each for each in given if isinstance(each, exp.Expr) and not isinstance(each, exp.Star)]


def _with_key(ordered: exp.Expr, column: exp.Column) -> exp.Ordered:
    copied = ordered.copy()
    assert isinstance(copied, exp.Ordered)
    copied.set("this", column)
    return copied


def _order(exprs: list[exp.Expr]) -> exp.Order:
    return exp.Order(expressions=[exp.Ordered(this=expr, nulls_first=False) for expr in exprs])


def _subquery(query: exp.Query, name: str) -> exp.Subquery:
    return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(name)))
