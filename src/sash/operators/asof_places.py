"""Where tuples stand in the order of an ASOF join: byte strings, in one order for both sides.

    right tuple    its time | middle | its columns, those first that decide | when it expires
    left tuple     its time | the end, or the beginning if equal times do not match | which one it is

So the partner of a left tuple is the right one that stands last before it, and between right ones of one time the row
itself decides: the greatest, column by column, NULL before all others. Of two zeros, all other columns decide, then the
sign, as everywhere. Tuples have the same string only if nothing tells them apart. Where partners are younger, times are
turned round.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sash.kernels.arrays import Words
from sash.kernels.sort_key_bytes import ENDED, FIXED, LAST
from sash.operators.accumulators.ranked import NULL_BEFORE, append_sort_key
from sash.operators.accumulators.sortable import SIGN_BIT, is_bytes, to_words
from sash.store.float_bits import in_order, to_bits
from sash.store.keys import one_chunk

BEGINNING, MIDDLE, END = 0x00, 0x80, 0xFF
PREFIX_BYTES, LEFT_BYTES = 10, 26


def left_places(times: pa.ChunkedArray, owns: np.ndarray, expires: np.ndarray, marker: int, is_turned: bool) -> Words:
    """The strings of left tuples, whose contents have these numbers; `marker` is the end or the beginning."""
    rows = np.empty((len(owns), LEFT_BYTES), np.uint8)
    rows[:, :PREFIX_BYTES] = _prefixes(times, marker, is_turned)
    rows[:, PREFIX_BYTES:] = np.stack([owns, expires], axis=1).astype(np.int64).view(np.uint8).reshape(-1, 16)
    return np.arange(len(owns) + 1, dtype=np.int64) * LEFT_BYTES, rows.reshape(-1)


def right_places(
    times: pa.ChunkedArray, columns: Sequence[pa.ChunkedArray], expires: np.ndarray, is_turned: bool
) -> Words:
    """The strings of right tuples, none of whose times is NULL; columns are given in the order in which they decide."""
    prefixes = _prefixes(times, MIDDLE, is_turned)
    rows: Words = np.arange(len(expires) + 1, dtype=np.int64) * PREFIX_BYTES, prefixes.reshape(-1)
    floats = [in_order(to_bits(column)) for column in columns if pa.types.is_floating(column.type)]
    for array in (*map(one_chunk, columns), *floats):
        rows = append_sort_key(rows, array, ENDED if is_bytes(array.type) else FIXED, NULL_BEFORE, False)
    return append_sort_key(rows, pa.array(expires), LAST, NULL_BEFORE, False)


def _prefixes(times: pa.ChunkedArray, marker: int, is_turned: bool) -> np.ndarray:
    array = one_chunk(times)
    words = to_words(array)
    big_endian = ((~words if is_turned else words).view(np.uint64) ^ SIGN_BIT).astype(">u8")
    rows = np.empty((len(words), PREFIX_BYTES), np.uint8)
    rows[:, 0] = 1
    rows[:, 1:-1] = big_endian.view(np.uint8).reshape(-1, 8)
    rows[:, -1] = marker
    if array.null_count:
        # Before all right tuples, so that none is a partner.
        rows[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return rows
