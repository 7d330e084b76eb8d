"""The words that window clauses and script statements are read with, on top of sqlglot's parser.

A `Cursor` is a DuckDB parser with a public, small vocabulary over its current token, whose errors underline that token,
and whose expressions remember where they stand in the text.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, NoReturn, cast

from sqlglot import Token, TokenType, exp
from sqlglot.errors import ParseError as SqlglotParseError
from sqlglot.parsers.duckdb import DuckDBParser

from sash.errors import BindError, ParseError, PlanError, Span
from sash.sql.parameters import Parameters

# sqlglot does not say what is in the set.
_NO_WORDS = cast(
    frozenset[TokenType],
    DuckDBParser.TEXT_MATCH_EXCLUDED_TOKENS,  # pyright: ignore[reportUnknownMemberType]
)
_HAS_UNIT = re.compile(r"[^\W\d_]")
_SIGNS = {TokenType.DASH: "-", TokenType.PLUS: ""}
IS_ARRIVAL = "is_arrival"
"""Where what stands behind FOR SYSTEM_TIME AS OF has in `meta` that it is the word ARRIVAL, and no column."""


class MisreadError(SqlglotParseError):
    """A syntax error by sqlglot's own rules. Being of its class, it lets sqlglot backtrack and try something else."""

    def __init__(self, reason: str, span: Span):
        super().__init__(reason, errors=[{}])  # sqlglot writes into the first entry when it parses a part on its own
        self.reason = reason
        self.span = span


