"""Set operations, and the types that two sides of a comparison or operation have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import duckdb
import pyarrow as pa
from sqlglot import exp

from sash.errors import BindError
from sash.sql import duck
from sash.sql.bound_query import Block, BoundQuery, BoundSet, Output
from sash.sql.casts import cast_to
from sash.sql.comparisons import are_comparable, family_of
from sash.sql.expressions import incompatible, span_of
from sash.sql.hashable import check_hashable
from sash.sql.parsed import ParsedSet
from sash.sql.scope import read
from sash.sql.sources import Context, derive

_SIDE = "side"
"""The alias of a block that stands in a SELECT only so that its columns can be cast."""


@dataclass(frozen=True, slots=True)
class CommonType:
    """A type in Arrow's words and in DuckDB's."""

    arrow: pa.DataType
    sql: str


def bind_set(query: ParsedSet, context: Context) -> BoundSet:
    """A set operation over two bound queries of equal columns."""
    name = f"`{query.word}`"
    needs_no_state = query.operation == "union" and query.is_all
    context = context.within(query, None if needs_no_state else name)
    left, right = (context.bind(side, context) for side in (query.left, query.right))
    if len(left.outputs) != len(right.outputs):
        counts = f"{_count(len(left.outputs))} on the left and {_count(len(right.outputs))} on the right"
        reason = f"{name} needs as many columns on both sides, but there are {counts}; list the same number of columns"
        raise BindError(reason, query.text, span_of(query.right.tree))
    types = common_types(left.outputs, right.outputs, query.text)
    left, right = (cast_outputs(replace(side, hints=()), types) for side in (left, right))
    if not needs_no_state:
        check_hashable(left.outputs, name, query.text)
    outputs = [replace(output, expr=exp.column(exp.to_identifier(output.name, quoted=True))) for output in left.outputs]
    return BoundSet(
        text=query.text,
        operation=query.operation,
        is_all=query.is_all,
        left=left,
        right=right,
        outputs=tuple(outputs),
        hints=query.hints,
        emit_changes=query.emit_changes,
        spans=query.spans,
    )


def _count(n_columns: int) -> str:
    return "1 column" if n_columns == 1 else f"{n_columns} columns"


def common_types(left: Sequence[Output], right: Sequence[Output], text: str) -> list[CommonType]:
    """The types that DuckDB would convert both sides to, column by column; BindError where that may fail."""
    return [_common_type(*pair, text) for pair in zip(left, right)]


def compared_types(left: Sequence[Output], right: Sequence[Output], text: str) -> list[CommonType]:
    """The types in which DuckDB compares both sides by `=`, column by column; BindError where that may fail.

    Unlike a set operation and IN, which may round where 38 digits are not enough, `=` keeps the digits of both.
    """
    return [_with_digits(common, *pair) for common, *pair in zip(common_types(left, right, text), left, right)]


def _with_digits(common: CommonType, left: Output, right: Output) -> CommonType:
    if not pa.types.is_decimal(common.arrow):
        return common
    scale = max((side.type.scale for side in (left, right) if pa.types.is_decimal(side.type)), default=0)
    return common if scale <= common.arrow.scale else CommonType(pa.decimal128(38, scale), f"DECIMAL(38,{scale})")


def _common_type(left: Output, right: Output, text: str) -> CommonType:
    sides = [f"SELECT CAST(NULL AS {output.sql_type}) AS value" for output in (left, right)]
    with duck.connect() as connection:
        try:
            relation = connection.sql(" UNION ALL ".join(sides))
            common = CommonType(relation.to_arrow_table().schema.field(0).type, str(relation.types[0]))
        except duckdb.Error:
            common = None
    families = (family_of(duck.type_named(output.sql_type)) for output in (left, right))
    if common is None or not (are_comparable(*families) or common.sql == "VARCHAR"):
        raise BindError(incompatible(left.sql_type, right.sql_type, "mixed"), text, span_of(right.expr))
    return common


def cast_outputs(block: Block, types: Sequence[CommonType]) -> Block:
    """The block with its columns converted to these types."""
    if all(output.sql_type == type_.sql for output, type_ in zip(block.outputs, types)):
        return block
    if isinstance(block, BoundSet) or block.is_distinct or block.ranking:
        # Rows are told apart before they are converted, which may make some of them equal.
        block = select_from(block, block.outputs)
    return replace(block, outputs=tuple(cast(output, type_) for output, type_ in zip(block.outputs, types)))


def cast(output: Output, type_: CommonType) -> Output:
    """The output, converted where it is of another type."""
    if output.sql_type == type_.sql:
        return output
    return replace(output, expr=cast_to(output.expr, type_.sql), type=type_.arrow, sql_type=type_.sql)


def select_from(block: Block, outputs: Sequence[Output], alias: str = _SIDE) -> BoundQuery:
    """A SELECT of some columns of a block and nothing else."""
    source = derive(block, alias)
    columns = [replace(output, expr=read(source, output.name)) for output in outputs]
    return BoundQuery(
        text=block.text, sources=(source,), outputs=tuple(columns), conjuncts=(), spans={"from": source.span}
    )
