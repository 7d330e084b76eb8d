"""Text to statements. Whatever is wrong with the text, what is raised is an error of ours that underlines it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar, cast

from sqlglot.errors import TokenError

from sash.errors import ParseError, SashError, Span
from sash.sql.cursor import MisreadError
from sash.sql.dialect import Sash
from sash.sql.grammar import SashParser
from sash.sql.parameters import Parameters, Values
from sash.sql.parsed import ParsedQuery
from sash.sql.statements import CreateQuery, Statement, parse_statement

_UNNAMED = "query"
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
T = TypeVar("T")


def parse_script(text: str, params: Values | None = None) -> tuple[Statement, ...]:
    """The statements of a script, in order. Names are unique without regard to case; bare SELECTs were given one.

    `params` are the values of its parameters, by name.
    """
    statements = _parse_statements(text, params)
    _refuse_duplicates(statements, text)
    return tuple(_name_queries(statements))


def parse_query(text: str, params: Values | None = None) -> ParsedQuery:
    """The one query that `text` must be, with the values of its parameters. Its `tree` is sqlglot's."""
    statements = _parse_statements(text, params)
    if not statements:
        raise ParseError("the query is empty; write a `SELECT`")
    first, *others = statements
    if not isinstance(first, CreateQuery) or first.name:
        raise ParseError("expected `SELECT` but found `CREATE`, which belongs in a script", text, first.span)
    if others:
        raise ParseError("expected one `SELECT` but found a second statement; remove it", text, others[0].span)
    if first.into:
        raise ParseError("`INTO` belongs to a script's CREATE QUERY; remove it", text, first.into.span)
    return first.select


def _parse_statements(text: str, params: Values | None) -> list[Statement]:
    if not isinstance(cast(object, text), str):
        raise ParseError(f"the query is a {type(text).__name__}; give its text")
    if strange := _NO_TEXT.search(text):
        reason = f"the text holds {strange[0]!a}, which is no character; remove it"
        raise ParseError(reason, text, Span(*strange.span()))
    tokens = _guard(lambda: Sash().tokenize(text), text)
    parser = Sash().parser()
    assert isinstance(parser, SashParser)
    parser.parameters = Parameters(params)
    statements = _guard(lambda: parser.statements(tokens, text, parse_statement), text)
    parser.parameters.refuse_unused()
    return statements


def _guard(step: Callable[[], T], text: str) -> T:
    """Run a step of sqlglot, turning its errors into ours."""
    try:
        return step()
    except SashError:
        raise
    except MisreadError as error:
        raise ParseError(error.reason, text, error.span) from None
    except TokenError as error:
        raise _unclosed(error, text) from None
    except RecursionError:
        raise ParseError("the text is nested too deeply; take some parentheses away") from None
    except Exception as error:
        # sqlglot's parser is lenient, and on some malformed texts trips over its own leniency (AttributeError …).
        raise ParseError(f"the text cannot be read as SQL ({type(error).__name__} in the parser)") from error


def _unclosed(error: TokenError, text: str) -> ParseError:
    """The tokenizer fails on a quote or comment that is never closed. Of a quote, the cause says where it opened."""
    quote = re.search(r"Missing (.+) from \d+:(\d+)$", str(error.__cause__))
    closing, start = (quote[1], int(quote[2])) if quote else ("*/", text.rfind("/*"))
    if start < 0:
        return ParseError("the text cannot be split into words", text, Span(error.start or 0, error.end or 1))
    return ParseError(f"there is no closing `{closing}`; add it", text, Span(start, start + len(closing)))


def _refuse_duplicates(statements: list[Statement], text: str) -> None:
    seen: set[str] = set()
    for statement in statements:
        name = statement.name.lower()
        if name and name in seen:
            raise ParseError(f"`{statement.name}` is created twice; rename one", text, statement.span)
        seen.add(name)


def _name_queries(statements: list[Statement]) -> Iterator[Statement]:
    """Bare SELECTs are called `query`, `query_2` …, past the names that are taken."""
    taken = {statement.name.lower() for statement in statements}
    n_unnamed = 0
    for statement in statements:
        while not statement.name:
            n_unnamed += 1
            name = _UNNAMED if n_unnamed == 1 else f"{_UNNAMED}_{n_unnamed}"
            statement = statement if name in taken else replace(statement, name=name)
        yield statement
