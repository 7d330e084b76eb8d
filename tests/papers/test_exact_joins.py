"""EWJ, RPWJ and AH-EWJ find every pair, and each once, however small their memory is and wherever steps end."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.errors import PlanError
from sash.papers.exact.exact_index import ExactJoinIndex, make_disk_join
from sash.papers.exact.exact_settings import AhEwjSettings, EwjSettings, ExactSettings, RpwjSettings
from sash.papers.exact.progressive_window_join import ProgressiveWindowJoin
from sash.papers.exact.work_clock import WorkClock, WorkPrices
from sash.store.batch import EXPIRES, OP, TS, int64_column
from sash.store.window import Window
from support.exact_traces import Row, all_pairs, as_fed, found, random_trace, run, traces
from support.profiles import volume

N_CASES = volume(dev=8, ci=60, deep=1000)
SCHEMA = pa.schema([("key", pa.int64()), (TS, pa.int64()), (EXPIRES, pa.int64()), (OP, pa.int8())])
SMALL = {
    "ewj": EwjSettings(r=0.5, delta=0, epoch=4, block_rows=2, memory=9, recent=0.5, frequent=0.2, basic_window=2),
    "rpwj": RpwjSettings(n_part=2, slide_us=30, epoch_us=20, m_read=2, h_mark=4, l_mark=1, block_rows=2, memory=8),
    "ahewj": AhEwjSettings(
        n_part=2, r=0.4, recent=0.6, frequent=0.2, epoch=4, epoch_us=20, slide_us=0, basic_window=2, train=3,
        block_rows=2, memory=30,
    ),
}  # fmt: skip


@st.composite
def ewj_settings(draw: st.DrawFn) -> EwjSettings:
    memory = draw(st.integers(8, 24))
    return EwjSettings(
        r=draw(st.sampled_from([0.3, 0.5, 0.7])),
        delta=draw(st.sampled_from([0.0, 1.0, 4.0])),
        epoch=draw(st.integers(1, 8)),
        block_rows=draw(st.integers(1, 3)),
        memory=memory,
        recent=0.5,
        frequent=draw(st.sampled_from([0.0, 0.2, 0.35])),
        basic_window=draw(st.integers(1, 4)),
    )


@st.composite
def rpwj_settings(draw: st.DrawFn) -> RpwjSettings:
    return RpwjSettings(
        n_part=draw(st.integers(1, 3)),
        flush=draw(st.sampled_from([0.1, 0.4, 0.9])),
        slide_us=draw(st.sampled_from([1, 10, 30, 1000])),
        epoch_us=draw(st.integers(1, 50)),
        m_read=draw(st.integers(1, 6)),
        h_mark=draw(st.sampled_from([1, 3, 10_000])),
        l_mark=draw(st.integers(0, 1)),
        gap_us=draw(st.integers(0, 10)),
        block_rows=draw(st.integers(1, 3)),
        memory=draw(st.integers(1, 16)),
    )


@st.composite
def ahewj_settings(draw: st.DrawFn) -> AhEwjSettings:
    n_part = draw(st.integers(1, 3))
    return AhEwjSettings(
        n_part=n_part,
        r=draw(st.sampled_from([0.3, 0.5, 0.9])),
        rho=draw(st.sampled_from([0.0, 0.4])),
        recent=0.6,
        least_recent=draw(st.sampled_from([0.3, 0.45])),
        frequent=draw(st.sampled_from([0.0, 0.1, 0.25])),
        epoch=draw(st.integers(1, 8)),
        epoch_us=draw(st.integers(1, 50)),
        slide_us=draw(st.sampled_from([0, 10])),
        gap_us=draw(st.integers(0, 10)),
        basic_window=draw(st.integers(1, 4)),
        train=draw(st.integers(1, 5)),
        block_rows=draw(st.integers(1, 3)),
        memory=draw(st.integers(12, 30)) + 12 * n_part,
    )


def any_settings() -> st.SearchStrategy[ExactSettings]:
    return st.one_of(ewj_settings(), rpwj_settings(), ahewj_settings())


@settings(max_examples=N_CASES)
@given(any_settings(), traces(), st.data())
def test_every_pair_is_found_once(chosen: ExactSettings, trace: list[Row], data: st.DataObject) -> None:
    stops = sorted(data.draw(st.lists(st.integers(0, len(trace)), max_size=3)))
    assert run(make_disk_join(chosen), trace, stops) == all_pairs(trace)


@settings(max_examples=N_CASES)
@given(any_settings(), traces(), st.sampled_from([0.0, 0.01, 0.5, 5.0]))
def test_also_when_work_takes_time(chosen: ExactSettings, trace: list[Row], price_us: float) -> None:
    """Rows wait, and there are idle times: nothing of this is in the answer. Pairs are found after their rows came."""
    join = make_disk_join(chosen)
    join = type(join)(chosen, clock=WorkClock(WorkPrices(price_us, price_us, price_us)))  # type: ignore[arg-type]
    records, sides = as_fed(trace)
    chunks = [*join.feed(records, sides), *join.settle()]
    assert found(chunks) == all_pairs(trace)
    came = [[row.ts for row in trace if row.side == side] for side in (0, 1)]
    for chunk in chunks:
        for left, right, at_us in zip(*chunk):
            assert at_us >= max(came[0][left], came[1][right])


@pytest.mark.slow
@pytest.mark.parametrize("method", SMALL)
def test_what_does_not_fit_is_on_disk(method: str) -> None:
    """Long runs, which use every part of the memory there is."""
    trace = random_trace(1, n_rows=3000, n_keys=7, window=150)
    join = make_disk_join(SMALL[method])
    assert run(join, trace, [1500]) == all_pairs(trace)
    counts = [disk.counts for disk in join.disks]
    assert sum(each.bytes_written for each in counts) > 0
    assert sum(each.bytes_read for each in counts) > 0


@pytest.mark.slow
@pytest.mark.parametrize("method", SMALL)
def test_what_has_ended_is_forgotten(method: str) -> None:
    """Nothing grows with the length of a stream."""
    join = make_disk_join(SMALL[method])
    held = []
    for part in range(4):
        trace = [
            row._replace(ts=row.ts + 10**5 * part, end=row.end + 10**5 * part) for row in random_trace(2, 1500, 7, 60)
        ]
        for _ in join.feed(*as_fed(trace)):
            pass
        list(join.settle())
        held.append(sum(disk.n_blocks for disk in join.disks))  # type: ignore[attr-defined]
    assert max(held) < 150
    memory = join.memory if isinstance(join, ProgressiveWindowJoin) else join.store.memory
    assert len(memory.frame_of) < 1000


@pytest.mark.slow
@pytest.mark.parametrize("method", SMALL)
def test_a_join_goes_on_in_another_process(method: str) -> None:
    """All that it keeps can be written down, and takes no more room than its memory and its disk."""
    trace = random_trace(7, n_rows=1200, n_keys=7, window=150)
    join, (records, sides) = make_disk_join(SMALL[method]), as_fed(trace)
    pairs: Counter = Counter()
    for low in range(0, len(trace), 100):
        pairs += found(join.feed(records[low : low + 100], sides[low : low + 100]))
        written = pickle.dumps(join)
        assert len(written) < 10**6
        join = pickle.loads(written)
    assert pairs + found(join.settle()) == all_pairs(trace)


@dataclass
class Model:
    """Windows and an index over them, step by step, and all rows that ever came."""

    chosen: ExactSettings
    clock: int = 0
    seen: tuple[list, list] = field(default_factory=lambda: ([], []))

    def __post_init__(self) -> None:
        self.windows = [Window(SCHEMA, partial(int64_column, name="key"), 20) for _ in range(2)]
        self.index = ExactJoinIndex(self.windows, self.chosen)
        self.found: Counter = Counter()

    def take(self, step: list[tuple[int, int, int, int]], progress: int) -> None:
        """Rows as (side, key, time since the last clock, life): in no order, and some later than the clock will be."""
        firsts = self.windows[0].next_row, self.windows[1].next_row
        clock = self.clock + progress
        for side in (0, 1):
            rows = [(key, self.clock + after, self.clock + after + life) for at, key, after, life in step if at == side]
            self.seen[side].extend(rows)
            self.windows[side].insert(_table(rows), clock)
        for pairs in self.index.arrive(firsts, clock):
            left, right = (window.ts[rows - window.base] for window, rows in zip(self.windows, pairs[:2]))
            keys = self.windows[0].keys[pairs.left - self.windows[0].base]
            self.found.update(
                zip(keys.tolist(), left.tolist(), right.tolist(), pairs.ts.tolist(), pairs.expires.tolist())
            )
        n_rebuilds = sum(window.n_rebuilds for window in self.windows)
        for window in self.windows:
            window.evict(clock)
        self.index.advance(clock)
        if sum(window.n_rebuilds for window in self.windows) > n_rebuilds:
            self.index.refill()
        self.clock = clock

    @property
    def expected(self) -> Counter:
        return Counter(
            (a[0], a[1], b[1], max(a[1], b[1]), min(a[2], b[2]))
            for a in self.seen[0]
            for b in self.seen[1]
            if a[0] == b[0] and max(a[1], b[1]) < min(a[2], b[2])
        )


STEPS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(1, 12), st.integers(1, 20)), max_size=25),
        st.integers(0, 15),
        st.booleans(),
    ),
    max_size=8,
)


@settings(max_examples=N_CASES)
@given(any_settings(), STEPS)
def test_nobody_waits_when_a_step_is_over(chosen: ExactSettings, steps: list) -> None:
    """Rows of a later step may be older than those of an earlier one; indexes are made anew now and then."""
    model = Model(chosen)
    for rows, progress, is_refilled in steps:
        model.take(rows, progress)
        assert model.found == model.expected
        if is_refilled:
            model.index.refill()


@pytest.mark.parametrize("method", SMALL)
def test_counts_go_on_when_an_index_is_filled_anew(method: str) -> None:
    model = Model(SMALL[method])
    for at in range(30):
        model.take([(side, key, 1 + at % 3, 18) for side in (0, 1) for key in (0, 1, 2)], 3)
    before, on_disk = model.index.counts, model.index.disk_counts
    assert before.outputs == model.found.total()
    assert before.insertions == 180
    assert before.scans > before.outputs
    model.index.refill()
    assert model.index.counts == before
    assert model.index.disk_counts.bytes_written >= on_disk.bytes_written
    model.index.free()
    assert model.index.counts == before


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda: EwjSettings(r=1.0), "`r` is 1.0; it must be more than 0 and less than 1"),
        (lambda: EwjSettings(memory=3, recent=0.7), "`r` is 0.95; it must be so that a block is not fresh then"),
        (lambda: EwjSettings(frequent=0.4), "`frequent` is 0.4; it must be at least 0, and leaves room"),
        (lambda: RpwjSettings(h_mark=1), "`l_mark` is 2; it must be not above `h_mark`"),
        (lambda: RpwjSettings(memory=0), "`memory` is 0; it must be 1 or more"),
        (lambda: AhEwjSettings(least_recent=0.6), "`least_recent` is 0.6; it must be below 0.5"),
        (lambda: AhEwjSettings(memory=200), "a stream has at least 61 recent blocks"),
    ],
)
def test_settings_that_cannot_be(build, told: str) -> None:
    with pytest.raises(PlanError, match=told):
        build()


def _table(rows: list[tuple[int, int, int]]) -> pa.Table:
    keys, ts, ends = zip(*rows) if rows else ((), (), ())
    return pa.table([keys, ts, ends, [1] * len(rows)], schema=SCHEMA)
