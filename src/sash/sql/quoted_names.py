"""The quoted names in SQL that Sash has written, and how to put something else in their place."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import sqlglot
from sqlglot import TokenType

from sash.sql.dialect import Sash


class QuotedName(NamedTuple):
    """A name, without its quotes, and where it stands with them."""

    name: str
    start: int
    stop: int


def rewrite_names(sql: str, write: Callable[[QuotedName], str]) -> str:
    """An expression in which what `write` makes of each quoted name stands in its place; all else stays as it is."""
    parts: list[str] = []
    end = 0
    for found in quoted_names(sql):
        parts += [sql[end : found.start], write(found)]
        end = found.stop
    return "".join([*parts, sql[end:]])


@lru_cache(maxsize=4096)
def quoted_names(sql: str) -> tuple[QuotedName, ...]:
    """The quoted names in an expression; what looks like one inside a string is none.

    Kept, because of all queries of a group one comes or goes, and the others stay.
    """
    tokens = sqlglot.tokenize(sql, dialect=Sash)
    found = [each for each in tokens if each.token_type == TokenType.IDENTIFIER]
    return tuple(QuotedName(each.text, each.start, each.end + 1) for each in found)
