"""Joins of Exact with so little memory that all of it is used, and what a misreading of one makes of the same rows."""

from __future__ import annotations

from typing import Any

from sash.papers.exact.exact_index import DiskJoin
from sash.papers.exact.exact_settings import AhEwjSettings, EwjSettings, RpwjSettings
from sash.store.model_disk import DiskModel, ModelDisk
from support.exact_traces import Trace, all_pairs, random_trace, run

EWJ = EwjSettings(r=0.5, delta=0, epoch=1, block_rows=3, memory=12, recent=0.5, frequent=0.25, basic_window=2)
AHEWJ = AhEwjSettings(
    n_part=2, r=0.5, recent=0.6, frequent=0.2, epoch=1, epoch_us=50, slide_us=0, basic_window=2, train=4, block_rows=3,
    memory=30,
)  # fmt: skip
RPWJ = RpwjSettings(n_part=2, slide_us=40, epoch_us=20, m_read=4, h_mark=10**6, block_rows=3, memory=6)
TRACE = random_trace(5, n_rows=900, n_keys=4, window=120)


def fast_disks() -> list[ModelDisk]:
    """Disks that take next to no time."""
    return [ModelDisk(1024, DiskModel(0.0, 0.0, 1e18)) for _ in range(2)]


def misread(part: Any, kind: type) -> None:
    """Changes how a part of a join works."""
    part.__class__ = kind


def wrong(join: DiskJoin, trace: Trace = TRACE) -> tuple[int, int]:
    """How many pairs a join loses, and how many it finds more than once, or that are none."""
    got, pairs = run(join, trace), all_pairs(trace)
    return (pairs - got).total(), (got - pairs).total()
