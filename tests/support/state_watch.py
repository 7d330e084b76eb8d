"""What EXPLAIN declares about the state of each operator, in numbers, from the tuples that it was given.

Of a window, once the clock stands at T, with `life` the longest that its tuples can live:

    held           the tuples with _ts <= T < _expires that have not been taken back, and all with
                   _expires <= T < _expires + life / 8, whose blocks may still be there
    taken back     as many, where tuples were taken back before they expired; and in a trace, which strikes them out
                   seldom, a constant more

    Reorder        the rows of the batches that have a row newer than T
    CountWindow    twice the rows of each partition, n at most
    Sessions       twice the rows of the sessions that are not over
    WindowJoin     the window of each input        Membership    likewise
    MultiwayJoin   of each input the tuples with T < _ts + reach + (reach + 1) / 8, `reach` being by how much a tuple
                   that joins them can be newer
    Expire         the window of its input         GroupBy, PartialAggregate    likewise
    RunningGroupBy twice as many rows as there are groups, and a constant more
    Distinct       the window of its input, and as much for what is shown
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from sash.embedded.query import Query
from sash.operators.asof_join import AsofJoinSpec
from sash.operators.count_window import CountWindowSpec
from sash.operators.distinct import DistinctSpec
from sash.operators.expire import ExpireSpec
from sash.operators.group_by import GroupBySpec
from sash.operators.membership import MembershipSpec
from sash.operators.multiway_join import MultiwayJoinSpec
from sash.operators.operator import Operator, PartGiver, PartTaker
from sash.operators.operator_names import OperatorName
from sash.operators.partial_aggregate import PartialAggregateSpec
from sash.operators.reorder import ReorderSpec
from sash.operators.running_group_by import MIN_GONE, RunningGroupBySpec
from sash.operators.sessions import SessionsSpec
from sash.operators.unmet import UnmetSpec
from sash.operators.window_join import WindowJoinSpec
from sash.oracle.row_keys import row_keys
from sash.store import trace
from sash.store.batch import EXPIRES, NEVER, TS, int64_column, signs
from sash.store.block_window import CUTS


class StateWatch:
    """Watches the operators of a query; it must be there before the first row."""

    def __init__(self, running: Query):
        operators: dict[OperatorName, Any] = dict(running._job.pipeline.operators())
        self._watched = {name: _Watched(operator) for name, operator in operators.items()}

    def check(self) -> None:
        """Raises an AssertionError if an operator holds more than it declares."""
        for name, watched in self._watched.items():
            n_held, n_declared = watched.n_held, watched.n_declared
            assert n_held <= n_declared, f"{name} holds {n_held} rows, but declares {n_declared}"


@dataclass
class _Tuples:
    """The signed tuples that an operator was given at one input."""

    ts: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    expires: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    ops: np.ndarray = field(default_factory=lambda: np.empty(0, np.int8))

    def add(self, batch: pa.Table) -> None:
        self.ts = np.concatenate([self.ts, int64_column(batch, TS)])
        self.expires = np.concatenate([self.expires, int64_column(batch, EXPIRES)])
        self.ops = np.concatenate([self.ops, signs(batch)])

    def n_held(self, clock: int, life_us: int | None, n_more: int) -> int:
        """Of a window; `n_more` may be there where tuples were taken back."""
        is_early = (self.ops > 0) | (self.ts < self.expires)
        counts = is_early & (self.expires > clock)
        lingers = is_early & ~counts & (self.expires + (life_us or 0) // CUTS > clock)
        n_held = int(self.ops[counts].sum()) + int(lingers.sum())
        is_taken_back = bool((self.ops[counts | lingers] < 0).any())
        return 2 * n_held + n_more if is_taken_back else n_held

    def n_reached(self, clock: int, reach_us: int) -> int:
        """Of those that a tuple to come can join."""
        return int((clock < self.ts + reach_us + (reach_us + 1) // CUTS).sum())


class _Watched:
    """An operator with all that it was given."""

    def __init__(self, operator: Operator):
        self._operator = operator
        self._process = operator.process
        self._inputs: list[_Tuples] = []
        self._clock = 0
        self._batches: list[tuple[int, int]] = []
        self._partitions: Counter[tuple] = Counter()
        self._times: dict[tuple, list[int]] = {}
        self._is_noted = False
        operator.process = self._take
        if isinstance(operator, PartGiver):
            self._parts = operator.parts
            operator.parts = self._give
        if isinstance(operator, PartTaker):
            self._take_part = operator.take
            operator.take = self._take_some

    @property
    def n_held(self) -> int:
        return sum(log.n_rows for log in self._operator.logs().values())

    @property
    def n_declared(self) -> int:
        spec = self._operator.spec  # type: ignore[attr-defined]
        match spec:
            case ReorderSpec():
                return sum(n_rows for newest, n_rows in self._batches if newest > self._clock)
            case CountWindowSpec(n_rows=n_rows):
                return sum(2 * min(n_rows, n) for n in self._partitions.values())
            case SessionsSpec(gap_us=gap_us):
                return 2 * sum(_n_open(times, gap_us, self._clock) for times in self._times.values())
            case WindowJoinSpec(windows_us=windows_us):
                return self._n_in_windows(windows_us, 0)
            case MultiwayJoinSpec(reach_us=reach_us):
                return sum(tuples.n_reached(self._clock, max(row)) for tuples, row in zip(self._inputs, reach_us))
            case MembershipSpec(windows_us=windows_us) | AsofJoinSpec(windows_us=windows_us):
                return self._n_in_windows(windows_us, trace.MIN_STRUCK_OUT)
            case UnmetSpec(windows_us=(left_us, right_us)):
                return self._n_in_windows((left_us, left_us + right_us), 0)
            case ExpireSpec(window_us=window_us):
                return self._n_in_windows((window_us,), 0)
            case RunningGroupBySpec():
                return 2 * len(self._partitions) + MIN_GONE
            case GroupBySpec(window_us=window_us) | PartialAggregateSpec(window_us=window_us):
                return self._n_in_windows((window_us,), trace.MIN_STRUCK_OUT)
            case DistinctSpec(window_us=window_us):
                return 2 * self._n_in_windows((window_us,), trace.MIN_STRUCK_OUT)
        return 0

    def _n_in_windows(self, lives_us: Sequence[int | None], n_more: int) -> int:
        return sum(tuples.n_held(self._clock, life, n_more) for tuples, life in zip(self._inputs, lives_us))

    def _take(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        self._note(inputs, clock)
        self._is_noted = True
        try:
            return self._process(inputs, clock)
        finally:
            self._is_noted = False

    def _give(self, inputs: Sequence[pa.Table], clock: int) -> Iterator[pa.Table]:
        if not self._is_noted:
            self._note(inputs, clock)
        return self._parts(inputs, clock)

    def _take_some(self, inputs: Sequence[pa.Table], instant: int) -> None:
        self._note(inputs, instant - 1)
        self._take_part(inputs, instant)

    def _note(self, inputs: Sequence[pa.Table], clock: int) -> None:
        """Remembers what the operator is given, whichever way it comes."""
        spec = self._operator.spec  # type: ignore[attr-defined]
        self._clock = clock
        self._inputs += [_Tuples() for _ in inputs[len(self._inputs) :]]
        for tuples, batch in zip(self._inputs, inputs, strict=True):
            if isinstance(spec, ExpireSpec):
                batch = batch.filter(pa.array(int64_column(batch, EXPIRES) < NEVER))
            tuples.add(batch)
        if isinstance(spec, ReorderSpec) and inputs[0].num_rows:
            self._batches.append((int(int64_column(inputs[0], TS).max()), inputs[0].num_rows))
        if isinstance(spec, CountWindowSpec):
            self._partitions.update(_keys_of(inputs[0], spec.partition_by))
        if isinstance(spec, SessionsSpec):
            times = int64_column(inputs[0], TS).tolist()
            rows = inputs[0].select(list(spec.partition_by)).to_pylist() if spec.partition_by else [{}] * len(times)
            for row, time in zip(rows, times, strict=True):
                key = tuple("nan" if value != value else value for value in row.values())
                self._times.setdefault(key, []).append(time)
        if isinstance(spec, RunningGroupBySpec):
            self._partitions.update(_keys_of(inputs[0], spec.keys))


def _n_open(times: Sequence[int], gap_us: int, clock: int) -> int:
    """Of the rows of a partition, in order of time, those of a session that is not over."""
    if times[-1] + gap_us <= clock:
        return 0
    return 1 + sum(all(b - a < gap_us for a, b in pairwise(times[place:])) for place in range(len(times) - 1))


def _keys_of(tuples: pa.Table, names: Sequence[str]) -> list[tuple]:
    return row_keys(tuples.select(list(names))) if names else [()] * tuples.num_rows
