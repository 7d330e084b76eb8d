"""ASOF JOIN: each left tuple with the newest right one of its key that is not newer than it.

    Law:  at T, of the left tuples in their windows, each is in the answer once, with the right tuple of its key, among
          those in their windows, whose time is the greatest that is `<=` its own (`<`, or the least that is `>=` or
          `>`, as asked); between equal times the greatest row is taken. One that has none is there with NULLs
          (LEFT), or not at all.

    right   r1 [1, 5)   r2 [3, 7)            left   l [4, 9)
    LEFT    +(l, r2) at 4, until 7           +(l, NULL) at 7, until 9

A pair expires with the first of the two. When a right tuple comes or goes, left tuples change partners; in order of
time that is seldom, but rows of subqueries come when they will. State: the tuples in both windows, and where each
stands in the order of its key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sash.kernels import asof_runs as kernel
from sash.operators.asof_places import BEGINNING, END, left_places, right_places
from sash.operators.join_keys import without_null_keys
from sash.operators.keyed import MIN_DEAD, Keys, with_identity
from sash.operators.traced import Traced
from sash.store.batch import EXPIRES, OP, SIGNED_FIELDS, TS, ColumnLike, int64_column
from sash.store.byte_strings import ByteStrings
from sash.store.float_bits import bits_type, from_bits, to_bits
from sash.store.key_index import KeyIndex
from sash.store.ordered_multiset import OrderedMultiset
from sash.store.trace import Events, Trace
from sash.store.vector import Arena, Memory, Vector

LEFT, RIGHT = 0, 1
COMPARISONS = (">=", ">", "<=", "<")
"""Of the left tuple's time with the right one's."""
OWNER, CONTENT, LEAVES = 0, 1, 2
CHANGES_PER_CALL = 1 << 14
ALL_VALID = np.empty(0, np.bool_)


@dataclass(frozen=True, slots=True)
class AsofJoinSpec:
    """Puts out the `columns` of both sides. `keys` are pairs of columns that must be equal, `times` the two that are
    compared; all follow from the columns of their side.

    Between right tuples of one time, `deciding` says the order in which their columns are looked at. `id_columns`, if
    given, receive what identifies a row: the contents of both sides, and when it expires.
    """

    columns: tuple[tuple[str, ...], tuple[str, ...]]
    keys: tuple[tuple[str, str], ...]
    times: tuple[str, str]
    comparison: str
    keeps_all: bool
    deciding: tuple[str, ...]
    windows_us: tuple[int | None, int | None]
    expires_by_negatives: bool
    is_final: bool = False
    """Whether each left tuple is put out once, with its partner when it comes (EMIT FINAL)."""
    id_columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert self.comparison in COMPARISONS
        assert sorted(self.deciding) == sorted(self.columns[RIGHT])

    def keys_of(self, side: int) -> tuple[str, ...]:
        return tuple(pair[side] for pair in self.keys)


class AsofJoin(Traced):
    """Runs an `AsofJoinSpec`."""

    STATE: ClassVar[tuple[str, ...]] = ("_traces", "_contents", "_keys", "_strings", "_tuples", "_members")

    def __init__(self, spec: AsofJoinSpec, left: pa.Schema, right: pa.Schema):
        self.spec = spec
        self._schemas = [self._kept(side, schema) for side, schema in enumerate((left, right))]
        # One column may equal several others.
        self._key_schema = pa.schema([(str(idx), right.field(name).type) for idx, (_, name) in enumerate(spec.keys)])
        columns = [pa.field(name, schema.field(name).type) for name, schema in self._shown()]
        ids = [pa.field(name, pa.int64()) for name in spec.id_columns]
        self.schema = pa.schema([*columns, *ids, *SIGNED_FIELDS])
        self.reset(Memory())

    def reset(self, arena: Arena) -> None:
        spec, has_identity = self.spec, bool(self.spec.id_columns)
        self._traces = [
            Trace(with_identity(schema, has_identity), window_us, spec.expires_by_negatives, arena)
            for schema, window_us in zip(self._schemas, spec.windows_us, strict=True)
        ]
        contents = [
            pa.schema([(name, bits_type(schema.field(name).type)) for name in columns])
            for schema, columns in zip(self._schemas, spec.columns, strict=True)
        ]
        self._contents = [Keys(schema, has_identity, arena) for schema in contents]
        self._keys = KeyIndex(self._key_schema, arena)
        self._strings = ByteStrings(arena)
        self._tuples = Vector(np.int64, arena, 3)
        """By the number of the place: OWNER, which is 2 * key + side, CONTENT, and when it LEAVES by itself."""
        self._members = OrderedMultiset(arena)

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        events = [self._step(side, batch, clock) for side, batch in enumerate(inputs)]
        changes = self._run(events)
        for trace in self._traces:
            trace.evict()
        self._forget()
        return changes

    def traces(self) -> dict[str, Trace]:
        return {"left": self._traces[LEFT], "right": self._traces[RIGHT]}

    def registers(self) -> dict[str, int]:
        left, right = self._contents
        identities = {"next_left": left.next_identity, "next_right": right.next_identity}
        return {**super().registers(), **identities}

    def restore(self, entries: Mapping[str, Mapping[str, bytes]], registers: Mapping[str, int]) -> None:
        for side, name in ((RIGHT, "right"), (LEFT, "left")):
            self._contents[side].next_identity = registers[f"next_{name}"]
            restored = self._traces[side].restore(
                entries[name], registers[name], registers["clock"], partial(self._recall, side)
            )
            self._replay(restored)

    def _kept(self, side: int, schema: pa.Schema) -> pa.Schema:
        """What is kept of the tuples of a side."""
        names = dict.fromkeys((*self.spec.columns[side], *self.spec.keys_of(side), self.spec.times[side]))
        return pa.schema([*(schema.field(name) for name in names), *SIGNED_FIELDS])

    def _shown(self) -> list[tuple[str, pa.Schema]]:
        return [(name, schema) for names, schema in zip(self.spec.columns, self._schemas) for name in names]

    def _step(self, side: int, batch: pa.Table, clock: int) -> Events:
        tuples = batch.select(self._schemas[side].names)
        if side == RIGHT or not self.spec.keeps_all:
            tuples = without_null_keys(tuples, (*self.spec.keys_of(side), self.spec.times[side]))
        contents = self._contents[side].encode(self._as_bits(side, tuples))
        places = self._place(side, tuples, contents)
        return self._traces[side].step(self._contents[side].identify(tuples, contents), places, clock)

    def _recall(self, side: int, tuples: pa.Table) -> np.ndarray:
        """The places of tuples that come from the log."""
        return self._place(side, tuples, self._contents[side].recall(self._as_bits(side, tuples)))

    def _as_bits(self, side: int, tuples: pa.Table) -> pa.Table:
        for name in self.spec.columns[side]:
            idx = tuples.schema.get_field_index(name)
            if pa.types.is_floating(tuples.schema.field(idx).type):
                tuples = tuples.set_column(idx, name, to_bits(tuples.column(idx)))
        return tuples

    def _place(self, side: int, tuples: pa.Table, contents: np.ndarray) -> np.ndarray:
        """The numbers of the places where tuples stand; what is there is known from then on."""
        spec, expires, times = self.spec, int64_column(tuples, EXPIRES), tuples.column(self.spec.times[side])
        is_turned = spec.comparison in ("<=", "<")
        if side == LEFT:
            marker = END if spec.comparison.endswith("=") else BEGINNING
            strings = left_places(times, contents, expires, marker, is_turned)
        else:
            strings = right_places(times, [tuples.column(name) for name in spec.deciding], expires, is_turned)
        places = self._strings.intern(*strings, ALL_VALID, np.zeros(tuples.num_rows, np.int8))
        self._tuples.reserve(self._strings.n_strings)
        self._tuples.array[places] = np.stack([2 * self._key_ids(side, tuples) + side, contents, expires], axis=1)
        return places

    def _key_ids(self, side: int, tuples: pa.Table) -> np.ndarray:
        if not self.spec.keys:
            return np.zeros(tuples.num_rows, np.int64)
        columns = [tuples.column(name) for name in self.spec.keys_of(side)]
        return self._keys.encode(pa.table(columns, names=self._key_schema.names))

    def _replay(self, counting: Iterable[Events]) -> None:
        """What a trace holds happens again, to nobody's notice."""
        for events in counting:
            self._run([events])

    def _run(self, events: Sequence[Events]) -> pa.Table:
        """The changes that events bring about, in order of time."""
        times, places, counts = _net(
            np.concatenate([each.times for each in events]),
            np.concatenate([each.ids for each in events]),
            np.concatenate([each.signs for each in events]).astype(np.int64),
        )
        owners = self._tuples.array[places, OWNER]
        if self.spec.is_final:
            # A left tuple that comes finds the right ones of its instant.
            order = np.lexsort((owners % 2 == LEFT, times))
            times, places, counts, owners = (each[order] for each in (times, places, counts, owners))
        self._members.reserve(2 * max(self._keys.n_ids, 1), int(counts[counts > 0].sum()))
        happening = kernel.AsofEvents(owners, places, counts)
        members, first, found = self._members.treaps(self._strings.words), 0, list[np.ndarray]()
        room = CHANGES_PER_CALL
        while first < len(places):
            changes = np.empty((4, room), np.int64)
            after, n_out = kernel.follow(
                first, happening, members, self.spec.keeps_all, kernel.PartnerChanges(*changes)
            )
            found.append(changes[:, :n_out])
            room = room if after > first else 2 * room
            first = after
        if not found:
            return self.schema.empty_table()
        event, left, right, count = np.concatenate(found, axis=1)
        if self.spec.is_final:
            comes = np.flatnonzero((owners[event] % 2 == LEFT) & (counts[event] > 0))
            event, left, right, count = event[comes], left[comes], right[comes], count[comes]
        return self._rows(*_net(times[event], left, right, count))

    def _rows(self, ts: np.ndarray, left: np.ndarray, right: np.ndarray, count: np.ndarray) -> pa.Table:
        known = self._tuples.array
        is_paired = right != kernel.NONE
        expires = known[left, LEAVES]
        expires[is_paired] = np.minimum(expires[is_paired], known[right[is_paired], LEAVES])
        if not self.spec.expires_by_negatives:
            early = (count > 0) | (ts < expires)
            ts, left, right, count, expires, is_paired = (
                each[early] for each in (ts, left, right, count, expires, is_paired)
            )
        copies = np.repeat(np.arange(len(ts)), np.abs(count))
        ts, left, right, count, expires, is_paired = (
            each[copies] for each in (ts, left, right, count, expires, is_paired)
        )
        contents = known[left, CONTENT], known[right[is_paired], CONTENT]
        columns: dict[str, ColumnLike] = {**self._take(LEFT, contents[LEFT])}
        places = pa.array(np.cumsum(is_paired) - 1, mask=~is_paired)
        columns |= {name: column.take(places) for name, column in self._take(RIGHT, contents[RIGHT]).items()}
        if self.spec.id_columns:
            partner = np.full(len(ts), kernel.NONE)
            partner[is_paired] = self._contents[RIGHT].identities(contents[RIGHT])
            identities = self._contents[LEFT].identities(contents[LEFT]), partner, expires
            columns |= dict(zip(self.spec.id_columns, identities, strict=True))
        columns |= {TS: ts, EXPIRES: expires, OP: np.sign(count).astype(np.int8)}
        return pa.table([columns[name] for name in self.schema.names], schema=self.schema)

    def _take(self, side: int, contents: np.ndarray) -> dict[str, pa.Array]:
        """The columns of contents of a side."""
        taken = self._contents[side].take(contents)
        return {name: from_bits(column, self._schemas[side].field(name).type) for name, column in taken.items()}

    def _forget(self) -> None:
        """Once most places are empty, starts again with what the traces hold."""
        n_alive = sum(trace.log.n_rows for trace in self._traces)
        if self._strings.n_strings <= 4 * n_alive + MIN_DEAD:
            return
        for contents in self._contents:
            contents.forget()
        self._keys.reset()
        self._strings.compact()
        self._members.clear()
        for side in (RIGHT, LEFT):
            self._replay(self._traces[side].rebuild(partial(self._recall, side)))


def _net(*columns: np.ndarray) -> tuple[np.ndarray, ...]:
    """Rows that agree in all columns but the last, which are added up, in order; without those that come to nothing."""
    *keys, counts = columns
    if not len(counts):
        return columns
    order = np.lexsort(keys[::-1])
    keys, counts = [each[order] for each in keys], counts[order]
    is_new = np.concatenate([[True], np.any([each[1:] != each[:-1] for each in keys], axis=0)])
    starts = np.flatnonzero(is_new)
    sums = np.add.reduceat(counts, starts)
    kept = starts[sums != 0]
    return *(each[kept] for each in keys), sums[sums != 0]
