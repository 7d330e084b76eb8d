"""A window join that many queries share ("Scheduling for shared window joins over data streams").

    A ──┐                        ┌─ tap of q1: window 10 s, A.v > 30 ──── what stands above the join in q1
        ⋈  the largest window ───┼─ tap of q2: window 1 min ───────────── ...
    B ──┘  state once            └─ tap of q3: 1 min of A, 5 s of B

    Law:  a tap gives exactly the tuples that a WindowJoin with its windows would give over the rows that satisfy its
          conditions (and are newer than `since`, where it was opened too late to see older ones).

Tuples are labelled with the taps whose conditions they satisfy, once, as they come. A pair that the join finds goes to
the taps that both are labelled with and whose windows admit it; its columns are fetched only for those.

Taps may come and go: a join with other taps goes on from the state of one with the same keys. Its tuples then live as
long as the largest window says, and columns that were not kept are NULL in old ones, which no tap looks at that reads
them. What a new tap may see is for whoever opens it to say (`Pipeline`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa

from sash.index.join_index import LEFT, RIGHT, Pairs
from sash.index.pair_finder import PairFinder, take_in_order
from sash.kernels import taps as kernel
from sash.operators import join_keys as join_keys
from sash.operators.evaluator import keep
from sash.operators.join_methods import Index, make_index
from sash.operators.operator import Unpaced
from sash.operators.operator_names import TapName
from sash.operators.tap_spec import LWO, TappedJoinSpec, label_tuples
from sash.papers.shared.scheduled_index import ScheduledIndex
from sash.store.batch import (
    BEGINNING,
    EXPIRES,
    NEVER,
    OP,
    SIGNED_FIELDS,
    TS,
    ColumnLike,
    concat,
    conformed,
    expiries,
    int64_column,
    with_columns,
)
from sash.store.block_log import Adapt, BlockLog
from sash.store.expected_rows import ExpectedRows
from sash.store.keys import encode_keys
from sash.store.labelled_window import LabelledWindow, count_words
from sash.store.sorted_runs import SortedRuns
from sash.store.spill_arena import SpillArena
from sash.store.timed_turns import OrderedTuples
from sash.store.vector import Arena, Memory

Side: TypeAlias = LabelledWindow | ExpectedRows
"""Where rows of one side are to be read."""


@dataclass(frozen=True, slots=True)
class TapOutput:
    """What some taps gave."""

    complete_us: int
    """They have given everything up to this time."""
    tables: Mapping[int, pa.Table | OrderedTuples]
    """By number of the tap; all taps that are complete to this time are here."""


class TappedJoin(Unpaced):
    """Runs a `TappedJoinSpec`: taps get what they ask for by `tap_outputs`, and later ones begin by `backfill`."""

    STATE: ClassVar[tuple[str, ...]] = ("_finder", "_clock", "since_us")

    def __init__(self, spec: TappedJoinSpec, left: pa.Schema, right: pa.Schema):
        self.spec = spec
        self.taps = spec.taps
        self._inputs = (left, right)
        self._key_columns = tuple(tuple(pair[side] for pair in spec.join.keys) for side in (LEFT, RIGHT))
        self._classes_us = spec.classes_us
        self._tap_windows = np.array([tap.windows_us for tap in spec.taps], np.int64).reshape(-1, 2)
        schemas = {field.name: field for side in (left, right) for field in side}
        self.tap_schemas = [
            pa.schema([*(schemas[old].with_name(new) for old, new in tap.columns), *SIGNED_FIELDS]) for tap in self.taps
        ]
        self._checks = [
            join_keys.pair_condition(tap.keys, tap.residual, schema) for tap, schema in zip(self.taps, self.tap_schemas)
        ]
        self.reset(Memory())

    def reset(self, arena: Arena) -> None:
        windows = [self._make_window(side, arena) for side in (LEFT, RIGHT)]
        self._finder = PairFinder(windows, self._make_index)
        self._clock = BEGINNING
        self.since_us = np.full((len(self.taps), 2), BEGINNING, np.int64)
        """By tap and side: it has not seen tuples up to this time."""

    def tap_outputs(self, inputs: Sequence[pa.Table], clock: int) -> Iterator[TapOutput]:
        """What the taps give for these tuples; smaller windows may be served before larger ones."""
        index = self._finder.index
        if isinstance(index, ScheduledIndex):
            yield from self._outputs_by_turns(index, self._joinable(inputs), clock)
        elif self._arena.budget is None:
            given: dict[int, list[pa.Table]] = {}
            for parts in self._routed(inputs, clock):
                for tap, more in parts.items():
                    given.setdefault(tap, []).extend(more)
            yield TapOutput(clock, {tap: self._joined(tap, given) for tap in range(len(self.taps))})
        else:
            yield from self._limited_outputs(self._routed(inputs, clock), clock)
        self._clock = clock

    def backfill(self, tap: int, clock: int) -> Iterator[pa.Table]:
        """What a tap would have given until now of the tuples that are in its windows at the clock: in parts that have
        no order, at least one, made as they are asked for. No step may come in between.
        """
        spec = replace(self.spec, taps=(self.taps[tap],), serving_order=LWO)
        twin = TappedJoin(spec, *self._inputs)
        windows = self._tap_windows[tap : tap + 1]
        since_us = np.maximum(self.since_us[tap : tap + 1], np.maximum(clock, BEGINNING + windows) - windows)
        if self._arena.budget is not None:
            twin.reset(SpillArena(self._arena.budget))
        twin.since_us = since_us
        yield twin.tap_schemas[0].empty_table()
        for inputs, until in self._steps_again(since_us[0], clock):
            yield from (part for parts in twin._routed(inputs, until) for part in parts.get(0, ()))

    def _steps_again(self, since_us: np.ndarray, clock: int) -> Iterator[tuple[list[pa.Table], int]]:
        """Steps that bring the tuples of the windows again, if they are newer than a time of each side: one step, or
        where memory is limited one for each block, and one more for the clock.
        """
        blocks = [(side, block) for side, window in enumerate(self._finder.windows) for block in window.log.blocks]
        nothing = [schema.empty_table() for schema in self._inputs]
        if self._arena.budget is None:
            parts = [[each] for each in nothing]
            for side, block in blocks:
                parts[side].append(self._finder.windows[side].log.read(block))
            yield [concat(each) for each in parts], clock
            return
        for side, block in blocks:
            tuples = self._finder.windows[side].log.read(block)
            inputs = list(nothing)
            inputs[side] = tuples.filter(pa.array(int64_column(tuples, TS) > since_us[side]))
            yield inputs, BEGINNING
        yield nothing, clock

    @property
    def _arena(self) -> Arena:
        return self._finder.windows[LEFT].arena

    @property
    def keeps_in_pieces(self) -> bool:
        """Whether a step may have more tuples than there is room for to keep."""
        return self.spec.serving_order == LWO

    @property
    def n_file_bytes(self) -> int:
        """What may be read of files for a step, however few tuples it has."""
        return sum(log.n_disk_bytes for log in self.logs().values())

    def make_room(self, n_bytes: int = 0) -> None:
        """Lets tuples go to disk if memory would be short when so much comes in."""
        self._finder.make_room(n_bytes=n_bytes)

    def logs(self) -> dict[str, BlockLog]:
        return self._finder.logs()

    def registers(self) -> dict[str, Any]:
        since = [[*tap.name, *map(int, self.since_us[number])] for number, tap in enumerate(self.taps)]
        return {"clock": self._clock, **{name: log.next_number for name, log in self.logs().items()}, "since": since}

    def restore(self, entries: Mapping[str, Mapping[str, bytes]], registers: Mapping[str, Any]) -> None:
        """Also of a join with other taps. What the new ones have not seen is not known here."""
        known = {TapName(query, number): since_us for query, number, *since_us in registers["since"]}
        for number, tap in enumerate(self.taps):
            self.since_us[number] = known.get(tap.name, BEGINNING)
        self._clock = registers["clock"]
        self._finder.restore(entries, registers, _horizon(self._clock), self._adapt_to)

    def _adapt_to(self, side: int) -> Adapt:
        return partial(self._adapt, side)

    def _adapt(self, side: int, tuples: pa.Table) -> pa.Table:
        """Tuples of a join with other taps: they live as long as these need them, and have the columns of these."""
        window_us = self.spec.join.windows_us[side]
        assert window_us is not None
        tuples = conformed(tuples, self._inputs[side])
        return with_columns(tuples, **{EXPIRES: expiries(int64_column(tuples, TS), window_us)})

    def _make_window(self, side: int, arena: Arena) -> LabelledWindow:
        key_of = partial(encode_keys, columns=self._key_columns[side])
        demanded = tuple(tap.conditions[side] for tap in self.taps)
        label = partial(label_tuples, conditions=self.spec.conditions[side], demanded=demanded)
        n_words = count_words(len(self.taps))
        window_us, may_seal = self.spec.join.windows_us[side], self.spec.serving_order == LWO
        return LabelledWindow(self._inputs[side], key_of, label, n_words, window_us, arena, may_seal)

    def _make_index(self, windows: Sequence[LabelledWindow]) -> Index | ScheduledIndex:
        if self.spec.serving_order == LWO:
            return make_index(self.spec.join.method, windows)
        reaches = [tap.reach_us for tap in self.taps]
        n_queries = [reaches.count(each) for each in self._classes_us]
        return ScheduledIndex(windows, self._classes_us, n_queries, self.spec.serving_order)

    def _joinable(self, inputs: Sequence[pa.Table]) -> list[pa.Table]:
        """A step's tuples that may meet others."""
        return [
            join_keys.without_null_keys(self._adapt(side, batch), self._key_columns[side])
            for side, batch in enumerate(inputs)
        ]

    def _routed(self, inputs: Sequence[pa.Table], clock: int) -> Iterator[dict[int, list[pa.Table]]]:
        """What the pairs of a step give to taps, by their numbers, as they are found."""
        index = self._finder.index
        assert not isinstance(index, ScheduledIndex)
        for pairs, sides in self._finder.pairs(index, self._joinable(inputs), _horizon(clock)):
            parts: dict[int, list[pa.Table]] = {}
            self._route(pairs, sides, (0, len(self.taps)), parts)
            yield parts

    def _limited_outputs(self, found: Iterator[dict[int, list[pa.Table]]], clock: int) -> Iterator[TapOutput]:
        """What all pairs of a step give: what is too much for memory in order of time, to be taken part by part."""
        runs = [SortedRuns(self._arena, with_ties=False, n_sharing=len(self.taps)) for _ in self.taps]
        for parts in found:
            for tap, given in parts.items():
                for part in given:
                    runs[tap].add(part)
        given = [each.finish(schema) for each, schema in zip(runs, self.tap_schemas, strict=True)]
        yield TapOutput(clock, dict(enumerate(given)))

    def _outputs_by_turns(self, index: ScheduledIndex, inputs: Sequence[pa.Table], clock: int) -> Iterator[TapOutput]:
        firsts = self._finder.insert(inputs, _horizon(clock))
        for turn in index.turns(firsts, clock):
            first, last = self._taps_of(self._classes_us[turn.window])
            parts: dict[int, list[pa.Table]] = {}
            self._route(turn.pairs, self._finder.windows, (first, last), parts)
            yield TapOutput(turn.complete_us, {tap: self._joined(tap, parts) for tap in range(first, last)})
        self._finder.evict(_horizon(clock))

    def _taps_of(self, reach_us: int) -> tuple[int, int]:
        numbers = [number for number, tap in enumerate(self.taps) if tap.reach_us == reach_us]
        return numbers[0], numbers[-1] + 1

    def _route(
        self, pairs: Pairs, sides: Sequence[Side], taps: tuple[int, int], parts: dict[int, list[pa.Table]]
    ) -> None:
        """Adds the joined tuples of row pairs to what the taps from one to before another have got."""
        first, last = taps
        one, other = _labelled(sides[LEFT], pairs.left), _labelled(sides[RIGHT], pairs.right)
        starts, hits = kernel.route(one, other, self._tap_windows, self.since_us, first, last)
        for tap in range(first, last):
            mine = hits[starts[tap - first] : starts[tap - first + 1]]
            if len(mine):
                chosen = Pairs(*(each[mine] for each in pairs))
                parts.setdefault(tap, []).append(self._formed(tap, chosen, sides))

    def _formed(self, tap: int, pairs: Pairs, sides: Sequence[Side]) -> pa.Table:
        """The joined tuples of row pairs as the tap names them, in order of time, less those that its check refuses."""
        ts = pairs.ts
        order = np.argsort(ts, kind="stable") if np.any(ts[1:] < ts[:-1]) else None
        asked, expires = self.taps[tap], np.full(len(ts), NEVER)
        columns: dict[str, ColumnLike] = {}
        for side, rows in enumerate((pairs.left, pairs.right)):
            window = sides[side]
            expires = np.minimum(expires, expiries(window.ts_of(rows), asked.windows_us[side]))
            names = {new: old for old, new in asked.columns if old in self._inputs[side].names}
            taken = take_in_order(window, rows, list(dict.fromkeys(names.values())), order)
            columns |= {new: taken.column(old) for new, old in names.items()}
        ts, expires = (ts, expires) if order is None else (ts[order], expires[order])
        columns |= {TS: pa.array(ts), EXPIRES: pa.array(expires), OP: pa.array(np.ones(len(ts), np.int8))}
        joined = pa.table({name: columns[name] for name in self.tap_schemas[tap].names})
        check = self._checks[tap]
        return keep(joined, check).cast(self.tap_schemas[tap]) if check else joined

    def _joined(self, tap: int, parts: Mapping[int, list[pa.Table]]) -> pa.Table:
        return pa.concat_tables(parts[tap]).combine_chunks() if tap in parts else self.tap_schemas[tap].empty_table()


def _labelled(side: Side, rows: np.ndarray) -> kernel.LabelledSide:
    """The rows of one side of some pairs: as places in the window's arrays, or in copies if some are not in memory."""
    if not isinstance(side, ExpectedRows) and side.are_in_memory(rows):
        return kernel.LabelledSide(rows - side.base, side.ts, side.labels)
    return kernel.LabelledSide(np.arange(len(rows)), side.ts_of(rows), side.labels_of(rows))


def _horizon(clock: int) -> int:
    """A tuple that expires just after the clock meets no other any more, but a new tap still sees it."""
    return max(clock, BEGINNING + 1) - 1
