"""QUALIFY: which conditions on the number of a row run.

QUALIFY row_number() OVER (PARTITION BY k ORDER BY v DESC) <= 3     also rank() and dense_rank(), `<`, `=`, BETWEEN
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn, TypeVar

from sqlglot import exp

from sash.errors import PlanError
from sash.sql.expressions import span_of
from sash.sql.parameters import without_cast

RANKS = ("row_number", "rank", "dense_rank")
T = TypeVar("T", bound=exp.Expr)
_EXAMPLE = "`QUALIFY row_number() OVER (PARTITION BY k ORDER BY v) <= 3`"
_REMEDY = "select it in a subquery in `FROM`, under a name, and put the condition into `WHERE`"
_TURNED: dict[type[exp.Expr], type[exp.Expr]] = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.EQ: exp.EQ}


@dataclass(frozen=True, slots=True)
class RankCondition:
    """Rows of a partition whose number is more than `first` and, as `function` counts, at most `last`."""

    function: str
    partition_by: tuple[exp.Expr, ...]
    order: tuple[exp.Ordered, ...]
    first: int
    last: int


def read_condition(condition: exp.Expr, text: str) -> RankCondition:
    """The condition behind QUALIFY; PlanError for one that does not run."""
    condition = condition.unnest()
    bounds = bounds_of(condition, exp.Window)
    if bounds is None:
        _refuse(condition, text)
    window, first, last = bounds
    function = window.this.name.lower() if isinstance(window.this, exp.Anonymous) else ""
    if function not in RANKS or window.this.expressions:
        _refuse(condition, text)
    if first and function != "row_number":
        reason = f"`{function}` runs in this version with `<=` alone"
        raise PlanError(f"{reason}; {_REMEDY}", text, span_of(condition))
    if last <= first:
        raise PlanError("no row satisfies `QUALIFY`, as numbers begin at 1; correct it", text, span_of(condition))
    order = window.args.get("order")
    if window.args.get("spec") or window.args.get("alias"):
        reason = f"`{function}` counts in all of its partition; write what it is over in brackets, without a frame"
        raise PlanError(reason, text, span_of(window))
    return RankCondition(function, tuple(window.args.get("partition_by") or ()), _items(order), first, last)


def refuse_windows(expr: exp.Expr, text: str) -> None:
    """PlanError at a window function that stands where none runs."""
    nodes = expr.walk(prune=lambda node: isinstance(node, exp.Query))
    window = next((node for node in nodes if isinstance(node, exp.Window)), None)
    if window is not None:
        reason = "`OVER` can stand among the items of `SELECT` and in `QUALIFY` alone"
        raise PlanError(f"{reason}; select it in a subquery in `FROM`, under a name", text, span_of(window))


def _items(order: exp.Expr | None) -> tuple[exp.Ordered, ...]:
    return tuple(each for each in order.expressions if isinstance(each, exp.Ordered)) if order else ()


def bounds_of(condition: exp.Expr, kind: type[T]) -> tuple[T, int, int] | None:
    """What a condition is on, a node of this kind, and the number behind which and up to which rows are kept."""
    if isinstance(condition, exp.Between) and isinstance(condition.this, kind):
        low, high = (_number(condition.args[part]) for part in ("low", "high"))
        return None if low is None or high is None else (condition.this, max(low - 1, 0), high)
    comparison, sides = type(condition), [condition.args.get("this"), condition.args.get("expression")]
    if isinstance(sides[1], exp.Expr) and isinstance(sides[1].unnest(), kind):
        comparison, sides = _TURNED.get(comparison, comparison), sides[::-1]
    counted = sides[0].unnest() if isinstance(sides[0], exp.Expr) else None
    number = _number(sides[1]) if isinstance(sides[1], exp.Expr) else None
    if not isinstance(counted, kind) or number is None:
        return None
    bounds = {exp.LTE: (0, number), exp.LT: (0, number - 1), exp.EQ: (max(number - 1, 0), number)}
    return (counted, *bounds[comparison]) if comparison in bounds else None


def _number(expr: exp.Expr) -> int | None:
    number = without_cast(expr.unnest())
    return int(number.name) if isinstance(number, exp.Literal) and number.name.isdigit() else None


def _refuse(condition: exp.Expr, text: str) -> NoReturn:
    reason = "this condition of `QUALIFY` cannot run in this version"
    raise PlanError(
        f"{reason}; compare the number of a row with a constant, as in {_EXAMPLE}, or {_REMEDY}",
        text,
        span_of(condition),
    )
