"""Finds the first rows of partitions where a subquery numbers rows and a condition outside keeps the first numbers."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sash.operators.row_frames import RANKS
from sash.plan.logical import Scan, Select, map_scans, scans_of
from sash.plan.rules.prune_columns import prune_columns
from sash.sql.bound_over import OVER
from sash.sql.bound_query import Ranking
from sash.sql.casts import without_read
from sash.sql.rank_conditions import bounds_of

_MOST = 1 << 31


def keep_first_numbered(query: Select) -> Select:
    """`SELECT … FROM (SELECT *, ROW_NUMBER() OVER (…) AS n FROM …) WHERE n <= 3` keeps three rows of each partition.

    They are numbered if the number is read elsewhere; what comes behind the last of them makes no difference to it.
    """
    for scan in scans_of(query.input):
        for condition in scan.conjuncts:
            if (ranking := _find_ranking(scan, condition)) is not None:
                query = _keep_first(query, scan, condition, ranking)
                break
    return query


def _find_ranking(scan: Scan, condition: exp.Expr) -> Ranking | None:
    """What a condition keeps of a subquery that does nothing but number rows, in one order."""
    over = scan.body.bound.over if isinstance(scan.body, Select) and scan.body.bound.ranking is None else None
    found = bounds_of(condition, exp.Column)
    if over is None or found is None or len(over.windows) != 1:
        return None
    (window,), (column, first, last) = over.windows, found
    functions = dict(window.functions)
    number = _number_of(scan, column.name)
    if number is None or any(each.function not in RANKS for each in functions.values()):
        return None
    if not first < last < _MOST:
        return None
    return Ranking(
        clause="`OVER`",
        function=functions[number].function,
        partition_by=window.partition_by,
        order=window.order,
        columns=over.columns,
        first=first,
        last=last,
    )


def _number_of(scan: Scan, name: str) -> int | None:
    """Which function a column of a subquery is."""
    assert isinstance(scan.body, Select)
    expr = next((without_read(output.expr) for output in scan.body.outputs if output.name == name), None)
    return int(expr.name) if isinstance(expr, exp.Column) and expr.table == OVER else None


def _keep_first(query: Select, scan: Scan, condition: exp.Expr, ranking: Ranking) -> Select:
    body = scan.body
    assert isinstance(body, Select)
    others = tuple(each for each in scan.conjuncts if each is not condition)
    plain = prune_columns(_with_scan(query, replace(scan, conjuncts=others)))
    (columns,) = (each.columns for each in scans_of(plain.input) if each.source.alias == scan.source.alias)
    kept = tuple(output for output in body.outputs if not _is_numbered(output.expr))
    is_exact = ranking.function == "row_number" or not ranking.first
    if is_exact and kept and not body.bound.is_distinct and set(columns) <= {output.name for output in kept}:
        bound = replace(body.bound, over=None, ranking=ranking, outputs=kept)
        body = replace(body, outputs=kept, bound=bound)
        return _with_scan(query, replace(scan, body=body, conjuncts=others, columns=columns))
    body = replace(body, bound=replace(body.bound, ranking=replace(ranking, first=0)))
    return _with_scan(query, replace(scan, body=body))


def _with_scan(query: Select, scan: Scan) -> Select:
    """The query with another scan under an alias that it has."""
    return replace(
        query,
        input=map_scans(query.input, lambda each: scan if each.source.alias == scan.source.alias else each),
    )


def _is_numbered(expr: exp.Expr) -> bool:
    return any(column.table == OVER for column in expr.find_all(exp.Column))