class Cursor(DuckDBParser):
    """Reads tokens one after the other. Methods that name what they need raise ParseError when it is not there."""

    parameters = Parameters()
    """What `$x` stands for."""

    @property
    def index(self) -> int:
        """The position of the current token, to be given to `span_since`."""
        return self._index

    def span_since(self, index: int) -> Span:
        """The text from the token at `index` up to the last one read."""
        last = max(self._index - 1, index)
        if last >= self._tokens_size:
            return self._span_here()
        return Span(self._tokens[index].start, self._tokens[last].end + 1)

    def at(self, word: str) -> bool:
        """Whether the current token is this keyword or sign; quoted names and strings are neither."""
        if self._curr.token_type in _NO_WORDS:
            return False
        return " ".join(self._curr.text.upper().split()) == word

    def at_string(self) -> bool:
        return self._curr.token_type is TokenType.STRING

    def next_string(self) -> str | None:
        """The string that comes next, which is not read, if one does."""
        return self._curr.text if self.at_string() else None

    def back_to(self, index: int) -> None:
        """Lets what was read since then be read again."""
        self._retreat(index)

    def is_aliased(self) -> bool:
        """Whether AS follows the current token."""
        return self._next.token_type is TokenType.ALIAS

    def is_bracketed(self) -> bool:
        """Whether a round bracket opens after the current token."""
        return self._next.token_type is TokenType.L_PAREN

    def take(self, *words: str) -> bool:
        """Read these words if all of them come next."""
        start = self._index
        for word in words:
            if not self.at(word):
                self._retreat(start)
                return False
            self._advance()
        return True

    def expect(self, *words: str) -> None:
        if not self.take(*words):
            self.fail(f"expected `{' '.join(words)}`")

    def name(self, what: str) -> exp.Identifier:
        """A name, quoted or not."""
        name = self._parse_id_var(any_token=False)
        return name if isinstance(name, exp.Identifier) else self.fail(f"expected {what}")

    def names(self, what: str) -> list[exp.Identifier]:
        """One or more names with commas between them."""
        names = [self.name(what)]
        while self.take(","):
            names.append(self.name(what))
        return names

    def string(self, what: str) -> str:
        if not self.at_string():
            self.fail(f"expected {what}")
        self._advance()
        return self._prev.text

    def word(self, what: str) -> str:
        """Any unquoted word, keywords included."""
        if not self._curr or self.at_string() or not self._curr.text.replace("_", "").isalnum():
            self.fail(f"expected {what}")
        self._advance()
        return self._prev.text

    def at_parameter(self) -> bool:
        return self._curr.token_type is TokenType.PARAMETER and self._curr.text == "$"

    def given(self, what: str, kind: type | tuple[type, ...], example: str) -> Any:
        """The value of the parameter that comes next, which must be of a kind, as is the example."""
        start = self._index
        self._advance()
        name = self.word("the name of a parameter")
        value = self.parameters.value(name, self.sql, self.span_since(start))
        if not isinstance(value, kind) or isinstance(value, bool):
            reason = f"{what} is `${name}`, of the type {type(value).__name__}; give a value like `{example}`"
            raise BindError(reason, self.sql, self.span_since(start))
        return value

    def number(self, what: str) -> Decimal:
        if self.at_parameter():
            return Decimal(self.given(what, int, "5"))
        sign = _SIGNS[self._prev.token_type] if self._match_set(_SIGNS) else ""
        if not self._match(TokenType.NUMBER):
            self.fail(f"expected {what}")
        return Decimal(sign + self._prev.text)

    def number_before(self, word: str) -> Decimal | None:
        """Read a number and the word after it, or nothing at all."""
        start = self._index
        if self.at_parameter() and [each.text.upper() for each in self._tokens[start + 2 : start + 3]] != [word]:
            return None
        if self._match_set(_SIGNS) or self._curr.token_type is TokenType.NUMBER or self.at_parameter():
            self._retreat(start)
            number = self.number("a number")
            if self.take(word):
                return number
        self._retreat(start)
        return None

    def amounts(self) -> str:
        """Numbers with their units, as in `1 HOUR 30 MINUTES`; empty when no number comes next."""
        words: list[str] = []
        while self._curr.token_type is TokenType.NUMBER or self._curr.token_type in _SIGNS:
            words.append(f"{self.number('a number')} {self.word('a unit of time, as in `5 SECONDS`,')}")
        return " ".join(words)

    def fail(self, expectation: str) -> NoReturn:
        """The current token is not what it should be."""
        raise ParseError(f"{expectation} but found {self._found()}", self.sql, self._span_here())

    def refuse(self, clause: str, remedy: str, span: Span | None = None) -> NoReturn:
        """The clause that starts at the current token is SQL that this version does not run."""
        reason = f"{clause} cannot run in this version; {remedy}"
        raise PlanError(reason, self.sql, span or self._span_here())

    def raise_error(self, message: str, token: Token | None = None) -> NoReturn:
        span = Span(token.start, token.end + 1) if token else self._span_here()
        if message.startswith("Invalid expression") and self._prev and self._prev.text.upper() == "WINDOW":
            # Without FROM, sqlglot takes the word for an alias.
            raise MisreadError("expected `FROM` and a stream before `WINDOW`", span)
        raise MisreadError(_reword(message, self._found()), span)

    def _parse_interval(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, match_interval: bool = True
    ) -> exp.Expr | None:
        # sqlglot takes `INTERVAL '1 minute'` for `INTERVAL '1' MINUTE`; DuckDB casts the string.
        is_typed = match_interval and self._match_pair(TokenType.INTERVAL, TokenType.STRING, advance=False)
        if not is_typed or not _HAS_UNIT.search(self._next.text):
            return super()._parse_interval(match_interval)
        self._advance()
        return self.expression(exp.Cast(this=self._parse_string(), to=exp.DataType(this=exp.DType.INTERVAL)))

    def _parse_placeholder(self) -> exp.Expr | None:
        start = self._index
        placeholder = super()._parse_placeholder()
        if not isinstance(placeholder, exp.Placeholder) or self._tokens[start].text == ":":
            return placeholder
        if not placeholder.name.isidentifier():
            self._retreat(start)
            self.refuse("a parameter without a name", "give it one, as in `$x`")
        return self.parameters.expression(placeholder.name, self.sql, self.span_since(start))

    def _parse_unary(self) -> exp.Expr | None:
        return self._covered(super()._parse_unary, ())

    def _parse_range(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        return self._covered(super()._parse_range, args, kwargs)

    def _covered(self, parse: Any, args: tuple[Any, ...], kwargs: Any = None) -> exp.Expr | None:
        # sqlglot gives positions to names and literals only; brackets, CASE … END and the like need theirs as well.
        start = self._index
        node = parse(*args, **(kwargs or {}))
        if isinstance(node, exp.Expr) and self._index > start:
            first, last = self._tokens[start], self._prev
            node.meta["start"] = min(first.start, node.meta.get("start", first.start))
            node.meta["end"] = max(last.end, node.meta.get("end", last.end))
        return node

    def _span_here(self) -> Span:
        if self._curr:
            return Span(self._curr.start, self._curr.end + 1)
        end = self._prev.end + 1 if self._prev else 0
        return Span(end, end + 1)

    def _found(self) -> str:
        return f"`{self._find_sql(self._curr, self._curr)}`" if self._curr else "the end"


def _reword(message: str, found: str) -> str:
    """A syntax error of sqlglot in our words."""
    if message.startswith("Expecting "):
        return f"expected `{message.removeprefix('Expecting ')}` but found {found}"
    if message.startswith("Expected "):
        return f"expected {message.removeprefix('Expected ').split(' but got')[0]} but found {found}"
    if message.startswith("Required "):
        return f"something is missing before {found}"
    if message.startswith("Invalid expression"):
        return f"unexpected {found}"
    return f"{message[:1].lower()}{message[1:]} at {found}"
