"""The last n tuples of a stream, or of each of its partitions, as a stream of signed tuples.

    ROWS 2:   ts      1    2    3          Law: at T the window holds the last n tuples, in total order, with ts <= T.
              in      a    b    c          A tuple's end is the ts of the n-th tuple after it, known only then:
              out    +a   +b   +c -a       so it leaves by a negative tuple (Pipelines §3.2), not by its expiry.

Tuples displaced at their own instant never enter. State: n tuples (per partition); those of a whole stream are on disk
beyond memory. Relies on ordered input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sash.operators.evaluator import quote, run
from sash.operators.operator import Unpaced
from sash.store.batch import NEVER, OP, TS, concat, int64_column, with_columns
from sash.store.block_log import BlockLog
from sash.store.counted_tuples import CountedTuples
from sash.store.vector import Arena, Memory


@dataclass(frozen=True, slots=True)
class CountWindowSpec:
    """`id_column` receives the identity that a tuple's negative will carry too."""

    n_rows: int
    partition_by: tuple[str, ...]
    id_column: str

    def __post_init__(self) -> None:
        assert self.n_rows > 0


class CountWindow(Unpaced):
    """Runs a `CountWindowSpec`."""

    STATE: ClassVar[tuple[str, ...]] = ("_window", "_next_id")

    def __init__(self, spec: CountWindowSpec, input: pa.Schema):
        self.spec = spec
        self.schema = input.append(pa.field(spec.id_column, pa.int64()))
        self.reset(Memory())

    def reset(self, arena: Arena) -> None:
        self._window = CountedTuples(self.schema, arena, may_seal=not self.spec.partition_by)
        self._next_id = 0

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        (batch,) = inputs
        if not batch.num_rows:
            return self.schema.empty_table()
        ids = np.arange(self._next_id, self._next_id + batch.num_rows)
        self._next_id += batch.num_rows
        new = with_columns(batch, **{self.spec.id_column: ids}).cast(self.schema)
        n_held = self._window.n_alive
        rows = self._within_reach(n_held, new.num_rows)
        everyone = concat([self._window.log.take(rows).cast(self.schema), new])
        ends = self._ends(everyone, n_held - len(rows))
        self._window.change(new.filter(pa.array(ends[len(rows) :] == NEVER)), rows[ends[: len(rows)] < NEVER])
        return self._changes(everyone, ends, len(rows))

    def make_room(self, n_bytes: int = 0) -> None:
        """Puts on disk what would be in the way of so much more."""
        self._window.make_room(n_bytes)

    def logs(self) -> dict[str, BlockLog]:
        return {"window": self._window.log}

    def registers(self) -> dict[str, int]:
        return {"next_id": self._next_id, "window": self._window.log.next_number}

    def restore(self, entries: Mapping[str, Mapping[str, bytes]], registers: Mapping[str, int]) -> None:
        self._window.restore(entries["window"], registers["window"])
        self._next_id = registers["next_id"]

    def _within_reach(self, n_held: int, n_new: int) -> np.ndarray:
        """The rows of the window, which has so many, that so many new tuples may displace; in total order."""
        return self._window.oldest(n_held if self.spec.partition_by else n_held + n_new - self.spec.n_rows)

    def _ends(self, tuples: pa.Table, n_between: int) -> np.ndarray:
        """When each tuple is displaced by the n-th one after it in its partition; NEVER if that has not come.

        `tuples` are the oldest of the window and the new ones. `n_between` of the window lie between them, if not all
        are among them; then there are less than n new ones, none of which is displaced.
        """
        ts, n_rows = int64_column(tuples, TS), self.spec.n_rows
        if not self.spec.partition_by:
            ends, n_after = np.full(len(ts), NEVER), n_rows - n_between
            ends[: max(0, len(ts) - n_after)] = ts[n_after:]
            return ends
        keys, idx = ", ".join(quote(name) for name in self.spec.partition_by), quote(self.spec.id_column)
        end = f"lead({quote(TS)}, {n_rows}, {NEVER}) OVER (PARTITION BY {keys} ORDER BY {idx})"
        sql = f"SELECT {end} AS ends FROM batch ORDER BY {idx}"
        return int64_column(run(sql, batch=tuples), "ends")

    def _changes(self, tuples: pa.Table, ends: np.ndarray, n_held: int) -> pa.Table:
        """Positives for the new tuples, negatives for the displaced, in order of time, negatives first."""
        ts = int64_column(tuples, TS)
        enters = np.arange(len(ts)) >= n_held
        ever = ends > ts
        leaves = (ends < NEVER) & ever
        signed = concat([
            with_columns(tuples.filter(pa.array(leaves)), **{TS: ends[leaves], OP: np.full(leaves.sum(), -1, np.int8)}),
            tuples.filter(pa.array(enters & ever)),
        ])  # fmt: skip
        return signed.take(pa.array(np.argsort(int64_column(signed, TS), kind="stable")))
