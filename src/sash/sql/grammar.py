"""Sash's grammar for sqlglot: DuckDB's with windows on streams, less the clauses that cannot run on them yet.

What cannot run is refused here, while the parser still knows the very token, so that the error can underline it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, cast

from sqlglot import Token, TokenType, exp

from sash.errors import ParseError, Span
from sash.sql.cursor import IS_ARRIVAL, Cursor
from sash.sql.foreign_functions import read_foreign
from sash.sql.table_windows import (
    close_windows,
    expand_group_window,
    is_group_window,
    is_table_window,
    parse_group_window,
    parse_table_window,
)
from sash.sql.unbounded_state import UNBOUNDED_STATE
from sash.sql.windows import parse_stream_window, parse_window

_GROUPING = "write one SELECT for each grouping and put `UNION ALL` between them"
_REMEDIES = {
    TokenType.CUBE: _GROUPING,
    TokenType.GROUPING_SETS: _GROUPING,
    TokenType.LATERAL: "join the subquery with `ON`, and put there what it compares with the outside",
    TokenType.ROLLUP: _GROUPING,
}
_RANKS = (TokenType.QUALIFY, TokenType.ORDER_BY, TokenType.LIMIT, TokenType.FETCH, TokenType.OFFSET)
_MODIFIERS_THAT_RUN = (TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, *_RANKS)
_CLAUSES_OF_THE_WHOLE = ("window", "emit_changes", UNBOUNDED_STATE)
_CLAUSE_WORDS = (("DWINDOW", "("), ("EMIT", "CHANGES"), ("EMIT", "ON"), ("EMIT", "FINAL"), ("WITH", "UNBOUNDED"))
_CLAUSES = (*_CLAUSES_OF_THE_WHOLE, "pair_windows")
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
_HINT = re.compile(r"[^\s,(]+(?:\s*\([^)]*\))?")

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

T = TypeVar("T")


class SashParser(Cursor):
    """DuckDB's parser with Sash's clauses.

    The tree is sqlglot's own. What sqlglot has no place for is in `meta`: `window` on tables and on SELECTs and set
    operations (a WindowClause), `emit_changes` on the latter two (its Span), `pair_windows` on SELECTs (a tuple of
    ParsedPairWindow), `word` on set operations.
    """

    # Calls stay as they were written: DuckDB itself will run them, and sqlglot's rewriting for other engines can only
    # change what they mean. The aggregates keep their classes because plans ask for them.
    FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {
        name: builder for name, builder in _FUNCTIONS.items() if name in _AGGREGATES
    }

    # Likewise the aggregates that sqlglot reads in ways of their own.
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[[SashParser], Any]]] = {
        name: parse for name, parse in _FUNCTION_PARSERS.items() if name not in _PLAIN_AGGREGATES
    }

    # `list(x)[1]` is the first of a list, as is `list[1]` if a column is called so; sqlglot would make a list of 1.
    ARRAY_CONSTRUCTORS: ClassVar[dict[str, type[exp.Expr]]] = {"ARRAY": exp.Array}

    QUERY_MODIFIER_PARSERS: ClassVar[dict[TokenType, Callable[[SashParser], Any]]] = {
        **{token: lambda self: self.refuse_token() for token in _MODIFIERS.keys() - {TokenType.WINDOW}},
        **{token: _MODIFIERS[token] for token in _MODIFIERS_THAT_RUN},
    }

    def statements(self, tokens: list[Token], text: str, parse: Callable[[SashParser], T]) -> list[T]:
        """What `parse` makes of each statement of the text; statements end at semicolons."""
        return cast(list[T], self._parse(cast(Any, parse), tokens, text))

    def query(self) -> exp.Query:
        """The SELECT or set operation that comes next, up to the end of the statement or INTO."""
        tree = self._parse_statement()
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
        statements: list[Any] = []
        while self._chunk_index < len(self._chunks):
            self._advance_chunk()
            if self._curr and self._curr.token_type is not TokenType.SEMICOLON:
                statements.append(parse_method(self))
                if self._curr:
                    self.raise_error("Invalid expression")
        return statements

    def _parse_statement(self) -> exp.Query:
        """A query, in brackets or not; also what stands between the brackets of WITH."""
        tree = self._parse_select(nested=True, consume_pipe=False)
        if isinstance(tree, exp.Subquery):
            tree = self._parse_set_operations(tree)
        while isinstance(tree, exp.Subquery) and not tree.alias:
            self._parse_clauses(tree.this)
            tree = tree.this
        if not isinstance(tree, (exp.Select, exp.SetOperation)):
            self.fail("expected `SELECT`")
        return tree

    def _parse_select_query(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        query = self._covered(super()._parse_select_query, args, kwargs)
        for star in query.expressions if isinstance(query, exp.Select) else ():
            if isinstance(star, exp.Star) and not self.sql.startswith("*", star.meta.get("start", 0)):
                star.meta.clear()  # where FROM alone is a query, sqlglot adds a `*` and makes up a place for it
        if isinstance(query, exp.Select):
            expand_group_window(self, query)
            close_windows(query)
        return query

    def _parse_subquery(self, this: exp.Expr | None, parse_alias: bool = True) -> exp.Subquery | None:
        if parse_alias and self._match(TokenType.L_BRACKET, advance=False):
            self.refuse("a window on a subquery", "give the streams inside it windows")
        subquery = super()._parse_subquery(this, parse_alias)
        if subquery:
            subquery.meta["is_written"] = True  # sqlglot makes some of its own, without brackets in the text
        return subquery

    def _parse_hint(self) -> exp.Hint | None:
        hint = None
        if self._match(TokenType.HINT):
            words = _HINT.findall(" ".join(self._prev_comments).lower())
            hint = exp.Hint(expressions=[exp.var(word) for word in words]).update_positions(self._prev)
        return hint

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

    def _span_of_two(self) -> Span:
        return Span(self._curr.start, self._next.end + 1)

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

    def _parse_table_parts(self, *args: Any, **kwargs: Any) -> exp.Table | exp.Dot | None:
        if is_table_window(self):
            return parse_table_window(self)
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

    def _parse_version(self) -> exp.Version | None:
        start = self._index
        version = super()._parse_version()
        if version is None:
            return None
        is_known = self._tokens[start + 1].text.upper() == "SYSTEM_TIME" and version.args["kind"] == "AS OF"
        if not is_known or not isinstance(version.expression, exp.Column):
            span = self.span_since(start)
            remedy = "write `FOR SYSTEM_TIME AS OF S.ts`, with the time of a stream, or `AS OF ARRIVAL`"
            self.refuse(f"`{self.sql[span.start : span.end]}`", remedy, span)
        self._take_arrival(version.expression)
        return version

    def _take_arrival(self, time: exp.Column) -> None:
        """Tells the word ARRIVAL, and the stream behind it, from a column."""
        if time.table or time.this.quoted or time.name.upper() != "ARRIVAL":
            return
        time.meta[IS_ARRIVAL] = True
        if self.take("OF"):
            time.set("table", self.name("the stream whose arrival counts,"))

    def _parse_query_modifiers(self, this: Any) -> Any:
        this = super()._parse_query_modifiers(this)
        if isinstance(this, (exp.Select, exp.SetOperation)):
            self._parse_clauses(this)
        return this

    def _parse_set_operations(self, this: exp.Expr | None) -> exp.Expr | None:
        this = super()._parse_set_operations(this)
        if isinstance(this, exp.SetOperation):
            self._hoist_clauses(this)
            self._parse_clauses(this)
        return this

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

    def _hoist_clauses(self, operation: exp.SetOperation) -> None:
        """Clauses after the last SELECT belong to the whole, unless they stand in brackets with it.

        Windows of pairs stay: they name streams of that SELECT.
        """
        last = operation.expression
        while isinstance(last, exp.SetOperation) or (
            isinstance(last, exp.Subquery) and not last.meta.get("is_written")
        ):
            last = last.expression if isinstance(last, exp.SetOperation) else last.this
        if isinstance(last, exp.Select):
            operation.meta.update({name: last.meta.pop(name) for name in _CLAUSES_OF_THE_WHOLE if name in last.meta})

    def _parse_clauses(self, query: exp.Query) -> None:
        while self._is_clause_ahead():
            self._parse_clause(query)
        if self._curr.token_type in _REMEDIES:
            self.refuse_token()
        if self._match_set(_MODIFIERS_THAT_RUN, advance=False) and any(name in query.meta for name in _CLAUSES):
            self.fail("expected `WINDOW` and `EMIT CHANGES` at the end, behind all other clauses,")

    def _is_clause_ahead(self) -> bool:
        words = (self._curr.text.upper(), self._next.text.upper())
        return self.at("WINDOW") or words in _CLAUSE_WORDS

    def _parse_clause(self, query: exp.Query) -> None:
        start = self._index
        if self.take("WITH", "UNBOUNDED"):
            self.expect("STATE")
            query.meta[UNBOUNDED_STATE] = self.span_since(start)
        elif self.take("EMIT", "CHANGES"):
            query.meta["emit_changes"] = self.span_since(start)
        elif self.take("EMIT"):
            if not self.take("FINAL"):
                self.expect("ON", "WINDOW", "CLOSE")
            query.meta["emit_final"] = self.span_since(start)
            close_windows(query)
        else:
            parse_window(self, query)

    def _parse_function(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        if (self.at("WINDOW") or self.at("DWINDOW")) and self.is_bracketed():
            reason = (
                f"a `{self._curr.text.upper()}` is no condition; put it behind all conditions, without an `AND` before"
            )
            raise ParseError(reason, self.sql, self._span_here())
        if is_group_window(self):
            return parse_group_window(self)
        start = self.index
        call = cast("exp.Expr | None", super()._parse_function(*args, **kwargs))  # pyright: ignore
        read = read_foreign(call) if call is not None else None
        if isinstance(read, str):
            raise ParseError(read, self.sql, self.span_since(start))
        return read

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
