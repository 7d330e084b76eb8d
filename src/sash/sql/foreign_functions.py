"""Functions that Spark and Flink have and DuckDB has under another name, in DuckDB's words.

A function that DuckDB has too keeps DuckDB's meaning. Each of these is NULL wherever the original is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import cast

from sqlglot import exp

_PATTERN = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<letters>([A-Za-z])\3*)|(?P<other>[^A-Za-z'])")
_LETTERS = {
    "yyyy": "%Y",
    "uuuu": "%Y",
    "y": "%Y",
    "yy": "%y",
    "M": "%-m",
    "MM": "%m",
    "MMM": "%b",
    "MMMM": "%B",
    "d": "%-d",
    "dd": "%d",
    "D": "%-j",
    "DDD": "%j",
    "E": "%a",
    "EEE": "%a",
    "EEEE": "%A",
    "a": "%p",
    "H": "%-H",
    "HH": "%H",
    "h": "%-I",
    "hh": "%I",
    "m": "%-M",
    "mm": "%M",
    "s": "%-S",
    "ss": "%S",
    "SSS": "%g",
    "SSSSSS": "%f",
}
"""What letters of Java's patterns are to DuckDB's strftime."""


class ForeignCall(exp.Anonymous):
    """A call as it was written. For DuckDB its `translation` is rendered."""

    @property
    def translation(self) -> exp.Expr:
        translated = _translate(self)
        assert isinstance(translated, exp.Expr)
        return translated

    def as_written(self) -> exp.Anonymous:
        return exp.Anonymous(this=self.this, expressions=self.expressions)


def read_foreign(call: exp.Expr) -> exp.Expr | str:
    """A call that is told to be foreign if it is; a text says why it cannot run."""
    if not isinstance(call, exp.Anonymous) or call.name.lower() not in _FUNCTIONS:
        return call
    foreign = ForeignCall(this=call.this, expressions=call.expressions)
    translated = _translate(foreign)
    return translated if isinstance(translated, str) else foreign


def _translate(call: exp.Anonymous) -> exp.Expr | str:
    return _FUNCTIONS[call.name.lower()]([each.copy() for each in cast(list[exp.Expr], call.expressions)])


def _date_format(arguments: list[exp.Expr]) -> exp.Expr | str:
    if len(arguments) != 2 or not isinstance(arguments[1], exp.Literal) or not arguments[1].is_string:
        return "`DATE_FORMAT` takes a time and a pattern in quotes, such as `DATE_FORMAT(ts, 'yyyy-MM-dd')`"
    parts = [_format_part(part) for part in _PATTERN.finditer(arguments[1].name)]
    if None in parts or "".join(part[0] for part in _PATTERN.finditer(arguments[1].name)) != arguments[1].name:
        return f"`{arguments[1].name}` is no pattern that can run here; write `strftime(ts, '%Y-%m-%d')`"
    return _call("strftime", arguments[0], exp.Literal.string("".join(part or "" for part in parts)))


def _format_part(part: re.Match[str]) -> str | None:
    if part["letters"]:
        return _LETTERS.get(part["letters"])
    text = part["other"] or (part["quoted"].replace("''", "'") or "'")
    return text.replace("%", "%%")


def _split_index(arguments: list[exp.Expr]) -> exp.Expr | str:
    if len(arguments) != 3:
        return "`SPLIT_INDEX` takes a text, what separates its parts, and the number of a part, the first being 0"
    text, separator, index = arguments
    number = exp.Paren(this=exp.Add(this=exp.Paren(this=index), expression=exp.Literal.number(1)))
    is_there = exp.GTE(this=exp.Paren(this=index.copy()), expression=exp.Literal.number(0))
    return _call(
        "list_extract", _call("string_split", text, separator), exp.Case(ifs=[exp.If(this=is_there, true=number)])
    )


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


_FUNCTIONS: dict[str, Callable[[list[exp.Expr]], exp.Expr | str]] = {
    "date_format": _date_format,
    "split_index": _split_index,
}
