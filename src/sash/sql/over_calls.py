"""Functions OVER rows as they are written: which run, over which rows.

SUM(v) FILTER (WHERE v > 0) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 10 PRECEDING AND CURRENT ROW)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from sqlglot import exp

from sash.errors import PlanError
from sash.sql.calls import read_call
from sash.sql.expressions import span_of

RANKS = ("row_number", "rank", "dense_rank")
NEIGHBOURS = ("lag", "lead")
VALUES = ("first_value", "last_value")
AGGREGATES = ("count", "sum", "avg", "min", "max")
THAT_RUN = "ROW_NUMBER, RANK, DENSE_RANK, LAG, LEAD, FIRST_VALUE, LAST_VALUE, COUNT, SUM, AVG, MIN and MAX"
MOST_ROWS = 1 << 31


@dataclass(frozen=True, slots=True)
class WrittenFrame:
    """Bounds as numbers of rows, or of RANGE as expressions; negative or before a row, None as far as there are any."""

    is_range: bool
    start: exp.Expr | int | None
    end: exp.Expr | int | None
    is_before: tuple[bool, bool] = (False, False)
    """Of bounds that are expressions: whether they are PRECEDING."""


ALL_BEFORE = WrittenFrame(is_range=True, start=None, end=0)
"""What SQL takes where nothing is said."""


@dataclass(frozen=True, slots=True)
class WrittenOver:
    """A function OVER rows, as written. `argument` has the condition of FILTER in it."""

    node: exp.Window
    function: str
    argument: exp.Expr | None
    partition_by: tuple[exp.Expr, ...]
    order: tuple[exp.Ordered, ...]
    frame: WrittenFrame
    n_rows: int = 0
    default: exp.Expr | None = None


def read_over(window: exp.Window, text: str) -> WrittenOver:
    """The function that a node is; PlanError for what does not run."""
    nested = next((node for node in window.find_all(exp.Window) if node is not window), None)
    if nested is not None:
        _refuse("a window function within another", "compute the inner one in a subquery in `FROM`", nested, text)
    if window.args.get("alias") or window.args.get("first") is not None:
        _refuse("`OVER` with a name", "write what it is over in brackets", window, text)
    function, arguments, passes = _read_function(window.this, text)
    order = window.args.get("order")
    items = tuple(each for each in order.expressions if isinstance(each, exp.Ordered)) if order else ()
    frame = _read_frame(window, items, text)
    if window.args.get("spec") and function in (*RANKS, *NEIGHBOURS):
        _refuse(f"a frame of `{function}`", "leave it out, as the function goes by all of its partition", window, text)
    n_rows, default = _read_offset(function, arguments, window, text)
    return WrittenOver(
        window,
        function,
        _filtered(arguments[0] if arguments else None, passes),
        tuple(window.args.get("partition_by") or ()),
        items,
        frame,
        n_rows,
        default,
    )


def _read_function(node: exp.Expr, text: str) -> tuple[str, tuple[exp.Expr, ...], exp.Expr | None]:
    """The name, the arguments and the condition of FILTER."""
    call = read_call(node)
    if call is not None and call.function in AGGREGATES and not call.is_distinct and not call.order:
        if len(call.arguments) > 1 or (not call.arguments and call.function != "count"):
            _refuse(f"`{call.function}` of {len(call.arguments)} arguments", "give one", node, text)
        return call.function, call.arguments, call.filter
    name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    arguments = tuple(node.expressions) if isinstance(node, exp.Anonymous) else ()
    n_most = {**dict.fromkeys(RANKS, 0), **dict.fromkeys(VALUES, 1), **dict.fromkeys(NEIGHBOURS, 3)}.get(name)
    if n_most is None:
        _refuse("this function `OVER` rows", f"use one of {THAT_RUN}, without `DISTINCT` or an order", node, text)
    is_ordered = any(isinstance(each, (exp.Order, exp.Distinct)) for each in arguments)
    if is_ordered or not min(n_most, 1) <= len(arguments) <= n_most:
        few = "none" if n_most == 0 else "one" if n_most == 1 else "a value, a number of rows and a default"
        _refuse(f"`{name}` of such arguments", f"give it {few}", node, text)
    return name, arguments, None


def _filtered(argument: exp.Expr | None, passes: exp.Expr | None) -> exp.Expr | None:
    """What is NULL for rows that do not count."""
    if passes is None:
        return argument
    value = exp.Literal.number(1) if argument is None else argument.copy()
    return exp.Case(ifs=[exp.If(this=passes.copy(), true=value)])


def _read_offset(
    function: str, arguments: tuple[exp.Expr, ...], window: exp.Window, text: str
) -> tuple[int, exp.Expr | None]:
    if function not in NEIGHBOURS:
        return 0, None
    n_rows = read_number(arguments[1]) if len(arguments) > 1 else 1
    if n_rows is None or abs(n_rows) >= MOST_ROWS:
        _refuse(f"`{function}` by what is no constant", "give a whole number of rows, as in `2`", window, text)
    return n_rows, arguments[2] if len(arguments) > 2 else None


def read_number(expr: exp.Expr) -> int | None:
    """A whole number that is written as such."""
    number = expr.unnest()
    if isinstance(number, exp.Neg):
        inner = read_number(number.this)
        return None if inner is None else -inner
    return int(number.name) if isinstance(number, exp.Literal) and number.is_int else None


def _read_frame(window: exp.Window, order: tuple[exp.Ordered, ...], text: str) -> WrittenFrame:
    spec = window.args.get("spec")
    if spec is None:
        return ALL_BEFORE
    kind = str(spec.args.get("kind") or "").upper()
    if kind not in ("ROWS", "RANGE") or spec.args.get("exclude"):
        _refuse("`GROUPS` or `EXCLUDE` in a frame", "use `ROWS` or `RANGE` alone", window, text)
    is_range = kind == "RANGE"
    bounds: list[exp.Expr | int | None] = []
    for side in ("start", "end"):
        given = spec.args.get(side)
        bounds.append(_read_bound(given, str(spec.args.get(f"{side}_side") or ""), is_range, side, window, text))
    if is_range and any(isinstance(bound, exp.Expr) for bound in bounds) and len(order) != 1:
        _refuse(
            "`RANGE` by a difference over several columns, or none", "order by the one that it goes by", window, text
        )
    sides = [str(spec.args.get(f"{side}_side") or "").upper() == "PRECEDING" for side in ("start", "end")]
    return WrittenFrame(is_range, bounds[0], bounds[1], (sides[0], sides[1]))


def _read_bound(
    given: exp.Expr | str | None, side: str, is_range: bool, place: str, window: exp.Window, text: str
) -> exp.Expr | int | None:
    """A number of rows, an expression of RANGE, or None for all there are."""
    word = str(given).upper() if not isinstance(given, exp.Expr) else ""
    if given is None or word == "CURRENT ROW":
        return 0
    is_before = side.upper() == "PRECEDING"
    if word == "UNBOUNDED":
        if is_before != (place == "start"):
            _refuse("a frame that ends before it begins", "turn its bounds round", window, text)
        return None
    assert isinstance(given, exp.Expr)
    if is_range:
        return given
    number = read_number(given)
    if number is None or not 0 <= number < MOST_ROWS:
        _refuse("a frame of `ROWS` by what is no constant", "give a whole number, as in `10 PRECEDING`", window, text)
    return -number if is_before else number


def _refuse(what: str, remedy: str, node: exp.Expr, text: str) -> NoReturn:
    raise PlanError(f"{what} cannot run in this version; {remedy}", text, span_of(node))
