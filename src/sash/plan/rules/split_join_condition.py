"""Takes the equalities that connect two inputs out of a join's condition: they become hash keys."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from sash.plan.column_names import column_name, common_type, sql_type_of, type_of
from sash.plan.logical import Join, Scan, Select, aliases_of, map_joins, map_scans, padded_aliases
from sash.sql.bound_query import BoundQuery
from sash.sql.casts import cast_to, without_read
from sash.store.keys import is_hashable


@dataclass(frozen=True, slots=True)
class Key:
    """An equality between the two inputs of a join, with both sides in the type they are compared in."""

    sides: tuple[exp.Expr, exp.Expr]
    is_cast: bool


def split_join_condition(query: Select) -> Select:
    """Equalities of plain columns of one type become keys as they are; other expressions get a computed column.

    Where the two types differ the equality itself stays as well: the key then only finds the candidates.
    """
    return replace(query, input=map_joins(query.input, lambda join: _split(join, query.bound)))


def _split(join: Join, bound: BoundQuery) -> Join:
    found = [(conjunct, _as_key(conjunct, join, bound)) for conjunct in join.conjuncts]
    residual = tuple(conjunct for conjunct, key in found if key is None or key.is_cast)
    names: list[tuple[str, str]] = []
    for _, key in found:
        if key is not None:
            pair: list[str] = []
            for side, expr in enumerate(key.sides):
                join, name = _with_column(join, side, expr, f"_key{len(names)}.{join.right.source.alias}")
                pair.append(name)
            names.append((pair[0], pair[1]))
    return replace(join, conjuncts=residual, keys=tuple(names))


def _as_key(conjunct: exp.Expr, join: Join, bound: BoundQuery) -> Key | None:
    if not isinstance(conjunct, exp.EQ) or conjunct.find(exp.Collate):
        return None  # keys are compared by their bytes
    inputs = aliases_of(join.left), aliases_of(join.right)
    sides = conjunct.this, conjunct.expression
    for left, right in (sides, sides[::-1]):
        reads = aliases_of(left), aliases_of(right)
        if all(read and read <= side for read, side in zip(reads, inputs, strict=True)):
            return _typed_key(left, right, bound)
    return None


def _typed_key(left: exp.Expr, right: exp.Expr, bound: BoundQuery) -> Key | None:
    is_cast = sql_type_of(left, bound) != sql_type_of(right, bound)
    if is_cast:
        name = common_type(left, right, bound)
        if name is None:
            return None
        left, right = cast_to(left, name), cast_to(right, name)
    return Key((left, right), is_cast) if is_hashable(type_of(left, bound)) else None


def _with_column(join: Join, side: int, expr: exp.Expr, name: str) -> tuple[Join, str]:
    """The join with the expression as a column of one of its inputs, and that column's name."""
    column = without_read(expr)
    if isinstance(column, exp.Column):
        return join, column_name(column)
    name = f"{name}.{'left' if side == 0 else 'right'}"
    read = aliases_of(expr)

    def compute(scan: Scan) -> Scan:
        return replace(scan, computed=(*scan.computed, (name, expr))) if read == aliases_of(scan) else scan

    if side == 1:
        return replace(join, right=compute(join.right)), name
    if len(read) == 1 and not read & padded_aliases(join.left):
        return replace(join, left=map_scans(join.left, compute)), name
    return replace(join, computed=(*join.computed, (name, expr))), name
