"""How a stream's rows become tuples: names, filter, computed columns, and the life that a time window gives them.

    WINDOW w:   _expires = ts + w            UNBOUNDED, SINCE, ROWS:   _expires = NEVER
    TUMBLE, HOP: once for every window, _expires = its end

No state, so on Spark it runs before the rows are exchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from sash.operators.calendar_buckets import CalendarBuckets
from sash.operators.project import ProjectSpec
from sash.operators.time_buckets import TimeBuckets
from sash.store.batch import ARRIVAL, BEGINNING, NEVER, arrive, expiries, with_columns


@dataclass(frozen=True, slots=True)
class IngestSpec:
    """`alias` names the columns `alias.column`; `life_us` is the time window, None for a window of other kind."""

    alias: str
    project: ProjectSpec
    life_us: int | None
    since_us: int = BEGINNING
    buckets: TimeBuckets | CalendarBuckets | None = None
    """The windows that rows have as columns; `life_us` is then the longest that a row is in one."""

    def schema(self, stream: pa.Schema) -> pa.Schema:
        return _schema_of(self, stream)

    def apply(self, rows: pa.Table, ts: np.ndarray) -> pa.Table:
        """The tuples of these rows, whose timestamps are `ts`."""
        if self.since_us > BEGINNING:
            after = ts >= self.since_us
            rows, ts = rows.filter(pa.array(after)), ts[after]
        expires = np.full(len(ts), NEVER) if self.life_us is None else expiries(ts, self.life_us)
        if self.buckets is not None:
            rows, ts, expires = self.buckets.spread(rows, ts)
        if self.has_arrival:
            rows = rows.append_column(ARRIVAL, pa.array(np.zeros(len(ts), np.int64)))
        named = rows.rename_columns([f"{self.alias}.{name}" for name in rows.column_names])
        return self.project.apply(arrive(named, ts, expires))

    @property
    def has_arrival(self) -> bool:
        """Whether tuples say in which batch they were let in; whoever lets them in says it, see `stamp`."""
        return f"{self.alias}.{ARRIVAL}" in self.project.passed

    def stamp(self, tuples: pa.Table, batch: int) -> pa.Table:
        """Tuples that are let in now, with the number of the batch if they have a place for it."""
        if not self.has_arrival:
            return tuples
        return with_columns(tuples, **{f"{self.alias}.{ARRIVAL}": np.full(tuples.num_rows, batch, np.int64)})


@lru_cache(maxsize=1024)
def _schema_of(spec: IngestSpec, stream: pa.Schema) -> pa.Schema:
    """Kept, because the same streams come in for every fragment, group and run, and whenever queries come or go."""
    return spec.apply(stream.empty_table(), np.empty(0, np.int64)).schema
