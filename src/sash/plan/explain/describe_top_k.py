"""What EXPLAIN says of the first rows of partitions: which, and in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sash.operators.accumulators.manner import SortKey
from sash.operators.top_k import TopKSpec
from sash.plan.explain.meanings import column_text


def kept_text(spec: TopKSpec, known: Mapping[str, str]) -> str:
    """`the first 3 by A.v DESC, for each A.k`."""
    last, what = spec.last - spec.first, {"rank": " and their equals", "dense_rank": " classes of equals"}
    rows = f"the first {last}{what.get(spec.function, '')}" if last > 1 or spec.function in what else "the first row"
    if spec.first:
        rows = f"{last}{what.get(spec.function, '')} behind the first {spec.first}"
    by = f" by {sort_text(spec.order, known)}" if spec.order else ""
    each = (
        f", for each {', '.join(column_text(name, known) for name in spec.partition_by)}" if spec.partition_by else ""
    )
    return f"{rows}{by}{each}"


def sort_text(order: Sequence[tuple[str, SortKey]], known: Mapping[str, str]) -> str:
    """`A.v DESC, A.w`."""
    return ", ".join(
        f"{column_text(name, known)}{' DESC' if key.is_descending else ''}{' NULLS FIRST' if key.nulls_first else ''}"
        for name, key in order
    )


def ties_text(spec: TopKSpec, known: Mapping[str, str]) -> str:
    """By what rows are placed that the order leaves equal."""
    ordered = [name for name, _ in spec.order]
    names = [column_text(name, known) for name in spec.columns if name not in (*ordered, *spec.partition_by)]
    return ", then ".join([*names, "when they expire"])
