"""An open-addressing hash table from 64-bit hashes to ids, where several ids may share a hash.

    slots   HASH  ID
            [ .   -1]     empty: a search ends here
            [h1    4]
            [h2    0]  <- home of h2
            [h2    7]     another key with the same hash: the next candidate

Slots are a power of two, at most half of them are taken, and none is ever emptied: a search that has passed a slot
need not look at it again, whatever is added meanwhile.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.kernels.arrays import Int64s
from sash.kernels.hashing import mix64
from sash.kernels.jit import borrowing_kernel, inlined_kernel

HASH, ID = 0, 1
SLOT_WIDTH = 2


class KeySearch(NamedTuple):
    """Rows that look for their ids: the hash of each, where its search goes on, -1 before it has begun, and its id."""

    hashes: Int64s
    at: Int64s
    ids: Int64s


class NewIds(NamedTuple):
    """Of each new id its row and its slot."""

    rows: Int64s
    places: Int64s


@inlined_kernel
def _home_of(hash: int, n_slots: int) -> np.int64:
    return np.int64(mix64(hash) & np.uint64(n_slots - 1))


@borrowing_kernel
def match(pending: Int64s, search: KeySearch, slots: Int64s, n_ids: int, n_new: int, adds: bool, new: NewIds) -> int:
    """The next id with the same hash for each of the `pending` rows; -1 if there is none left.

    If `adds`, a row without a candidate becomes a new id: `n_ids + i` is the i-th of the new ones. Returns how many new
    ids there are now.
    """
    (hashes, at, out), (firsts, places) = search, new
    n_slots = slots.shape[0]
    for k in range(pending.shape[0]):
        # 1. On from where the last round ended, to a slot with this hash or to the end of the search.
        row = pending[k]
        hash = hashes[row]
        slot = at[row]
        if slot < 0:
            slot = _home_of(hash, n_slots)
        while slots[slot, ID] >= 0 and slots[slot, HASH] != hash:
            slot = (slot + 1) & (n_slots - 1)
        out[row] = slots[slot, ID]
        at[row] = (slot + 1) & (n_slots - 1)
        # 2. Rows with the same hash come to this slot next, those of this very call included.
        if adds and out[row] < 0:
            slots[slot, HASH] = hash
            slots[slot, ID] = n_ids + n_new
            out[row] = n_ids + n_new
            firsts[n_new] = row
            places[n_new] = slot
            n_new += 1
    return n_new


@borrowing_kernel
def fill(hashes: Int64s, first: int, last: int, skipped: int, slots: Int64s) -> None:
    """Puts the ids `first..last-1` into slots; but not `skipped`."""
    n_slots = slots.shape[0]
    for id in range(first, last):
        if id == skipped:
            continue
        slot = _home_of(hashes[id], n_slots)
        while slots[slot, ID] >= 0:
            slot = (slot + 1) & (n_slots - 1)
        slots[slot, HASH] = hashes[id]
        slots[slot, ID] = id
