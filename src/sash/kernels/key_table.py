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

import numpy as np

from sash.kernels.hashing import mix64
from sash.kernels.jit import inlined_kernel, kernel

HASH, ID = 0, 1
SLOT_WIDTH = 2


@inlined_kernel
def _home_of(hash, n_slots):
    return np.int64(mix64(hash) & np.uint64(n_slots - 1))


@kernel
def match(hashes, pending, at, slots, n_ids, n_new, adds, out, firsts, places):
    """The next id with the same hash for each of the `pending` rows, in `out`; -1 if there is none left.

    `at` is where each row's search goes on, -1 before it has begun. If `adds`, a row without a candidate becomes a new
    id: `n_ids + i` has the row `firsts[i]` and the slot `places[i]`. Returns how many new ids there are now.
    """
    n_slots = slots.shape[0]
    for k in range(pending.shape[0]):
        row = pending[k]
        hash = hashes[row]
        slot = at[row]
        if slot < 0:
            slot = _home_of(hash, n_slots)
        while slots[slot, ID] >= 0 and slots[slot, HASH] != hash:
            slot = (slot + 1) & (n_slots - 1)
        out[row] = slots[slot, ID]
        at[row] = (slot + 1) & (n_slots - 1)
        if adds and out[row] < 0:
            slots[slot, HASH] = hash
            slots[slot, ID] = n_ids + n_new
            out[row] = n_ids + n_new
            firsts[n_new] = row
            places[n_new] = slot
            n_new += 1
    return n_new


@kernel
def fill(hashes, first, last, skipped, slots):
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
