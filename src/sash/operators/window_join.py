"""The binary window join: WHJ and WNL of Kostowski §2, W-JOIN of Pipelines §4.4, over batches of signed tuples.

    Law:  a and b join  iff  key(a) = key(b), residual(a, b), and their lives overlap: max(ts) < min(end).
          The pair lives from max(ts) to min(expires); it is taken back at min(end) if that comes before.

    A   |----a----|              window of a
    B        |-------b------|    window of b
    A⋈B      |----|              the pair (a, b)

The condition is the same whichever of the two came first, so a pair is found once: by the tuple that arrives later. A
negative takes back the tuple with its key and identities that is alive right before its time: there is one at a time.
State: each input's tuples until no tuple that can still come overlaps them. How pairs are found is the method's choice;
its index is made from the tuples, and another method can go on with them at any step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sash.cost import replan
from sash.cost.choose_join import JoinChoice
from sash.cost.join_cost import EXACT_SETTINGS, HASH, WNL, JoinLoad, JoinMethod
from sash.cost.replan import LoadWatch
from sash.index.circular_buckets import CircularBuckets
from sash.index.join_index import LEFT, RIGHT, JoinCounts, Pairs
from sash.index.pair_finder import PairFinder, take_in_order
from sash.operators import join_keys as join_keys
from sash.operators.evaluator import keep
from sash.operators.join_methods import Index, make_index
from sash.operators.operator import Unpaced
from sash.store.batch import (
    BEGINNING,
    EXPIRES,
    NEVER,
    OP,
    SIGNED_FIELDS,
    SIGNED_NAMES,
    TS,
    ColumnLike,
    int64_column,
    signs,
)
from sash.store.block_log import BlockLog
from sash.store.expected_rows import ExpectedRows
from sash.store.keys import encode_keys
from sash.store.vector import Arena, Memory
from sash.store.window import Window

NO_ROWS = np.empty(0, np.int64)
N_TELLING = 1024
"""So many tuples say enough of the rates and keys to come to begin with a method."""


@dataclass(frozen=True, slots=True)
class WindowJoinSpec:
    """`keys` are pairs of columns of equal type; `windows_us` the longest life on each side, None if rows bound it."""

    keys: tuple[tuple[str, str], ...]
    residual: str | None
    windows_us: tuple[int | None, int | None]
    expires_by_negatives: bool = False
    """Whether what expires comes as a negative tuple; else a pair that expires with a member needs none."""
    has_identities: bool = False
    """Whether tuples carry identities, by which they may be taken back."""
    method: JoinMethod = field(default=JoinMethod(HASH), repr=False)
    """How pairs are found. It is no part of what tells plans apart: state does not depend on it."""
    choice: JoinChoice | None = field(default=None, repr=False)
    """Why so, and with which prices to choose anew while the join runs; None: it keeps its method."""

    def __post_init__(self) -> None:
        assert self.keys or self.method.algorithm == WNL
        assert not (self.has_identities and self.method.algorithm in EXACT_SETTINGS)


class WindowJoin(Unpaced):
    """Runs a `WindowJoinSpec`. The two sides are one code path, indexed by side."""

    STATE: ClassVar[tuple[str, ...]] = ("_finder", "_method", "_clock", "_watch", "counts")

    def __init__(self, spec: WindowJoinSpec, left: pa.Schema, right: pa.Schema):
        self.spec = spec
        payload = [each for side in (left, right) for each in side if each.name not in SIGNED_NAMES]
        self.schema = pa.schema([*payload, *SIGNED_FIELDS])
        self._key_columns = tuple(tuple(pair[side] for pair in spec.keys) for side in (LEFT, RIGHT))
        self._check = join_keys.pair_condition(spec.keys, spec.residual, left)
        self._inputs = (left, right)
        self._payload = [[name for name in side.names if name not in SIGNED_NAMES] for side in self._inputs]
        self.reset(Memory())

    def reset(self, arena: Arena) -> None:
        windows = [
            Window(schema, partial(encode_keys, columns=columns), window_us, arena, may_seal=True)
            for schema, columns, window_us in zip(self._inputs, self._key_columns, self.spec.windows_us)
        ]
        self._method = self.spec.method
        self._finder = PairFinder(windows, self._make_index)
        self._clock = BEGINNING
        self._watch = LoadWatch(self.spec.windows_us)
        self.counts = JoinCounts(0, 0, 0, 0, 0)
        """The work done so far to find pairs, by all methods, which the cost model estimates."""

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        (*found,) = self.parts(inputs, clock)
        return pa.concat_tables(found).combine_chunks() if found else self.schema.empty_table()

    def parts(self, inputs: Sequence[pa.Table], clock: int) -> Iterator[pa.Table]:
        """The pairs of a step as they are found; each part is in order of time."""
        inputs = [join_keys.without_null_keys(batch, self._key_columns[side]) for side, batch in enumerate(inputs)]
        if not self._watch.has_begun:
            self._begin(inputs)
        horizon, index = self._horizon(clock), self._finder.index
        done, held = index.counts, self._finder.n_held
        if isinstance(index, CircularBuckets) and self.spec.has_identities:
            yield from self._signed_pairs(index, inputs, horizon)
        else:
            yield from (self._form(pairs, sides, +1) for pairs, sides in self._finder.pairs(index, inputs, horizon))
        self._clock = clock
        fresh = JoinCounts(*(now - before for now, before in zip(index.counts, done)))
        self.counts = JoinCounts(*map(sum, zip(self.counts, fresh)))
        self._replan([batch.num_rows for batch in inputs], held, fresh.outputs)

    @property
    def keeps_in_pieces(self) -> bool:
        """Whether a step may have more tuples than there is room for to keep."""
        return not self.spec.has_identities

    @property
    def n_file_bytes(self) -> int:
        """What may be read of files for a step, however few tuples it has."""
        return sum(log.n_disk_bytes for log in self.logs().values())

    def make_room(self, n_bytes: int = 0) -> None:
        """Lets tuples go to disk if memory would be short when so much comes in."""
        self._finder.make_room(n_bytes=n_bytes)

    def logs(self) -> dict[str, BlockLog]:
        return self._finder.logs()

    def registers(self) -> dict[str, int]:
        return {"clock": self._clock, **{name: log.next_number for name, log in self.logs().items()}}

    def restore(self, entries: Mapping[str, Mapping[str, bytes]], registers: Mapping[str, int]) -> None:
        self._clock = registers["clock"]
        self._finder.restore(entries, registers, self._horizon(self._clock))

    def adopt(self, method: JoinMethod) -> None:
        """Finds pairs by another method from the next step on, with the same tuples."""
        self._method = method
        self._finder.adopt(self._make_index, self._horizon(self._clock))

    @property
    def method(self) -> JoinMethod:
        """How pairs are found now."""
        return self._method

    @property
    def n_replans(self) -> int:
        """How often the method was changed because the load had changed."""
        return self._watch.n_changes

    @property
    def _may_replan(self) -> bool:
        choice = self.spec.choice
        return choice is not None and not choice.is_hinted and choice.has_keys and not self.spec.has_identities

    def _begin(self, inputs: Sequence[pa.Table]) -> None:
        """Chooses the method by the first step that tells something, if the plan knew nothing of the load."""
        n_tuples = [batch.num_rows for batch in inputs]
        choice, windows_us = self.spec.choice, self.spec.windows_us
        if not all(n_tuples) or sum(n_tuples) < N_TELLING:
            return
        self._watch.has_begun = True
        if choice is None or choice.load is not None or not self._may_replan or None in windows_us:
            return
        times = np.concatenate([int64_column(batch, TS) for batch in inputs])
        seconds = max(1, int(times.max()) - int(times.min())) / 1e6
        keys = [encode_keys(batch.slice(0, N_TELLING), self._key_columns[side]) for side, batch in enumerate(inputs)]
        load = JoinLoad(
            (n_tuples[LEFT] / seconds, n_tuples[RIGHT] / seconds),
            ((windows_us[LEFT] or 0) / 1e6, (windows_us[RIGHT] or 0) / 1e6),
            max(map(join_keys.count_keys, keys)),
        )
        self._change(replan.POLICY.first_method(load, seconds, self._method, choice))

    def _replan(self, arrived: Sequence[int], held: tuple[int, int], n_pairs: int) -> None:
        """Watches the load of a join that may change its method, and changes it when the time has come."""
        choice = self.spec.choice
        if choice is None or not self._may_replan:
            return
        self._watch.see(arrived, (held, self._finder.n_held), n_pairs)
        self._change(replan.POLICY.next_method(self._watch, self._clock, self._method, choice))

    def _change(self, method: JoinMethod | None) -> None:
        if method is not None and method != self._method:
            self._watch.n_changes += 1
            self.adopt(method)

    def _horizon(self, clock: int) -> int:
        """A tuple that expires at clock + 1 meets no other any more; but if it is told to expire, it must be there."""
        return max(clock, BEGINNING + 1) - 1 if self.spec.expires_by_negatives else clock

    def _make_index(self, windows: Sequence[Window]) -> Index:
        return make_index(self._method, windows, self.spec.has_identities)

    def _signed_pairs(self, index: CircularBuckets, inputs: Sequence[pa.Table], horizon: int) -> Iterator[pa.Table]:
        """The joined tuples of this step and those that it takes back, in phases: all that ends early has to be known
        before lives are compared.
        """
        firsts = self._finder.insert([batch.filter(pa.array(signs(batch) > 0)) for batch in inputs], horizon)
        for side, window in enumerate(self._finder.windows):
            index.insert(side, firsts[side], window.next_row)
        retracted = [self._retract(index, side, batch) for side, batch in enumerate(inputs)]
        yield from self._new_pairs(index, LEFT, firsts[LEFT], NEVER)
        yield from self._new_pairs(index, RIGHT, firsts[RIGHT], firsts[LEFT])
        yield from self._lost_pairs(index, LEFT, retracted[LEFT])
        yield from self._lost_pairs(index, RIGHT, retracted[RIGHT])
        self._finder.evict(horizon, [self._noted(side, rows) for side, rows in enumerate(retracted)])

    def _retract(self, index: CircularBuckets, side: int, batch: pa.Table) -> np.ndarray:
        """Ends the tuples that this step's negatives take back, and returns their rows."""
        negatives = batch.filter(pa.array(signs(batch) < 0))
        if not negatives.num_rows:
            return NO_ROWS
        window, times = self._finder.windows[side], int64_column(negatives, TS)
        keys, ids = encode_keys(negatives, self._key_columns[side]), window.ids_of(negatives)
        rows = index.find(side, keys, ids, times)
        sealed = np.flatnonzero(rows < 0)
        if len(sealed):
            rows[sealed] = window.find_sealed(keys[sealed], ids[sealed], times[sealed])
        assert rows.min() >= 0, "a tuple is taken back that is not there"
        window.end_early(rows, times)
        return rows

    def _noted(self, side: int, retracted: np.ndarray) -> np.ndarray:
        """Of the retracted tuples those that did not just expire, which needs no note."""
        if not self.spec.expires_by_negatives or not len(retracted):
            return retracted
        _, expires, ends = self._finder.windows[side].values(retracted)
        return retracted[ends < expires]

    def _new_pairs(self, index: CircularBuckets, side: int, first_new: int, other_limit: int) -> Iterator[pa.Table]:
        """Pairs of this step's tuples of one side with the other side's rows below `other_limit`."""
        rows = np.arange(first_new, self._finder.windows[side].next_row)
        for own, other in self._overlaps(index, side, rows, other_limit):
            own_ts, own_expires, _ = self._finder.windows[side].values(own)
            other_ts, other_expires, _ = self._finder.windows[1 - side].values(other)
            pair = (own, other) if side == LEFT else (other, own)
            pairs = Pairs(*pair, np.maximum(own_ts, other_ts), np.minimum(own_expires, other_expires))
            yield self._form(pairs, self._finder.windows, +1)

    def _lost_pairs(self, index: CircularBuckets, side: int, retracted: np.ndarray) -> Iterator[pa.Table]:
        """Pairs that end because a tuple of this side was taken back; of two that end together the left one counts."""
        for own, other in self._overlaps(index, side, retracted, NEVER):
            _, own_expires, own_ends = self._finder.windows[side].values(own)
            _, other_expires, other_ends = self._finder.windows[1 - side].values(other)
            expires = np.minimum(own_expires, other_expires)
            is_first = own_ends <= other_ends if side == LEFT else own_ends < other_ends
            chosen = is_first & (own_ends <= expires if self.spec.expires_by_negatives else own_ends < expires)
            if chosen.any():
                pair = (own[chosen], other[chosen]) if side == LEFT else (other[chosen], own[chosen])
                yield self._form(Pairs(*pair, own_ends[chosen], expires[chosen]), self._finder.windows, -1)

    def _overlaps(self, index: CircularBuckets, side: int, rows: np.ndarray, other_limit: int):
        """Row pairs (own, other) with equal keys and overlapping lives, in chunks; sealed rows are below any limit."""
        if not len(rows):
            return
        window = self._finder.windows[side]
        ts, _, ends = window.values(rows)
        keys = window.keys_of(rows)
        for probing, other in index.probe(1 - side, keys, ts, ends, other_limit):
            yield rows[probing], other
        for found in self._finder.windows[1 - side].probe_sealed(keys, ts, ends):
            yield rows[found.tuples], found.rows

    def _form(self, pairs: Pairs, sides: Sequence[Window | ExpectedRows], sign: int) -> pa.Table:
        """The joined tuples of row pairs, in order of time, less those that the residual condition refuses."""
        order = np.argsort(pairs.ts, kind="stable") if np.any(pairs.ts[1:] < pairs.ts[:-1]) else None
        columns: dict[str, ColumnLike] = {}
        for side, rows, names in zip(sides, (pairs.left, pairs.right), self._payload, strict=True):
            payload = take_in_order(side, rows, names, order)
            columns.update(zip(payload.column_names, payload.columns, strict=True))
        ts, expires = (each if order is None else each[order] for each in (pairs.ts, pairs.expires))
        columns.update({TS: ts, EXPIRES: expires, OP: np.full(len(ts), sign, np.int8)})
        joined = pa.table(columns)
        return keep(joined, self._check).cast(self.schema) if self._check else joined
