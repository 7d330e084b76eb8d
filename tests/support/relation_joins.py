"""Relations and streams for the joins with a relation on disk, and all pairs that they make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from sash.papers.exact.inl_join import InlJoin
from sash.papers.exact.mesh_join import MeshJoin
from sash.papers.exact.partitioned_join import PartitionedJoin
from sash.papers.exact.relation_segments import RelationRows, relation_rows, stream_tuples
from sash.papers.exact.relation_settings import InlSettings, MeshSettings, PartitionedSettings, RelationSettings
from sash.papers.exact.work_clock import FoundPairs, WorkClock

Keys: TypeAlias = Sequence[int | None]
RelationJoin: TypeAlias = PartitionedJoin | MeshJoin | InlJoin
Pairs: TypeAlias = Counter[tuple[int, int]]


def make_relation_join(
    settings: RelationSettings, relation: Keys | RelationRows, clock: WorkClock | None = None
) -> RelationJoin:
    rows = relation if isinstance(relation, RelationRows) else as_relation(relation)
    if isinstance(settings, PartitionedSettings):
        return PartitionedJoin(settings, rows, clock=clock)
    return (
        MeshJoin(settings, rows, clock=clock)
        if isinstance(settings, MeshSettings)
        else InlJoin(settings, rows, clock=clock)
    )


def as_relation(keys: Keys) -> RelationRows:
    return relation_rows(pa.array(keys, pa.int64()))


def as_stream(keys: Keys, times: Iterable[int] | None = None, first_row: int = 0) -> np.ndarray:
    """Tuples at these times, or at 0, 1, 2 and so on."""
    times_us = np.arange(len(keys)) if times is None else np.array(list(times), np.int64)
    return stream_tuples(pa.array(keys, pa.int64()), times_us, first_row)


def all_partners(stream: Keys, relation: Keys) -> Pairs:
    """By brute force: equal keys, none of which is NULL."""
    return Counter(
        (one, other) for one, a in enumerate(stream) for other, b in enumerate(relation) if a is not None and a == b
    )


def count_pairs(chunks: Iterable[FoundPairs]) -> Pairs:
    """Pairs of chunks, and how often each was found."""
    pairs: Pairs = Counter()
    for chunk in chunks:
        pairs.update(zip(chunk.left.tolist(), chunk.right.tolist()))
    return pairs


def times_of(chunks: Iterable[FoundPairs]) -> dict[tuple[int, int], float]:
    """When each pair was found."""
    found = [each for chunk in chunks for each in zip(chunk.left.tolist(), chunk.right.tolist(), chunk.at_us.tolist())]
    return {(left, right): at_us for left, right, at_us in found}


@st.composite
def some_keys(draw: st.DrawFn, max_size: int = 60) -> list[int | None]:
    """Few keys or many, some far away, some NULL, one perhaps very often."""
    least, n_keys = draw(st.sampled_from([(0, 3), (-5, 12), (0, 200), (-(2**63), 4), (2**63 - 5, 5)]))
    near = st.integers(least, least + n_keys - 1)
    far = st.sampled_from([-(2**63), -1, 0, 10**6, 2**63 - 1])
    keys: list[int | None] = draw(st.lists(st.one_of(near, near, near, far, st.none()), max_size=max_size))
    hot = draw(st.lists(st.just(draw(near)), max_size=20))
    return draw(st.permutations(keys + hot)) if hot else keys


@st.composite
def partitioned_settings(draw: st.DrawFn) -> PartitionedSettings:
    """The largest segment has 80 rows, one of a key alone, and is to fit."""
    block_rows, wait = draw(st.integers(1, 5)), draw(st.integers(1, 8))
    l_mark = draw(st.integers(0, 2))
    return PartitionedSettings(
        partitioning=draw(st.sampled_from(["hash", "range"])),
        n_part=draw(st.integers(1, 7)),
        theta=draw(st.integers(1, 12)),
        max_levels=draw(st.integers(0, 8)),
        rho=draw(st.sampled_from([0.0, 0.25, 2.0])),
        alpha=draw(st.sampled_from([0.1, 0.3, 1.0])),
        epoch=draw(st.integers(1, 12)),
        r_wb=draw(st.sampled_from([0.0, 0.4, 0.9])),
        n_invoke=draw(st.integers(1, 8)),
        is_eager=draw(st.booleans()),
        max_wait_us=draw(st.one_of(st.none(), st.integers(0, 30))),
        h_mark=l_mark + draw(st.integers(0, 3)),
        l_mark=l_mark,
        memory=wait + 80 // block_rows + 1 + draw(st.integers(0, 20)),
        wait=wait,
        basic_window=draw(st.integers(1, 4)),
        stream_rows=draw(st.integers(1, 4)),
        block_rows=block_rows,
    )


@st.composite
def mesh_settings(draw: st.DrawFn) -> MeshSettings:
    read = draw(st.integers(1, 5))
    return MeshSettings(
        read=read,
        n_bucket=draw(st.integers(1, 7)),
        memory=read + 80 + draw(st.integers(0, 60)),
        stream_rows=draw(st.integers(1, 4)),
        block_rows=draw(st.integers(1, 5)),
    )


@st.composite
def inl_settings(draw: st.DrawFn) -> InlSettings:
    return InlSettings(
        fan_out=draw(st.integers(2, 5)), memory=draw(st.integers(1, 12)), block_rows=draw(st.integers(1, 5))
    )


def any_relation_settings() -> st.SearchStrategy[RelationSettings]:
    return st.one_of(partitioned_settings(), partitioned_settings(), mesh_settings(), inl_settings())
