"""When rows of a table are valid, as CREATE TABLE says it:

VALID FROM since TO until       two columns; a NULL in one is no bound
VALID FROM since KEY (item)     until the next row with this key; that becomes a column, `valid_to`
"""

from __future__ import annotations

import pyarrow as pa

from sash.errors import BindError, ParseError
from sash.sql.catalog import Validity
from sash.sql.declared_columns import check_is_time, declared_name
from sash.sql.expressions import span_of
from sash.sql.grammar import SashParser
from sash.store.keys import is_hashable

VALID_TO = "valid_to"


def parse_validity(parser: SashParser, schema: pa.Schema) -> Validity:
    """What stands behind VALID."""
    parser.expect("FROM")
    start = _parse_time(parser, schema, "since when a row is valid")
    if parser.take("TO"):
        return Validity(start, _parse_time(parser, schema, "until when a row is valid"))
    if not parser.at("KEY"):
        parser.fail("expected `TO` and a column, or `KEY` and columns in brackets,")
    return Validity(start, VALID_TO, _parse_key(parser, schema))


def seen_schema(schema: pa.Schema, validity: Validity | None) -> pa.Schema:
    """The columns of a table as queries see them, with the one that says until when a row is valid."""
    if validity is None or not validity.key:
        return schema
    return schema.append(pa.field(validity.end, schema.field(validity.start).type))


def _parse_time(parser: SashParser, schema: pa.Schema, what: str) -> str:
    column = parser.name(f"the column that says {what},")
    name = declared_name(column, schema, parser.sql)
    check_is_time(column, schema.field(name), None, parser.sql)
    return name


def _parse_key(parser: SashParser, schema: pa.Schema) -> tuple[str, ...]:
    start = parser.index
    parser.expect("KEY")
    parser.expect("(")
    names: list[str] = []
    for column in parser.names("a column of the key"):
        name = declared_name(column, schema, parser.sql)
        if not is_hashable(schema.field(name).type):
            reason = f"`{name}` is {schema.field(name).type}, which cannot be a key; take a part of it"
            raise BindError(reason, parser.sql, span_of(column))
        names.append(name)
    parser.expect(")")
    if VALID_TO in map(str.lower, schema.names):
        reason = f"there is a column `{VALID_TO}` already; write `TO {VALID_TO}` instead, or rename it"
        raise ParseError(reason, parser.sql, parser.span_since(start))
    return tuple(names)
