"""Sash's SQL for sqlglot: DuckDB's dialect with windows on streams, less the clauses that cannot run on them yet.

What cannot run is refused here, while the parser still knows the very token, so that the error can underline it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, cast

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.tokens import Token, TokenType

from sash.errors import Span
from sash.sql.cursor import Cursor
from sash.sql.windows import parse_query_window, parse_stream_window

_REMEDIES = {
    TokenType.DISTINCT: "remove it and deduplicate the query's output",
    TokenType.GROUP_BY: "remove it and aggregate the query's output",
    TokenType.HAVING: "remove it and filter the query's output",
    TokenType.LIMIT: "remove it and take rows from the query's output",
    TokenType.ORDER_BY: "remove it; the output is ordered by `_ts`",
    TokenType.OVER: "remove it and compute it on the query's output",
    TokenType.QUALIFY: "remove it and filter the query's output",
    TokenType.EXCEPT: "run each SELECT as a query of its own",
    TokenType.INTERSECT: "run each SELECT as a query of its own",
    TokenType.UNION: "run each SELECT as a query of its own",
}
_JOINS_THAT_RUN = {TokenType.INNER, TokenType.CROSS}
_AGGREGATES = {"AVG", "COUNT", "MAX", "MIN", "SUM"}
_LITERAL_TYPES = Cursor.TYPE_TOKENS - {TokenType.INTERVAL}
_HINT = re.compile(r"[^\s,(]+(?:\([^)]*\))?")

T = TypeVar("T")


class SashParser(Cursor):
    """DuckDB's parser with Sash's clauses.

    The tree is sqlglot's own. What sqlglot has no place for is in `meta`: `window` on tables and on the SELECT (a
    WindowClause), `emit_changes` on the SELECT.
    """

    # Calls stay as they were written: DuckDB itself will run them, and sqlglot's rewriting for other engines can only
    # change what they mean. The aggregates keep their classes because plans ask for them.
    FUNCTIONS: ClassVar = {name: builder for name, builder in Cursor.FUNCTIONS.items() if name in _AGGREGATES}

    QUERY_MODIFIER_PARSERS: ClassVar = {
        TokenType.WHERE: Cursor.QUERY_MODIFIER_PARSERS[TokenType.WHERE],
        **dict.fromkeys(
            Cursor.QUERY_MODIFIER_PARSERS.keys() - {TokenType.WHERE, TokenType.WINDOW},
            lambda self: self.refuse_token(),
        ),
    }

    def reset(self) -> None:
        super().reset()
        self._is_in_select = False

    def statements(self, tokens: list[Token], text: str, parse: Callable[[SashParser], T]) -> list[T]:
        """What `parse` makes of each statement of the text; statements end at semicolons."""
        return cast(list[T], self._parse(cast(Any, parse), tokens, text))

    def select(self) -> exp.Select:
        """The SELECT that comes next, up to the end of the statement or INTO."""
        self._is_in_select = False
        tree = self._parse_select(consume_pipe=False)
        if not isinstance(tree, exp.Select):
            self.fail("expected `SELECT`")
        if self._curr and not self.at("INTO"):
            self.raise_error("Invalid expression")
        return tree

    def data_type(self) -> exp.Expr:
        return self._parse_types(schema=True) or self.fail("expected a type")

    def refuse_token(self) -> Any:
        """Refuse the clause whose keyword is the current token."""
        remedy = _REMEDIES.get(self._curr.token_type, "remove it")
        self.refuse(f"`{' '.join(self._curr.text.upper().split())}`", remedy)

    def _parse_batch_statements(self, parse_method: Any, sep_first_statement: bool = True) -> list[Any]:
        # sqlglot's own loop takes a statement that starts with ELSE or END for the end of a block, and stops.
        statements = []
        while self._chunk_index < len(self._chunks):
            self._advance_chunk()
            if self._curr and self._curr.token_type is not TokenType.SEMICOLON:
                statements.append(parse_method(self))
                if self._curr:
                    self.raise_error("Invalid expression")
        return statements

    def _parse_select_query(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        if self._match(TokenType.WITH, advance=False):
            self.refuse("`WITH`", "write the query without it")
        if self._is_in_select and self._curr.token_type in (TokenType.SELECT, TokenType.FROM):
            self.refuse("a subquery", "declare its result as a stream or table and join that")
        self._is_in_select = True
        return super()._parse_select_query(*args, **kwargs)

    def _parse_hint(self) -> exp.Hint | None:
        """Called right after SELECT, which makes it the place to see DISTINCT as well."""
        hint = None
        if self._match(TokenType.HINT):
            words = _HINT.findall(" ".join(self._prev_comments).lower())
            hint = exp.Hint(expressions=[exp.var(word) for word in words]).update_positions(self._prev)
        if self._match(TokenType.DISTINCT, advance=False) and self._next.token_type is not TokenType.DOT:
            self.refuse_token()
        return hint

    def _parse_projections(self) -> Any:
        projections, exclude = super()._parse_projections()
        if not projections:
            self.fail("expected columns or `*` after `SELECT`")
        return projections, exclude

    def _parse_into(self) -> None:
        if self._match(TokenType.INTO, advance=False):
            self.fail("expected `FROM`, with `INTO` at the end of a CREATE QUERY,")

    def _parse_join(self, *args: Any, **kwargs: Any) -> exp.Join | None:
        # sqlglot tries what follows a comma and forgets the comma, and the error, when it is no table.
        if self._match(TokenType.COMMA):
            return self.expression(exp.Join(this=self._parse_table()))
        return super()._parse_join(*args, **kwargs)

    def _parse_join_parts(self) -> Any:
        start = self._index
        parts = super()._parse_join_parts()
        words = [part for part in parts if part]
        if self._match(TokenType.JOIN, advance=False) and not {word.token_type for word in words} <= _JOINS_THAT_RUN:
            kind = " ".join(word.text.upper() for word in words)
            span = Span(self._tokens[start].start, self._curr.end + 1)
            self.refuse(f"`{kind} JOIN`", "use `JOIN … ON` or a comma and WHERE", span)
        return parts

    def _parse_table_parts(self, *args: Any, **kwargs: Any) -> exp.Table | exp.Dot | None:
        table = super()._parse_table_parts(*args, **kwargs)
        if table and self._match(TokenType.L_BRACKET, advance=False):
            table.meta["window"] = parse_stream_window(self)
        return table

    def _parse_table_alias(self, *args: Any, **kwargs: Any) -> exp.TableAlias | None:
        if self._is_clause_ahead():
            return None
        alias = super()._parse_table_alias(*args, **kwargs)
        if alias and self._match(TokenType.L_BRACKET, advance=False):
            alias.meta["window"] = parse_stream_window(self)
        return alias

    def _parse_query_modifiers(self, this: Any) -> Any:
        this = super()._parse_query_modifiers(this)
        while isinstance(this, exp.Select) and self._is_clause_ahead():
            self._parse_clause(this.meta)
        if isinstance(this, exp.Select) and self._curr.token_type in _REMEDIES:
            self.refuse_token()
        return this

    def _is_clause_ahead(self) -> bool:
        words = (self._curr.text.upper(), self._next.text.upper())
        return self.at("WINDOW") or words in (("DWINDOW", "("), ("EMIT", "CHANGES"))

    def _parse_clause(self, clauses: dict[str, Any]) -> None:
        if self.at("DWINDOW"):
            self.refuse("`DWINDOW`", "give one `WINDOW` for all streams or `[RANGE …]` after each")
        if self.take("EMIT", "CHANGES"):
            clauses["emit_changes"] = True
        elif "window" in clauses:
            self.raise_error("Invalid expression")
        else:
            self.expect("WINDOW")
            clauses["window"] = parse_query_window(self)

    def _parse_type(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        # sqlglot takes `DATE '2026-01-31'::VARCHAR` for a DATE of the cast string; DuckDB casts the date.
        start = self._index
        if self._next.token_type is TokenType.STRING and self._curr.token_type in _LITERAL_TYPES:
            data_type = self._parse_types(check_func=True, allow_identifiers=False)
            if isinstance(data_type, exp.DataType) and (literal := self._parse_string()):
                return self._parse_column_ops(self.expression(exp.Cast(this=literal, to=data_type)))
        self._retreat(start)
        return super()._parse_type(*args, **kwargs)

    def _parse_set_operations(self, this: exp.Expr | None) -> exp.Expr | None:
        if isinstance(this, exp.Query) and self._match_set(self.SET_OPERATIONS, advance=False):
            self.refuse_token()
        return this

    def _parse_window(self, this: exp.Expr | None, alias: bool = False) -> exp.Expr | None:
        if self._match(TokenType.OVER, advance=False):
            self.refuse_token()
        return super()._parse_window(this, alias)


class Sash(DuckDB):
    """The dialect. Expressions it has parsed are rendered for DuckDB by it too."""

    # Subscripts go back to DuckDB as they came, so there is nothing to shift.
    INDEX_OFFSET = 0

    Parser = SashParser

    class Tokenizer(DuckDB.Tokenizer):
        KEYWORDS: ClassVar = {**DuckDB.Tokenizer.KEYWORDS, "/*+": TokenType.HINT}

    class Generator(DuckDB.Generator):
        # sqlglot would write a call; as an operator it keeps DuckDB's own precedence.
        TRANSFORMS: ClassVar = {**DuckDB.Generator.TRANSFORMS, exp.Pow: lambda self, expr: self.binary(expr, "^")}

        def not_sql(self, expression: exp.Not) -> str:
            # `a NOT IN (…) = b` has become a NOT in front of `a`, which without brackets would reach over `= b`.
            sql = super().not_sql(expression)
            is_operand = isinstance(expression.parent, exp.Binary) and not isinstance(expression.parent, exp.Connector)
            return f"({sql})" if is_operand else sql
