"""The clauses that keep the first of a query's rows, as parsed: `ORDER BY … LIMIT`, `QUALIFY` and `DISTINCT ON`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from sash.errors import PlanError, Span
from sash.sql.expressions import span_of
from sash.sql.parameters import without_cast


@dataclass(frozen=True, slots=True)
class ParsedRanks:
    """What a query has of these clauses, at least one of them."""

    order: tuple[exp.Ordered, ...] = ()
    n_rows: int | None = None
    """Behind LIMIT or FETCH FIRST, if there is that."""
    n_skipped: int = 0
    """Behind OFFSET."""
    with_ties: bool = False
    qualify: exp.Expr | None = None
    distinct_on: tuple[exp.Expr, ...] = ()

    @property
    def keeper(self) -> str:
        """What has to keep rows, for messages."""
        return "`LIMIT`" if self.n_rows is not None else "`QUALIFY`" if self.qualify is not None else "`DISTINCT ON`"


def read_ranks(tree: exp.Query, text: str) -> ParsedRanks | None:
    """The clauses of a SELECT or set operation; PlanError for forms of them that do not run."""
    order, limit, offset, qualify = (tree.args.get(part) for part in ("order", "limit", "offset", "qualify"))
    distinct = tree.args.get("distinct")
    on = distinct.args.get("on") if isinstance(distinct, exp.Distinct) else None
    if not (order or limit or offset or qualify or on):
        return None
    _check_is_limited(order, limit, offset, on, text)
    return ParsedRanks(
        order=tuple(_checked(each, text, span_of(*tree.selects)) for each in order.expressions) if order else (),
        n_rows=_read_limit(limit, text) if limit else None,
        n_skipped=_read_number(offset.expression, "OFFSET", 0, text) if offset else 0,
        with_ties=_has_ties(limit, order, text) if limit else False,
        qualify=qualify.this if qualify else None,
        distinct_on=tuple(on.expressions if isinstance(on, exp.Tuple) else [on.unnest()]) if on else (),
    )


def _check_is_limited(
    order: exp.Expr | None, limit: exp.Expr | None, offset: exp.Expr | None, on: exp.Expr | None, text: str
) -> None:
    """An answer is a set of rows that changes: an order alone says nothing of it."""
    if order and not limit and not on:
        reason = "`ORDER BY` without `LIMIT` makes no difference to an answer that changes"
        remedy = "add `LIMIT 10` for the first rows, or remove it; changes come in order of `_ts`"
        raise PlanError(f"{reason}; {remedy}", text, span_of(order))
    if offset and not limit:
        raise PlanError("`OFFSET` needs a `LIMIT`; add one, as in `LIMIT 10`", text, span_of(offset))


def _checked(ordered: exp.Expr, text: str, span: Span | None) -> exp.Ordered:
    assert isinstance(ordered, exp.Ordered)
    if isinstance(ordered.this, exp.Var):
        reason = "`ORDER BY ALL` cannot run in this version"
        raise PlanError(f"{reason}; name the columns, or give their places, as in `ORDER BY 1, 2`", text, span)
    return ordered


def _read_limit(limit: exp.Expr, text: str) -> int:
    options = limit.args.get("limit_options")
    if (options and options.args.get("percent")) or limit.expressions:
        raise PlanError("`LIMIT` counts rows in this version; give it a number, as in `LIMIT 10`", text, span_of(limit))
    if isinstance(limit, exp.Fetch):
        count = limit.args.get("count")
        return 1 if count is None else _read_number(count, "FETCH FIRST", 1, text)
    return _read_number(limit.expression, "LIMIT", 1, text)


def _read_number(expr: exp.Expr, clause: str, least: int, text: str) -> int:
    number = without_cast(expr.unnest())
    if not isinstance(number, exp.Literal) or not number.name.isdigit() or not least <= int(number.name) < 1 << 31:
        span = span_of(expr)
        written = text[span.start : span.end] if span else "…"
        reason = f"`{clause}` needs a whole number of rows, {least} or more, and not `{written}`; write one"
        raise PlanError(reason, text, span)
    return int(number.name)


def _has_ties(limit: exp.Expr, order: exp.Expr | None, text: str) -> bool:
    options = limit.args.get("limit_options")
    has_ties = bool(options and options.args.get("with_ties"))
    if has_ties and not order:
        raise PlanError("`WITH TIES` goes by an order; add `ORDER BY`", text, span_of(limit) or Span(0, 1))
    return has_ties


def written_out(ordered: exp.Ordered, shown: Sequence[exp.Expr]) -> exp.Ordered:
    """What LIMIT goes by, with the places and aliases of SELECT written out."""
    found, ordered = ordered.this.unnest(), ordered.copy()
    aliased = {output.alias.lower(): output.unalias() for output in shown if output.alias}
    if isinstance(found, exp.Literal) and found.is_int and 1 <= int(found.name) <= len(shown):
        ordered.set("this", shown[int(found.name) - 1].unalias().copy())
    elif isinstance(found, exp.Column) and len(found.parts) == 1 and found.name.lower() in aliased:
        ordered.set("this", aliased[found.name.lower()].copy())
    return ordered
