"""Parameters: `$x` in a query stands for a value that is given beside the text, and never becomes text.

    sash.sql("SELECT * FROM trades WHERE price > $least", params={"least": 5.0}, trades=trades)

A value of Python has the type of SQL that it would have in a prepared statement of DuckDB; a string, like one that is
written, fits whatever it is compared with.
"""

from __future__ import annotations

import datetime
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias, cast

import duckdb
from sqlglot import exp

from sash.errors import BindError, PlanError, Span, suggest
from sash.sql import duck
from sash.sql.casts import cast_to

Values: TypeAlias = Mapping[str, Any]
"""What parameters stand for, by name. SQL matches names without regard to case."""
PARAMETER = "parameter"
"""Where an expression has in `meta` the name of the parameter that it is the value of."""

_INTEGERS = (("INTEGER", 31), ("BIGINT", 63), ("HUGEINT", 127))
_CASTS: tuple[tuple[type, str, Callable[[Any], str]], ...] = (
    (float, "DOUBLE", repr),
    (datetime.date, "DATE", str),
    (datetime.time, "TIME", str),
    (datetime.timedelta, "INTERVAL", lambda value: f"{value // datetime.timedelta(microseconds=1)} microseconds"),
    (uuid.UUID, "UUID", str),
    (bytes, "BLOB", lambda value: "".join(f"\\x{byte:02X}" for byte in value)),
)
_WRITTEN = re.compile(r"(?i)(DATE|TIMESTAMP|TIMESTAMPTZ|TIME|INTERVAL|UUID)\s*'[^']*'|'(?:[^']|'')*'|TRUE|FALSE|NULL")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?")
_FLOAT = re.compile(r"(?i)[-+]?(\d+(\.\d*)?|\.\d+)e[-+]?\d+|[-+]?\.\d+")


class Parameters:
    """The values that a text may use, and which of them it has used."""

    def __init__(self, values: Values | None = None):
        if not isinstance(cast(object, values or {}), Mapping):
            kind = type(values).__name__
            raise BindError(f"`params` is a {kind}; give a dictionary of values by name, as in `params={{'x': 5}}`")
        self._values = {name.lower(): value for name, value in (values or {}).items()}
        if len(self._values) < len(values or {}):
            raise PlanError("two parameters have names that differ in case alone, which are one to SQL; rename one")
        self._used: set[str] = set()

    def value(self, name: str, text: str, span: Span) -> Any:
        """What was given for a name."""
        if name.lower() not in self._values:
            known = f"; {suggest(name, self._values)}" if self._values else ""
            remedy = f"give it one, as in `params={{'{name}': 5}}` or `--param {name}=5`"
            raise BindError(f"the parameter `${name}` has no value{known or f'; {remedy}'}", text, span)
        self._used.add(name.lower())
        return self._values[name.lower()]

    def expression(self, name: str, text: str, span: Span) -> exp.Expr:
        """The same as a constant of the query."""
        value = self.value(name, text, span)
        if isinstance(value, str) and (strange := _SURROGATE.search(value)):
            raise BindError(f"`${name}` holds {strange[0]!a}, which is no character; remove it", text, span)
        constant = to_constant(value)
        if constant is None and isinstance(value, int):
            raise BindError(f"`${name}` is beyond the integers of SQL, which have 128 bits; give a float", text, span)
        if constant is None:
            reason = f"`${name}` is of the type {type(value).__name__}, of which SQL has no values"
            raise BindError(f"{reason}; give a number, string or time", text, span)
        constant.meta[PARAMETER] = name
        return constant

    def refuse_unused(self) -> None:
        """Whoever gives a value that the text does not ask for has most likely mistyped a name."""
        for name in sorted(self._values.keys() - self._used):
            known = f"; did you mean one of {', '.join(f'`${each}`' for each in sorted(self._used))}?"
            raise BindError(f"the text has no parameter `${name}`{known if self._used else '; leave it out'}")


def to_constant(value: Any) -> exp.Expr | None:
    """A value of Python as an expression of its type; None if SQL has no such value."""
    value = value.item() if hasattr(value, "item") and not isinstance(value, (str, bytes)) else value
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, str):
        return exp.Literal.string(value)
    if isinstance(value, int):
        type_ = next((name for name, bits in _INTEGERS if -(2**bits) <= value < 2**bits), None)
        return None if type_ is None else cast_to(exp.Literal.string(str(value)), type_)
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, (list, tuple)):
        items = [to_constant(item) for item in cast(Sequence[Any], value)]
        return None if None in items else exp.Array(expressions=items)
    if isinstance(value, datetime.datetime):
        type_ = "TIMESTAMP" if value.tzinfo is None else "TIMESTAMPTZ"
        return cast_to(exp.Literal.string(value.isoformat(" ")), type_)
    for kind, type_, write in _CASTS:
        if isinstance(value, kind):
            return cast_to(exp.Literal.string(write(value)), type_)
    return None


def without_cast(expr: exp.Expr) -> exp.Expr:
    """What an integer that was given for a parameter is as a literal; any other expression as it is."""
    is_given = PARAMETER in expr.meta and isinstance(expr, exp.Cast)
    return expr.this if is_given and expr.args["to"].sql(dialect="duckdb") in ("INTEGER", "BIGINT") else expr


def _decimal(value: Decimal) -> exp.Expr | None:
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return None
    scale = max(-exponent, 0)
    width = max(len(digits) + max(exponent, 0), scale, 1)
    return None if width > 38 else cast_to(exp.Literal.string(f"{value:f}"), f"DECIMAL({width},{scale})")


def read_values(written: list[str]) -> dict[str, Any]:
    """Parameters of a command line, `x=1` each.

    A value is a number, TRUE, FALSE, NULL, a time such as `DATE '2026-01-31'`, or a string, in quotes or not.
    """
    values: dict[str, Any] = {}
    for each in written:
        name, equals, value = each.partition("=")
        name = name.strip().removeprefix("$")
        if not equals or not name.isidentifier():
            raise PlanError(f"`--param {each}` gives no parameter a value; write it as `--param x=5`")
        values[name] = _read_value(value.strip(), each)
    return values


def _read_value(text: str, each: str) -> Any:
    if _NUMBER.fullmatch(text):
        return Decimal(text) if "." in text else int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if not _WRITTEN.fullmatch(text):
        return text
    with duck.connect() as connection:
        try:
            return connection.execute(f"SELECT {text}").fetchall()[0][0]
        except duckdb.Error:
            raise PlanError(f"`--param {each}` gives a time that is none; write it as `DATE '2026-01-31'`") from None
