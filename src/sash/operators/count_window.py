"""The last n tuples of a stream, or of each of its partitions, as a stream of signed tuples.

    ROWS 2:   ts      1    2    3          Law: at T the window holds the last n tuples, in total order, with ts <= T.
              in      a    b    c          A tuple's end is the ts of the n-th tuple after it, known only then:
              out    +a   +b   +c -a       so it leaves by a negative tuple (Pipelines §3.2), not by its expiry.

Tuples displaced at their own instant never enter. State: n tuples (per partition). Relies on ordered input.
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

    STATE: ClassVar[tuple[str, ...]] = ("_log", "_next_id")

    def __init__(self, spec: CountWindowSpec, input: pa.Schema):
        self.spec = spec
        self.schema = input.append(pa.field(spec.id_column, pa.int64()))
        self.reset(Memory())

    def reset(self, arena: Arena) -> None:
        self._log = BlockLog(self.schema, arena)
        self._next_id = 0

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        (batch,) = inputs
        if not batch.num_rows:
            return self.schema.empty_table()
        ids = np.arange(self._next_id, self._next_id + batch.num_rows)
        self._next_id += batch.num_rows
        new = with_columns(batch, **{self.spec.id_column: ids}).cast(self.schema)
        window, rows = self._held()
        everyone = concat([window, new])
        ends = self._ends(everyone)
        self._keep(new, ends[window.num_rows :], rows[ends[: window.num_rows] < NEVER])
        return self._changes(everyone, ends, window.num_rows)

    def logs(self) -> dict[str, BlockLog]:
        return {"window": self._log}

    def registers(self) -> dict[str, int]:
        return {"next_id": self._next_id, "window": self._log.next_number}

    def restore(self, entries: Mapping[str, Mapping[str, bytes]], registers: Mapping[str, int]) -> None:
        self._log.restore(entries["window"], registers["window"])
        self._next_id = registers["next_id"]

    def _held(self) -> tuple[pa.Table, np.ndarray]:
        """The window as it stands, in total order, with its rows in the log."""
        blocks: list[tuple[pa.Table, np.ndarray]] = []
        for block in self._log.blocks:
            alive = ~self._log.is_dead(block)
            blocks.append((self._log.read(block).filter(pa.array(alive)), block.first + np.flatnonzero(alive)))
        if not blocks:
            return self.schema.empty_table(), np.empty(0, np.int64)
        return concat([table for table, _ in blocks]), np.concatenate([rows for _, rows in blocks])

    def _ends(self, tuples: pa.Table) -> np.ndarray:
        """When each tuple is displaced by the n-th one after it in its partition; NEVER if that has not come."""
        ts, n_rows = int64_column(tuples, TS), self.spec.n_rows
        if not self.spec.partition_by:
            ends = np.full(len(ts), NEVER)
            ends[: max(0, len(ts) - n_rows)] = ts[n_rows:]
            return ends
        keys, idx = ", ".join(quote(name) for name in self.spec.partition_by), quote(self.spec.id_column)
        end = f"lead({quote(TS)}, {n_rows}, {NEVER}) OVER (PARTITION BY {keys} ORDER BY {idx})"
        sql = f"SELECT {end} AS ends FROM batch ORDER BY {idx}"
        return int64_column(run(sql, batch=tuples), "ends")

    def _keep(self, new: pa.Table, ends: np.ndarray, displaced: np.ndarray) -> None:
        stays = ends == NEVER
        if stays.any():
            self._log.append(new.filter(pa.array(stays)))
        if len(displaced):
            self._log.delete(displaced)
        if self._log.is_sparse:
            self._log.compact()
        self._log.trim()

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
