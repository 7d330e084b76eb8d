"""Sash's grammar for sqlglot: DuckDB's, as far as it can run, with windows on streams, hints, and EMIT."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar, cast

from sqlglot import Token, TokenType, exp

from sash.errors import ParseError
from sash.sql.cursor import IS_ARRIVAL
from sash.sql.duck_grammar import MODIFIERS_THAT_RUN, DuckParser
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

_CLAUSES_OF_THE_WHOLE = ("window", "emit_changes", UNBOUNDED_STATE)
_CLAUSE_WORDS = (("DWINDOW", "("), ("EMIT", "CHANGES"), ("EMIT", "ON"), ("EMIT", "FINAL"), ("WITH", "UNBOUNDED"))
_CLAUSES = (*_CLAUSES_OF_THE_WHOLE, "pair_windows")
_HINT = re.compile(r"[^\s,(]+(?:\s*\([^)]*\))?")


T = TypeVar("T")


class SashParser(DuckParser):
    """DuckDB's parser with Sash's clauses.

    The tree is sqlglot's own. What sqlglot has no place for is in `meta`: `window` on tables and on SELECTs and set
    operations (a WindowClause), `emit_changes` on the latter two (its Span), `pair_windows` on SELECTs (a tuple of
    ParsedPairWindow); and what `DuckParser` puts there.
    """

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

    def _parse_into(self) -> None:
        if self._match(TokenType.INTO, advance=False):
            self.fail("expected `FROM`, with `INTO` at the end of a CREATE QUERY,")

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
        self.refuse_unknown_clause()
        if self._match_set(MODIFIERS_THAT_RUN, advance=False) and any(name in query.meta for name in _CLAUSES):
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
