"""What changes amount to. Each of them stands for some time:

    rows are counted     a [1, 5)                 a change counts, as often as its `_op` says, from its `_ts` until its
      +1 a  1  5         b [2, …) - b [3, …)      `_expires`; so a -1 row ends the life of one like it
      +1 b  2
      -1 b  3
    rows are replaced    (a, 1) [1, 4)            a change counts from its `_ts` until the next one of its group, unless
      +1 a 1  1          (a, 2) [4, 6)            its `_op` is -1
      +1 a 2  4
      -1 a    6

    Law:  the answer at T is every row, as often as the changes that stand at T add up to.

A change without `_ts` stands since the beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sash.errors import SourceError
from sash.operators.changes import read_times
from sash.store.batch import BEGINNING, EXPIRES, NEVER, OP, TS
from sash.store.key_index import KeyIndex, one_zero_one_nan
from sash.store.keys import hashable, one_chunk
from sash.store.row_match import match_rows

SYSTEM = (OP, TS, EXPIRES)


class Lives(NamedTuple):
    """By change, from when until before when it counts, and how often."""

    since: np.ndarray
    until: np.ndarray
    counts: np.ndarray


def lives_of(changes: pa.Table, replaced_by: Sequence[str] | None, looks_ahead: bool = True) -> Lives:
    """How long each change stands. `replaced_by` are the columns that tell which older row a row replaces; None: rows
    are counted, and if not `looks_ahead`, `_expires` is not looked at.
    """
    counts = one_chunk(changes.column(OP)).to_numpy(zero_copy_only=False)
    since = times_of(changes, TS, BEGINNING)
    if replaced_by is not None:
        return Lives(since, _next_of_group(changes.select(list(replaced_by)), since), np.maximum(counts, 0))
    until = times_of(changes, EXPIRES, NEVER) if looks_ahead else np.full(changes.num_rows, NEVER)
    return Lives(since, until, counts)


def find_living(changes: pa.Table, instant: int, replaced_by: Sequence[str] | None) -> np.ndarray:
    """The places of the rows that are in the answer at an instant, each as often as it is there, in their order.

    Of equal rows of which some were taken back, the newest are left. Raises SourceError if more are taken back than
    there are.
    """
    since, until, counts = lives_of(changes, replaced_by)
    places = np.flatnonzero((since <= instant) & (until > instant) & (counts != 0))
    if not len(places) or counts[places].min() > 0:
        return places
    content = changes.drop_columns(list(SYSTEM))
    left, entered = places[counts[places] < 0], places[counts[places] > 0]
    # To the bit first: where -0.0 and 0.0 are both there, the right one is to go.
    left, entered = _strike_out(content, left, entered)
    if len(left):
        left, entered = _strike_out(_with_equals_alike(content), left, entered)
    if len(left):
        raise SourceError(
            f"the changes take back {len(left)} {'row' if len(left) == 1 else 'rows'} that they have not brought: they "
            "are not all that came since the query began; give all changes, and those of one query only"
        )
    return entered


def forget_dead(changes: pa.Table, instant: int, replaced_by: Sequence[str] | None) -> pa.Table:
    """Changes that amount to the same at this instant and at all later ones: of those up to it only what lives is
    left.
    """
    since = times_of(changes, TS, BEGINNING)
    places = np.concatenate([find_living(changes, instant, replaced_by), np.flatnonzero(since > instant)])
    return changes.take(pa.array(np.sort(places)))


def times_of(changes: pa.Table, name: str, missing: int) -> np.ndarray:
    """A column of times in microseconds; `missing` stands for NULL."""
    column = changes.column(name)
    if not column.null_count:
        return read_times(column)
    times = np.full(len(column), missing)
    times[column.is_valid().to_numpy()] = read_times(column.drop_null())
    return times


def _next_of_group(groups: pa.Table, since: np.ndarray) -> np.ndarray:
    """By row, when the next of its group comes; of one instant, the last one stays."""
    until = np.full(len(since), NEVER)
    if not len(since):
        return until
    keys = pa.table([hashable(column) for column in groups.columns], names=groups.column_names)
    ids = KeyIndex(keys.schema).encode(keys) if groups.num_columns else np.zeros(len(since), np.int64)
    order = np.lexsort((since, ids))  # stable: what comes last is the newest
    is_followed = ids[order][1:] == ids[order][:-1]
    until[order[:-1][is_followed]] = since[order[1:][is_followed]]
    return until


def _strike_out(content: pa.Table, left: np.ndarray, entered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What is left of the places of rows when those that took back and those that were taken back go together."""
    is_found, is_gone = match_rows(*(content.take(pa.array(places)).combine_chunks() for places in (left, entered)))
    return left[~is_found], entered[~is_gone]


def _with_equals_alike(table: pa.Table) -> pa.Table:
    """The table with one value for those that are equal: an operator that looks for equal rows may show either."""
    for idx, field in enumerate(table.schema):
        if pa.types.is_floating(field.type):
            table = table.set_column(idx, field, one_zero_one_nan(one_chunk(table.column(idx))))
    return table
