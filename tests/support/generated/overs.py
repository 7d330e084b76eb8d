"""Functions OVER rows in generated queries, as text and as plain SQL with an order that leaves no rows equal."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from support.generated.choices import Choices
from support.generated.data import INSTANT, NUMBER
from support.generated.ranks import ORDERS, Order, explicit, order_by

OVER_MARK = re.compile("\2(\\d+)\2")
"""Where an expression has the n-th function."""
_RANKS, _NEIGHBOURS, _VALUES = ("row_number", "rank", "dense_rank"), ("lag", "lead"), ("first_value", "last_value")
_STARTS = ("UNBOUNDED PRECEDING", "2 PRECEDING", "1 PRECEDING", "CURRENT ROW", "1 FOLLOWING")
_ENDS = ("1 PRECEDING", "CURRENT ROW", "1 FOLLOWING", "2 FOLLOWING", "UNBOUNDED FOLLOWING")
_OF_NUMBERS = {"row_number": 4, "rank": 2, "dense_rank": 2, "count": 2, "sum": 3, "avg": 1}
_OF_ANY = {"lag": 2, "lead": 2, "min": 1, "max": 1, "first_value": 1, "last_value": 1}
FEATURES = (
    *(f"{name}() OVER" for name in (*_OF_NUMBERS, *_OF_ANY)),
    *("OVER … ROWS", "OVER … RANGE", "OVER … RANGE by a difference", "FILTER … OVER", "OVER in groups"),
    *("OVER several windows", "SELECT *, … OVER", "first rows by a number from a subquery", "unnamed subquery"),
)


@dataclass(frozen=True, slots=True)
class OverItem:
    """A function, and what stands before it in its item."""

    function: str
    argument: str | None = None
    n_rows: int | None = None
    default: str | None = None
    filter: str | None = None
    partition_by: tuple[str, ...] = ()
    order: Order = ()
    frame: str = ""
    beside: str | None = None

    @property
    def text(self) -> str:
        """As Sash reads it."""
        called = f"{self.function}({self._arguments(self.argument, self.default)})"
        called += f" FILTER (WHERE {self.filter})" if self.filter else ""
        partition = f"PARTITION BY {', '.join(self.partition_by)}" if self.partition_by else ""
        return f"{called} OVER ({' '.join(filter(None, (partition, order_by(self.order), self.frame)))})"

    def _arguments(self, argument: str | None, default: str | None) -> str:
        if argument is None:
            return "*" if self.function == "count" else ""
        further = [] if self.n_rows is None else [str(self.n_rows)]
        return ", ".join([argument, *further, *([default] if default else [])])

    @property
    def counted(self) -> str | None:
        """What it is of, NULL for rows that do not count."""
        return f"CASE WHEN {self.filter} THEN {self.argument or 1} END" if self.filter else self.argument

    @property
    def reads(self) -> list[str]:
        """In the order in which they place rows that are equal in all that is shown."""
        found = (self.beside, self.counted, self.default, *self.partition_by, *(expr for expr, _ in self.order))
        return [expr for expr in found if expr is not None]

    def plain(self, place: Mapping[str, str]) -> str:
        """Over rows `p` of an instant `p._i`, which `p._u` numbers; `place` is where they have what it reads."""
        keys = [f"p.{place[expr]}{explicit(how)}" for expr, how in self.order]
        is_by_row = self.function in ("row_number", *_NEIGHBOURS) or self.frame.startswith("ROWS")
        by = ", ".join([*keys, "p._u"] if is_by_row else keys)
        partition = ", ".join(["p._i", *(f"p.{place[each]}" for each in self.partition_by)])
        over = " ".join(filter(None, (f"PARTITION BY {partition}", f"ORDER BY {by}" if by else "", self.frame)))
        argument = None if self.counted is None else f"p.{place[self.counted]}"
        default = None if self.default is None else f"p.{place[self.default]}"
        function, arguments = self.function, self._arguments(argument, default)
        if self.function in _VALUES and not is_by_row:
            function = self.function.removesuffix("_value")
            arguments += f" ORDER BY {', '.join([*keys, 'p._u'])}"
        return f"{function}({arguments}) OVER ({over})"

    @property
    def features(self) -> list[str]:
        found = [f"{self.function}() OVER", *(["FILTER … OVER"] if self.filter else [])]
        if self.frame.startswith("ROWS"):
            found.append("OVER … ROWS")
        elif self.frame:
            found.append("OVER … RANGE by a difference" if re.search(r"\d", self.frame) else "OVER … RANGE")
        return found


def draw_over(
    choices: Choices,
    known: Sequence[tuple[str, str]],
    family: str,
    times: Sequence[str],
    condition: Callable[[], str] | None,
) -> OverItem:
    """A function whose values are of a family, over expressions that are known, of whatever families.

    `times` are those that are whole numbers or instants. Without a condition, it is one that SQLite knows too.
    """
    fitting = [text for text, each in known if each == family]
    functions = {**(_OF_NUMBERS if family == NUMBER else {}), **(_OF_ANY if fitting else {})}
    if not fitting:
        functions = {name: weight for name, weight in functions.items() if name in (*_RANKS, "count")}
    function = choices.weighted(functions)
    if condition is None and function in _VALUES:
        function = "min"  # SQLite would not be told which of equal rows is the first
    partition_by = tuple(dict.fromkeys(choices.some([text for text, _ in known], 2)))
    order = _draw_order(choices, [text for text, _ in known], times)
    if function in _RANKS:
        return OverItem(function, partition_by=partition_by, order=order)
    argument = choices.one(fitting) if fitting and (function != "count" or choices.chance(50)) else None
    if function in _NEIGHBOURS:
        n_rows = choices.one((None, 1, 2, 0)) if family == NUMBER else choices.one((None, 1))
        default = choices.one(fitting) if n_rows is not None and choices.chance(40) else None
        return OverItem(function, argument, n_rows, default, partition_by=partition_by, order=order)
    passes = condition() if condition and function not in _VALUES and choices.chance(15) else None
    frame = _draw_frame(choices, order, dict(known), times)
    return OverItem(function, argument, None, None, passes, partition_by, order, frame)


def _draw_order(choices: Choices, exprs: Sequence[str], times: Sequence[str]) -> Order:
    if times and choices.chance(25):
        return ((choices.one(times), choices.one(ORDERS)),)
    found = dict.fromkeys(choices.one(exprs) for _ in range(choices.weighted({1: 5, 2: 2, 0: 1})))
    return tuple((expr, choices.one(ORDERS)) for expr in found)


def _draw_frame(choices: Choices, order: Order, families: Mapping[str, str], times: Sequence[str]) -> str:
    is_apart = len(order) == 1 and order[0][0] in times
    kind = choices.weighted({"": 4, "ROWS": 4, "RANGE": 8 if is_apart else 2})
    if not kind:
        return ""
    if kind == "ROWS" and choices.chance(15):
        return f"ROWS {choices.one(('1', '2', 'UNBOUNDED'))} PRECEDING"
    starts, ends = _STARTS, _ENDS
    if kind == "RANGE" and not is_apart:
        starts, ends = ("UNBOUNDED PRECEDING", "CURRENT ROW"), ("CURRENT ROW", "UNBOUNDED FOLLOWING")
    first = choices.below(len(starts))
    later = [end for end in ends if _place(end) >= _place(starts[first])]
    bounds = f"{starts[first]} AND {choices.one(later)}"
    if kind == "RANGE" and order and families.get(order[0][0]) == INSTANT:
        bounds = re.sub(r"\d", lambda found: f"INTERVAL '{found[0]} us'", bounds)
    return f"{kind} BETWEEN {bounds}"


def _place(bound: str) -> int:
    amount, _, side = bound.partition(" ")
    if amount == "CURRENT":
        return 0
    number = 9 if amount == "UNBOUNDED" else int(amount)
    return -number if side == "PRECEDING" else number


def plain_over(
    sql: str, columns: Sequence[tuple[str, str]], items: Sequence[OverItem], place: Mapping[str, str], is_distinct: bool
) -> str:
    """Plain SQL of a query with such functions. `sql` has, for every instant `_i`, the columns of rows: those that are
    shown as they are, then what `place` says; `columns` are the expressions and names that are shown.
    """
    shown = [name for expr, name in columns if not OVER_MARK.search(expr)]
    total = ", ".join(f"q.{name} NULLS LAST" for name in (*shown, *place.values()))
    number = f"row_number() OVER (PARTITION BY q._i ORDER BY {total})" if total else "0"
    outputs = [
        f"{_filled(expr, items, place)} AS {name}" if OVER_MARK.search(expr) else f"p.{name}" for expr, name in columns
    ]
    rows = f"(SELECT q.*, {number} AS _u FROM ({sql}) q) p"
    return f"SELECT {'DISTINCT ' if is_distinct else ''}p._i, {', '.join(outputs)} FROM {rows}"


def _filled(expr: str, items: Sequence[OverItem], place: Mapping[str, str]) -> str:
    """An item over the columns of the rows."""
    for item in items_in(expr, items):
        if item.beside is not None:
            expr = expr.replace(item.beside, f"p.{place[item.beside]}", 1)
    return OVER_MARK.sub(lambda found: items[int(found[1])].plain(place), expr)


def items_in(expr: str, items: Sequence[OverItem]) -> list[OverItem]:
    return [items[int(found)] for found in OVER_MARK.findall(expr)]
