"""DuckDB's grammar for sqlglot, less the clauses that cannot run on streams yet.

What cannot run is refused here, while the parser still knows the very token, so that the error can underline it. Where
sqlglot reads a text otherwise than DuckDB does, DuckDB's way is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, cast

from sqlglot import TokenType, exp

from sash.errors import Span
from sash.sql.cursor import Cursor

_GROUPING = "write one SELECT for each grouping and put `UNION ALL` between them"
_REMEDIES = {
    TokenType.CUBE: _GROUPING,
    TokenType.GROUPING_SETS: _GROUPING,
    TokenType.LATERAL: "join the subquery with `ON`, and put there what it compares with the outside",
    TokenType.ROLLUP: _GROUPING,
}
_RANKS = (TokenType.QUALIFY, TokenType.ORDER_BY, TokenType.LIMIT, TokenType.FETCH, TokenType.OFFSET)
MODIFIERS_THAT_RUN = (TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, *_RANKS)
_JOINS_THAT_RUN = (
    *("", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "LEFT OUTER", "RIGHT OUTER", "FULL OUTER", "SEMI", "ANTI"),
    *("NATURAL", "NATURAL INNER", "NATURAL LEFT", "NATURAL RIGHT", "NATURAL FULL", "NATURAL LEFT OUTER"),
    *("NATURAL RIGHT OUTER", "NATURAL FULL OUTER", "NATURAL SEMI", "NATURAL ANTI"),
    *("ASOF", "ASOF INNER", "ASOF LEFT", "ASOF LEFT OUTER"),
)
_JOIN_WORDS = (
    "JOIN, LEFT JOIN, RIGHT JOIN, FULL JOIN, CROSS JOIN, SEMI JOIN, ANTI JOIN, NATURAL JOIN, ASOF JOIN "
    "and ASOF LEFT JOIN"
)
_AGGREGATES = {"AVG", "COUNT", "MAX", "MIN", "SUM"}
_PLAIN_AGGREGATES = {
    "APPROX_QUANTILE", "ARGMAX", "ARGMIN", "ARG_MAX", "ARG_MIN", "GROUP_CONCAT", "LISTAGG", "MAX_BY", "MIN_BY",
    "QUANTILE", "QUANTILE_CONT", "QUANTILE_DISC", "STRING_AGG",
}  # fmt: skip
_LITERAL_TYPES = Cursor.TYPE_TOKENS - {TokenType.INTERVAL}
# sqlglot does not say what these hold.
_FUNCTIONS = cast(
    dict[str, Callable[..., exp.Expr]],
    Cursor.FUNCTIONS,  # pyright: ignore[reportUnknownMemberType]
)
_FUNCTION_PARSERS = cast(
    dict[str, Callable[[Cursor], Any]],
    Cursor.FUNCTION_PARSERS,  # pyright: ignore[reportUnknownMemberType]
)
_MODIFIERS = cast(
    dict[TokenType, Callable[[Cursor], Any]],
    Cursor.QUERY_MODIFIER_PARSERS,  # pyright: ignore[reportUnknownMemberType]
)


class DuckParser(Cursor):
    """DuckDB's parser as far as queries can run.

    The tree is sqlglot's own. What sqlglot has no place for is in `meta`: `word` on set operations, `is_comma` on
    joins.
    """

    # Calls stay as they were written: DuckDB itself will run them, and sqlglot's rewriting for other engines can only
    # change what they mean. The aggregates keep their classes because plans ask for them.
    FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {
        name: builder for name, builder in _FUNCTIONS.items() if name in _AGGREGATES
    }

    # Likewise the aggregates that sqlglot reads in ways of their own.
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[[DuckParser], Any]]] = {
        name: parse for name, parse in _FUNCTION_PARSERS.items() if name not in _PLAIN_AGGREGATES
    }

    # `list(x)[1]` is the first of a list, as is `list[1]` if a column is called so; sqlglot would make a list of 1.
    ARRAY_CONSTRUCTORS: ClassVar[dict[str, type[exp.Expr]]] = {"ARRAY": exp.Array}

    QUERY_MODIFIER_PARSERS: ClassVar[dict[TokenType, Callable[[DuckParser], Any]]] = {
        **{token: lambda self: self.refuse_token() for token in _MODIFIERS.keys() - {TokenType.WINDOW}},
        **{token: _MODIFIERS[token] for token in MODIFIERS_THAT_RUN},
    }

    def refuse_token(self) -> Any:
        """Refuse the clause whose keyword is the current token."""
        remedy = _REMEDIES.get(self._curr.token_type, "remove it")
        self.refuse(f"`{' '.join(self._curr.text.upper().split())}`", remedy)

    def refuse_unknown_clause(self) -> None:
        """Refuse a clause that begins here, if it is one of those that cannot run."""
        if self._curr.token_type in _REMEDIES:
            self.refuse_token()

    def _parse_group(self, *args: Any, **kwargs: Any) -> exp.Group | None:
        if self._match_pair(TokenType.GROUP_BY, TokenType.ALL):
            return self.expression(exp.Group(all=True))
        group = super()._parse_group(*args, **kwargs)
        if group and not group.expressions:
            self.fail("expected what to group by")
        return group

    def _parse_cube_or_rollup(self, *args: Any, **kwargs: Any) -> Any:
        if self._match_set((TokenType.CUBE, TokenType.ROLLUP), advance=False):
            self.refuse_token()
        return super()._parse_cube_or_rollup(*args, **kwargs)

    def _parse_grouping_sets(self) -> Any:
        if self._match(TokenType.GROUPING_SETS, advance=False):
            self.refuse_token()
        return super()._parse_grouping_sets()

    def _parse_lateral(self) -> exp.Lateral | None:
        if self._match(TokenType.LATERAL, advance=False):
            self.refuse_token()
        return super()._parse_lateral()

    def _parse_projections(self) -> Any:
        projections, exclude = super()._parse_projections()
        if not projections:
            self.fail("expected columns or `*` after `SELECT`")
        return projections, exclude

    def _parse_join(self, *args: Any, **kwargs: Any) -> exp.Join | None:
        # sqlglot tries what follows a comma and forgets the comma, and the error, when it is no table.
        if self._match(TokenType.COMMA):
            join = self.expression(exp.Join(this=self._parse_table()))
            join.meta["is_comma"] = True
            return join
        return super()._parse_join(*args, **kwargs)

    def _parse_join_parts(self) -> Any:
        start = self._index
        parts = super()._parse_join_parts()
        kind = " ".join(part.text.upper() for part in parts if part)
        if self._match(TokenType.JOIN, advance=False) and kind not in _JOINS_THAT_RUN:
            span = Span(self._tokens[start].start, self._curr.end + 1)
            self.refuse(f"`{kind} JOIN`", f"the joins that run are {_JOIN_WORDS}", span)
        return parts

    def parse_set_operation(self, *args: Any, **kwargs: Any) -> exp.SetOperation | None:
        word = self._curr
        operation = super().parse_set_operation(*args, **kwargs)
        if operation is None:
            return None
        operation.meta["word"] = word.text.upper()
        if operation.args.get("by_name"):
            remedy = "list the columns of both sides in the same order"
            self.refuse(f"`{word.text.upper()} BY NAME`", remedy, Span(word.start, word.end + 1))
        return operation

    def _parse_type(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        # sqlglot takes `DATE '2026-01-31'::VARCHAR` for a DATE of the cast string; DuckDB casts the date.
        start = self._index
        if self._next.token_type is TokenType.STRING and self._curr.token_type in _LITERAL_TYPES:
            data_type = self._parse_types(check_func=True, allow_identifiers=False)
            if isinstance(data_type, exp.DataType) and (literal := self._parse_string()):
                return self._parse_column_ops(self.expression(exp.Cast(this=literal, to=data_type)))
        self._retreat(start)
        return super()._parse_type(*args, **kwargs)

    def _parse_in(self, this: exp.Expr | None, alias: bool = False) -> exp.In:
        # sqlglot takes `IN [1, 2]` for `IN (1, 2)`; DuckDB looks into a list, in which a NULL equals nothing.
        if self._match(TokenType.L_BRACKET, advance=False):
            return self.expression(exp.In(this=this, field=self._parse_column()))
        return super()._parse_in(this, alias)

    def _parse_respect_or_ignore_nulls(self, this: exp.Expr | None) -> exp.Expr | None:
        if self._match_text_seq("IGNORE", "NULLS", advance=False):
            self.refuse("`IGNORE NULLS`", "leave NULLs out by `FILTER (WHERE x IS NOT NULL)` behind it")
        return super()._parse_respect_or_ignore_nulls(this)
