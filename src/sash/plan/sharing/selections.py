"""Where the conditions of queries that share a join are applied: above it or below it.

Above (NiagaraCQ's pull-up): every row enters the join once, whoever wants it, and pairs are told apart by the labels of
their rows. Below: a row that satisfies no query's condition is left out before it is shipped and stored.

    cost of a row below    n_conditions · CHECK                      to find out whether anybody wants it
    gain of a row below    (1 - share of rows that somebody wants) · KEEP      what it costs to ship, store and probe it

Below also narrows what a query that comes later finds: rows that nobody wanted are not there. So a draw goes to above.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import sqlglot
from sqlglot import exp

CHECK_NS = 15.0
"""To evaluate a condition on a row."""
KEEP_NS = 500.0
"""To ship a row to its group, to store it, and to look for its partners."""
SHARE_OF_EQUALITY = 0.1
SHARE_OF_RANGE = 1 / 3
SHARE_OF_PATTERN = 0.2
SHARE_OF_NULLS = 0.1
SHARE_OF_OTHER = 0.5
"""Which share of rows satisfies a condition of which nothing else is known."""
Distinct = Mapping[str, int]
"""How many values columns have, as far as it was declared."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What it would bring to leave out below a join what no query wants of a stream."""

    n_conditions: int
    """That differ; none if some query wants every row."""
    wanted: float
    """The share of rows that somebody wants, by estimate."""

    @property
    def cost_ns(self) -> float:
        """Of looking at a row below."""
        return self.n_conditions * CHECK_NS

    @property
    def gain_ns(self) -> float:
        """Per row, of not keeping those that nobody wants."""
        return (1.0 - self.wanted) * KEEP_NS

    @property
    def is_below(self) -> bool:
        return self.gain_ns > self.cost_ns


def weigh_selection(conditions: Sequence[str | None], distinct: Distinct) -> Selection:
    """For the conditions of all queries on one stream; None: a query without one."""
    if None in conditions:
        return Selection(0, 1.0)
    different = {each for each in conditions if each is not None}
    return Selection(len(different), 1.0 - prod(1.0 - estimated_share(each, distinct) for each in sorted(different)))


def estimated_share(condition: str, distinct: Distinct) -> float:
    """Which share of rows satisfies a condition, by its form: its parts are taken to be independent."""
    return _share(sqlglot.parse_one(condition, dialect="duckdb"), distinct)


def _share(condition: exp.Expr, distinct: Distinct) -> float:
    match condition:
        case exp.Paren():
            return _share(condition.this, distinct)
        case exp.And():
            return prod(_share(part, distinct) for part in condition.flatten())
        case exp.Or():
            return 1.0 - prod(1.0 - _share(part, distinct) for part in condition.flatten())
        case exp.Not():
            return 1.0 - _share(condition.this, distinct)
        case exp.In():
            return min(1.0, len(condition.expressions) * _share_of_value([condition.this], distinct))
        case exp.EQ() | exp.NullSafeEQ():
            return _share_of_value([condition.left, condition.right], distinct)
        case exp.NEQ() | exp.NullSafeNEQ():
            return 1.0 - _share_of_value([condition.left, condition.right], distinct)
        case _:
            return _share_by_kind(condition)


def _share_of_value(sides: Sequence[exp.Expr], distinct: Distinct) -> float:
    """Of rows in which a column has one value; of two columns the one with more values says how often."""
    counts = [distinct[side.name] for side in sides if isinstance(side, exp.Column) and side.name in distinct]
    return 1.0 / max(counts) if counts else SHARE_OF_EQUALITY


def _share_by_kind(condition: exp.Expr) -> float:
    match condition:
        case exp.Between():
            return SHARE_OF_RANGE**2
        case exp.GT() | exp.GTE() | exp.LT() | exp.LTE():
            return SHARE_OF_RANGE
        case exp.Like() | exp.ILike():
            return SHARE_OF_PATTERN
        case exp.Is():
            return SHARE_OF_NULLS
        case exp.Boolean():
            return float(condition.this)
        case _:
            return SHARE_OF_OTHER
