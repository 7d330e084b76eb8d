"""A segment that can be probed by each of several keys, and by time.

    segment    | hash of the first key, ts | origins | other keys, expires | payload |      rows in order of that hash
    others     | hash of another key, ts   | row of the segment |             one file for each other key that is probed

Its rows live for an instant as far as probes can see: so a tuple that lives from one time to another joins the rows
that came within it, and nothing else has to be compared. Rows that have no key have one and the same: then they lie in
order of time.

The order of a key costs 24 bytes a row, written once. Without it, whoever probes by that key would read the keys and
times of all rows of the segment, 24 bytes a row, in every step. Keys that rows are only compared by have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sash.kernels.hash_order import order_by_hash
from sash.kernels.hashing import unmix_all
from sash.kernels.segment_join import STORED
from sash.store.segment import WindowSegment
from sash.store.segment_writer import SealedRows, TakeRows, common_life, write_segment
from sash.store.spill_files import SpillFiles

NO_PAYLOAD = pa.table({})


class KeyedRows(NamedTuple):
    """Tuples of a window in order of the log, which is that of time."""

    rows: np.ndarray
    """Their numbers in the log."""
    keys: np.ndarray
    """Side by side, without columns if they have none; those first that are probed by."""
    n_probed: int
    ts: np.ndarray
    expires: np.ndarray


class KeyedSegment(NamedTuple):
    """A segment whose rows have keys, by their place among them."""

    segment: WindowSegment
    life_us: int
    """How long rows are in their window, if all are equally long; then `expires` is not written."""

    def by_key(self, place: int) -> WindowSegment:
        """The rows in order of a key. Of any but the first, `rows_of` tells which they are here."""
        return self.segment if place == 0 else self.segment.others[place - 1]

    def rows_of(self, place: int, found: np.ndarray) -> np.ndarray:
        """The rows that were found in the order of a key."""
        return found.copy() if place == 0 else self.by_key(place).origins(found)

    def keys(self, place: int, rows: np.ndarray) -> np.ndarray:
        if place == 0:
            return unmix_all(self.segment.hashes(rows))
        return self.segment.labels(rows)[:, place - 1].view(np.int64)

    def expires(self, rows: np.ndarray, ts: np.ndarray) -> np.ndarray:
        """When rows leave their window that came at these times."""
        return self.segment.labels(rows)[:, -1].view(np.int64) if self.life_us == STORED else ts + self.life_us


def write_keyed(files: SpillFiles, sealed: KeyedRows, take: TakeRows) -> KeyedSegment:
    """Seals tuples, at least one. If it cannot be written, nothing has changed."""
    life_us, n_keys = common_life(sealed.ts, sealed.expires), sealed.keys.shape[1]
    n_probed = sealed.n_probed
    labels = [sealed.keys[:, place] for place in range(1, n_keys)] + ([sealed.expires] if life_us == STORED else [])
    first_keys = sealed.keys[:, 0].copy() if n_probed else np.zeros(len(sealed.rows), np.int64)
    lines = np.column_stack(labels).view(np.uint64) if labels else None
    instants = sealed.ts + 1
    segment = write_segment(files, SealedRows(sealed.rows, first_keys, sealed.ts, instants, None, lines), take)
    order, _ = order_by_hash(first_keys)
    numbers = np.empty(len(order), np.int64)
    numbers[order] = segment.first + np.arange(len(order))
    others: list[WindowSegment] = []
    try:
        for place in range(1, n_probed):
            own = SealedRows(numbers, sealed.keys[:, place].copy(), sealed.ts, instants)
            others.append(write_segment(files, own, lambda rows, names: NO_PAYLOAD, segment.first))
    except BaseException:
        _free([segment, *others])
        raise
    return KeyedSegment(replace(segment, others=tuple(others)), life_us)


def _free(segments: Sequence[WindowSegment]) -> None:
    for segment in segments:
        segment.free()
