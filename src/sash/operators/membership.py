"""W-MINUS and W-INTERSECT, and the tests IN and EXISTS: left tuples that pass by how many right ones equal them.

    Law:  at T, of n equal left tuples in their windows with r right tuples in theirs that have the same key,

          absent           n if r = 0     (Pipelines §4.3, Alg. 4.3; EXCEPT is this under a Distinct)
          present          n if r > 0     (INTERSECT likewise)
          except_all       max(n - r, 0)
          intersect_all    min(n, r)      pass.

    left   a [1, 9)                      right  a [3, 5)            absent    +a at 1   -a at 3   +a at 5

A right tuple that comes may invalidate what was put out (case 2 of Fig. 4), one that goes may bring it back (case 3).
Of equal left tuples the first to expire pass, so that what expires on the left needs no replacement. State: the tuples
in both windows; of the right ones, their keys. A single right tuple may change much, so changes come in parts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
import pyarrow as pa

from sash.kernels import membership_runs as kernel
from sash.operators.join_keys import without_null_keys
from sash.operators.keyed import MIN_DEAD, Keys, with_identity
from sash.operators.open_changes import NetChanges, OpenChanges
from sash.operators.traced import Traced
from sash.store.batch import EXPIRES, OP, SIGNED_FIELDS, TS, ColumnLike, concat
from sash.store.key_index import KeyIndex
from sash.store.ordered_multiset import OrderedMultiset
from sash.store.trace import Events, Trace
from sash.store.vector import Arena, Memory, Vector

LEFT, RIGHT = 0, 1
RULES = {
    "present": kernel.PRESENT,
    "absent": kernel.ABSENT,
    "intersect_all": kernel.INTERSECT_ALL,
    "except_all": kernel.EXCEPT_ALL,
}
CHANGES_PER_CALL = 1 << 16
_Found: TypeAlias = tuple[np.ndarray, NetChanges]
"""Changes, and when each happens."""


@dataclass(frozen=True, slots=True)
class MembershipSpec:
    """Passes on the `columns` of left tuples, whose `left_keys` are compared with the `right_keys`, of the same types.
    Tuples with equal columns have equal keys.

    NULL equals nothing, or, where rows are compared as rows (`nulls_match`), itself. `id_columns`, if given, receive
    what identifies a row: its content, and when it expires.
    """

    rule: str
    columns: tuple[str, ...]
    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    windows_us: tuple[int | None, int | None]
    expires_by_negatives: bool
    nulls_match: bool = False
    id_columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert self.rule in RULES
        assert not self.rule.endswith("_all") or self.columns == self.left_keys, "equal tuples must have equal keys"


class Membership(Traced):
    """Runs a `MembershipSpec`."""

    STATE: ClassVar[tuple[str, ...]] = (
        "_traces",
        "_contents",
        "_keys",
        "_key_of",
        "_sides",
        "_links",
        "_members",
        "_n_seen",
    )

    def __init__(self, spec: MembershipSpec, left: pa.Schema, right: pa.Schema):
        self.spec = spec
        self._content_schema = pa.schema([left.field(name) for name in spec.columns])
        own_keys = [left.field(name) for name in spec.left_keys if name not in spec.columns]
        self._left = pa.schema([*self._content_schema, *own_keys, *SIGNED_FIELDS])
        self._key_schema = pa.schema([right.field(name) for name in spec.right_keys])
        self._right = pa.schema([*self._key_schema, *SIGNED_FIELDS])
        ids = [pa.field(name, pa.int64()) for name in spec.id_columns]
        self.schema = pa.schema([*self._content_schema, *ids, *SIGNED_FIELDS])
        self.reset(Memory())

    def reset(self, arena: Arena) -> None:
        spec = self.spec
        left = with_identity(self._left, bool(spec.id_columns))
        self._traces = [
            Trace(schema, window_us, spec.expires_by_negatives, arena)
            for schema, window_us in zip((left, self._right), spec.windows_us, strict=True)
        ]
        self._contents = Keys(self._content_schema, bool(spec.id_columns), arena)
        # Where rows are compared as rows, a content is its own key.
        self._keys = None if spec.columns == spec.left_keys else KeyIndex(self._key_schema, arena)
        self._key_of, self._links = Vector(np.int64, arena), Vector(np.int64, arena, kernel.LINK_WIDTH)
        self._sides = Vector(np.int64, arena, kernel.KEY_WIDTH)
        self._members = OrderedMultiset(arena)
        self._n_seen = 0
        self._open: OpenChanges | None = None
        """None between two steps."""

    def take(self, inputs: Sequence[pa.Table], instant: int) -> None:
        self._open = self._open or OpenChanges(self._traces[LEFT].log.arena)
        for _, changes in self._run(self._entered(inputs, instant - 1)):
            self._open.note(changes)

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        (*changes,) = self.parts(inputs, clock)
        return concat(changes) if changes else self.schema.empty_table()

    def parts(self, inputs: Sequence[pa.Table], clock: int) -> Iterator[pa.Table]:
        """The changes of a step as they are found."""
        found = self._run(self._entered(inputs, clock))
        for times, changes in found if self._open is None else self._close(self._open, found, clock):
            yield self._rows(times, changes)
        self._traces[LEFT].evict()
        self._traces[RIGHT].evict()
        self._forget()

    def traces(self) -> dict[str, Trace]:
        return {"left": self._traces[LEFT], "right": self._traces[RIGHT]}

    def registers(self) -> dict[str, int]:
        return {**super().registers(), "next_identity": self._contents.next_identity}

    def restore(self, entries: Mapping[str, Mapping[str, bytes]], registers: Mapping[str, int]) -> None:
        clock = registers["clock"]
        # Contents that only the right side has get new identities now, which none of the left ones may have.
        self._contents.next_identity = registers["next_identity"]
        right = self._traces[RIGHT].restore(entries["right"], registers["right"], clock, self._encode_right)
        left = self._traces[LEFT].restore(entries["left"], registers["left"], clock, self._recall_left)
        self._replay(left, right)

    def _entered(self, inputs: Sequence[pa.Table], clock: int) -> _Happenings:
        """What happens up to a clock when these tuples have come."""
        left, right = inputs[LEFT].select(self._left.names), inputs[RIGHT].select(self._right.names)
        if not self.spec.nulls_match:
            right = without_null_keys(right, self.spec.right_keys)
        contents = self._encode_left(left)
        return self._gather(
            [self._traces[LEFT].step(self._contents.identify(left, contents), contents, clock)],
            [self._traces[RIGHT].step(right, self._encode_right(right), clock)],
        )

    def _close(self, open_changes: OpenChanges, found: Iterable[_Found], instant: int) -> Iterator[_Found]:
        """What is left of the changes of an instant that came in parts, with the last of them."""
        for _, changes in found:
            open_changes.note(changes)
        self._open, net = None, open_changes.close()
        for first in range(0, len(net.signs), self._n_at_once):
            some = NetChanges(*(each[first : first + self._n_at_once] for each in net))
            yield np.full(len(some.signs), instant), some

    @property
    def _n_at_once(self) -> int:
        """So many changes are made at a time, or those of one key at one instant."""
        budget = self._traces[LEFT].log.arena.budget
        return CHANGES_PER_CALL if budget is None else min(CHANGES_PER_CALL, budget.n_pairs_at_once())

    def _encode_left(self, tuples: pa.Table) -> np.ndarray:
        """The contents of left tuples; what their keys are is known from then on."""
        return self._with_keys(tuples, self._contents.encode(tuples))

    def _recall_left(self, tuples: pa.Table) -> np.ndarray:
        return self._with_keys(tuples, self._contents.recall(tuples))

    def _with_keys(self, tuples: pa.Table, contents: np.ndarray) -> np.ndarray:
        if self._keys is not None:
            self._key_of.reserve(self._contents.n_ids)
            self._key_of.array[contents] = self._encode_keys(self._keys, tuples, self.spec.left_keys)
        return contents

    def _encode_right(self, tuples: pa.Table) -> np.ndarray:
        return self._encode_keys(self._keys or self._contents, tuples, self.spec.right_keys)

    def _encode_keys(self, index: KeyIndex | Keys, tuples: pa.Table, names: tuple[str, ...]) -> np.ndarray:
        wanted = self.spec.right_keys if index is self._keys else self.spec.left_keys
        columns = {key: tuples.column(name) for key, name in zip(wanted, names, strict=True)}
        return index.encode(pa.table(columns)) if columns else np.zeros(tuples.num_rows, np.int64)

    def _keys_of(self, contents: np.ndarray) -> np.ndarray:
        return contents if self._keys is None else self._key_of.array[contents]

    @property
    def _n_keys(self) -> int:
        return self._contents.n_ids if self._keys is None else max(self._keys.n_ids, 1)

    def _replay(self, left: Iterable[Events], right: Iterable[Events]) -> None:
        """What the traces hold happens again, to nobody's notice."""
        for events in right:
            deque(self._run(self._gather([], [events])), 0)
        for events in left:
            deque(self._run(self._gather([events], [])), 0)

    def _gather(self, left: list[Events], right: list[Events]) -> _Happenings:
        sides = [(each, self._keys_of(each.ids), each.ids) for each in left]
        sides += [(each, each.ids, np.full(len(each), kernel.NONE)) for each in right]
        return _Happenings(
            np.concatenate([events.times for events, _, _ in sides]),
            np.concatenate([keys for _, keys, _ in sides]),
            np.concatenate([contents for _, _, contents in sides]),
            np.concatenate([events.signs for events, _, _ in sides]),
            np.concatenate([events.int64(EXPIRES) for events, _, _ in sides]),
        )

    def _run(self, happenings: _Happenings) -> Iterator[_Found]:
        """The changes of what passes, in parts. To be exhausted."""
        self._make_room(happenings)
        lists = self._sides.array, self._links.array
        left = kernel.LeftTuples(RULES[self.spec.rule], *lists, *self._members.treaps())
        first_run, room = 0, self._n_at_once
        while first_run < len(happenings.run_keys):
            run, content, expires = np.empty((3, room), np.int64)
            sign = np.empty(room, np.int8)
            out = kernel.PassingChanges(run, content, expires, sign)
            next_run, n_out = kernel.follow(first_run, happenings.for_kernel(), left, out)
            if n_out:
                yield happenings.run_times[run[:n_out]], NetChanges(content[:n_out], expires[:n_out], sign[:n_out])
            room = room if next_run > first_run else 2 * room
            first_run = next_run

    def _make_room(self, happenings: _Happenings) -> None:
        n_entering = int(((happenings.contents != kernel.NONE) & (happenings.signs > 0)).sum())
        self._members.reserve(self._contents.n_ids, n_entering)
        self._links.reserve(self._contents.n_ids)
        n_keys = self._n_keys
        self._sides.reserve(n_keys)
        self._sides.array[self._n_seen : n_keys] = (0, 0, kernel.NONE)
        self._n_seen = max(n_keys, self._n_seen)

    def _rows(self, ts: np.ndarray, changes: NetChanges) -> pa.Table:
        contents, expires, sign = changes
        if not self.spec.expires_by_negatives:
            early = (sign > 0) | (ts < expires)
            ts, contents, expires, sign = ts[early], contents[early], expires[early], sign[early]
        columns: dict[str, ColumnLike] = {**self._contents.take(contents), TS: ts, EXPIRES: expires, OP: sign}
        if self.spec.id_columns:
            columns |= dict(zip(self.spec.id_columns, (self._contents.identities(contents), expires)))
        return pa.table([columns[name] for name in self.schema.names], schema=self.schema)

    def _forget(self) -> None:
        """Once most contents or keys have gone, starts again with what the traces hold."""
        n_alive = sum(trace.log.n_rows for trace in self._traces)
        if self._contents.n_ids + self._n_keys <= 4 * n_alive + MIN_DEAD:
            return
        self._contents.forget()
        if self._keys is not None:
            self._keys.reset()
        self._members.clear()
        self._n_seen = 0
        right = self._traces[RIGHT].rebuild(self._encode_right)
        self._replay(self._traces[LEFT].rebuild(self._recall_left), right)


class _Happenings:
    """What happens to keys on either side, in order of time, then key; `contents` tells left tuples from right ones."""

    def __init__(
        self, times: np.ndarray, keys: np.ndarray, contents: np.ndarray, signs: np.ndarray, expires: np.ndarray
    ):
        order = np.lexsort((-signs, keys, times))
        times, keys = times[order], keys[order]
        self.contents, self.signs, self.expires = contents[order], signs[order], expires[order]
        is_new = np.r_[True, (times[1:] != times[:-1]) | (keys[1:] != keys[:-1]), True][: len(times) + 1]
        self.starts = np.flatnonzero(is_new) if len(times) else np.zeros(1, np.int64)
        self.run_times, self.run_keys = times[self.starts[:-1]], keys[self.starts[:-1]]

    def for_kernel(self) -> kernel.MembershipEvents:
        return kernel.MembershipEvents(self.starts, self.run_keys, self.contents, self.signs, self.expires)
