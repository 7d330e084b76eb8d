"""Probes of segments against nested loops: the same pairs, each once, wherever pages, frames and chunks end."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.store.batch import BEGINNING, NEVER
from sash.store.segment import WindowSegment
from sash.store.segment_probe import NONE_EARLY, ProbeKeys, find, probe
from sash.store.spill_files import SpillFiles, SpillSettings
from support.allowances import Tally
from support.segments import SHORT_PAGES, Lives, as_logged, early_ends, lives, seal, spilling

SHORT = SpillSettings(page_bytes=64, frame_bytes=128, gap_bytes=0)
A_PAGE = SpillSettings(page_bytes=4096, frame_bytes=1 << 16, gap_bytes=8192)


def pairs_of(segment: WindowSegment, probes: ProbeKeys, early=NONE_EARLY) -> list[tuple[int, ...]]:
    """(tuple, row, ts, expires, end), ordered."""
    found = []
    for pairs in probe(segment, probes, early):
        assert 0 < len(pairs.rows) <= len(probes.room.rows)
        found += list(zip(*(column.tolist() for column in pairs)))
    return sorted(found)


def nested_loop(segment: WindowSegment, rows: Lives, tuples: Lives, early: dict[int, int]) -> list[tuple[int, ...]]:
    found = []
    for row, origin in enumerate(as_logged(segment).tolist(), segment.first):
        row_key, row_ts, expires = rows.each[origin - segment.first]
        end = early.get(row, 0) if row in early else expires
        for idx, (key, ts, tuple_end) in enumerate(tuples.each):
            if key == row_key and max(ts, row_ts) < min(tuple_end, end):
                found.append((idx, row, row_ts, expires, end))
    return sorted(found)


@given(
    settings=SHORT_PAGES,
    sealed=st.lists(lives(min_size=1), min_size=1, max_size=3),
    tuples=lives(),
    pairs_per_chunk=st.sampled_from([1, 2, 5, 1000]),
    data=st.data(),
)
def test_a_probe_finds_what_a_nested_loop_finds(settings, sealed, tuples, pairs_per_chunk, data):
    with spilling(settings) as files:
        segments, first = [], 5
        for rows in sealed:
            segments.append(seal(files, rows, first=first))
            first += len(rows.keys)
        early = data.draw(st.dictionaries(st.integers(5, first - 1), st.integers(-30, 50)))
        probes = ProbeKeys(*tuples, pairs_per_chunk=pairs_per_chunk)
        for segment, rows in zip(segments, sealed):
            expected = nested_loop(segment, rows, tuples, early)
            assert pairs_of(segment, probes, early_ends(early)) == expected


@pytest.mark.parametrize("pairs_per_chunk", [1, 7, 10_000])
def test_a_key_with_more_rows_than_a_frame_has(tmp_path, pairs_per_chunk) -> None:
    n_rows = 500
    numbers = np.arange(n_rows)
    rows = Lives(np.where(numbers % 10 == 0, numbers, 3), numbers, numbers + 1000)
    tally = Tally()
    segment = seal(SpillFiles(tmp_path, SHORT, tally), rows)
    held = tally.n_held
    tally.most = held
    tuples = Lives(np.array([3, 250, 3, 77]), np.array([400, 0, 1, 0]), np.array([401, 9999, 100, 9999]))
    assert pairs_of(segment, ProbeKeys(*tuples, pairs_per_chunk=pairs_per_chunk)) == nested_loop(
        segment, rows, tuples, {}
    )
    assert tally.most <= held + 2 * SHORT.frame_bytes


def even_keys(n_rows: int) -> Lives:
    numbers = np.arange(n_rows)
    return Lives(2 * numbers, numbers % 50, numbers % 50 + 100)


def at_once(keys: np.ndarray) -> ProbeKeys:
    return ProbeKeys(keys, np.full(len(keys), 60), np.full(len(keys), 70))


def test_keys_that_are_not_there_are_hardly_read_for(tmp_path) -> None:
    files = SpillFiles(tmp_path, A_PAGE)
    segment = seal(files, even_keys(20_000), batch_bytes=10_000)
    assert len(segment.guide.read().filter) * 64 <= 11 * 20_000
    for key in range(1, 4001, 2):
        assert not pairs_of(segment, at_once(np.array([key])))
    assert files.counts.n_reads < 50


def test_a_key_that_is_there_is_one_access(tmp_path) -> None:
    files = SpillFiles(tmp_path, A_PAGE)
    segment = seal(files, even_keys(20_000), batch_bytes=10_000)
    for key in range(0, 200, 2):
        assert len(pairs_of(segment, at_once(np.array([key])))) == 1
    assert files.counts.n_reads == 100
    assert files.counts.n_bytes_read <= 102 * A_PAGE.page_bytes


def test_many_keys_read_a_segment_from_end_to_end(tmp_path) -> None:
    files = SpillFiles(tmp_path, A_PAGE)
    segment = seal(files, even_keys(20_000), batch_bytes=10_000)
    assert len(pairs_of(segment, at_once(np.arange(0, 40_000, 20)))) == 2000
    assert segment.regions.keys is not None
    n_bytes = segment.regions.keys.n_pages * A_PAGE.page_bytes
    assert files.counts.n_bytes_read <= n_bytes
    assert files.counts.n_reads <= n_bytes // A_PAGE.frame_bytes + 1


@pytest.mark.parametrize(("ts", "end", "is_read"), [(-9, 0, False), (-9, 1, True), (148, 999, True), (149, 999, False)])
def test_a_segment_of_another_time_is_not_read(tmp_path, ts, end, is_read) -> None:
    files = SpillFiles(tmp_path, SHORT)
    segment = seal(files, even_keys(50))
    probes = ProbeKeys(np.arange(0, 100, 2), np.full(50, ts), np.full(50, end))
    assert bool(pairs_of(segment, probes)) == is_read == bool(files.counts.n_reads)


def test_no_tuples_find_nothing(tmp_path) -> None:
    nothing = np.empty(0, np.int64)
    files = SpillFiles(tmp_path, SHORT)
    assert not pairs_of(seal(files, even_keys(50)), ProbeKeys(nothing, nothing, nothing))
    assert not files.counts.n_reads


def test_payload_can_be_taken_between_chunks(tmp_path) -> None:
    rows = even_keys(300)
    segment = seal(SpillFiles(tmp_path, SHORT), rows, pa.table({"text": [str(key) for key in rows.keys]}))
    probes = ProbeKeys(np.arange(0, 600, 3), np.full(200, 60), np.full(200, 70), pairs_per_chunk=9)
    n_pairs = 0
    for pairs in probe(segment, probes):
        assert segment.take(pairs.rows)["text"].to_pylist() == [str(3 * each) for each in pairs.tuples]
        n_pairs += len(pairs.rows)
    assert n_pairs == 100


def test_who_stops_early_holds_nothing(tmp_path) -> None:
    tally = Tally()
    segment = seal(SpillFiles(tmp_path, SHORT, tally), even_keys(300))
    reading = probe(segment, ProbeKeys(np.arange(600), np.full(600, 60), np.full(600, 70), pairs_per_chunk=1))
    next(reading)
    assert tally.n_held > segment.guide.n_bytes
    reading.close()
    assert tally.n_held == segment.guide.n_bytes


def find_by_hand(
    segments: list[WindowSegment],
    rows: Lives,
    ids: np.ndarray,
    negative: tuple[int, int, list[int]],
    early: dict[int, int],
) -> int | None:
    """The time of the newest row that a negative may mean."""
    key, time, identity = negative
    meant = [
        int(rows.ts[origin])
        for segment in segments
        for row, origin in enumerate(as_logged(segment).tolist(), segment.first)
        if rows.keys[origin] == key
        and ids[origin].tolist() == identity
        and rows.ts[origin] < time <= early.get(row, rows.ends[origin])
    ]
    return max(meant, default=None)


@pytest.mark.slow
@given(
    settings=SHORT_PAGES,
    rows=lives(min_size=1),
    negatives=st.lists(
        st.tuples(
            st.sampled_from([0, 1, 2, 3, -1]), st.integers(-30, 50), st.lists(st.integers(0, 2), min_size=2, max_size=2)
        ),
        max_size=10,
    ),
    pairs_per_chunk=st.sampled_from([1, 3, 1000]),
    has_ids=st.booleans(),
    data=st.data(),
)
@example(
    settings=SHORT,
    rows=Lives(np.array([1, 1]), np.array([0, 5]), np.array([90, 90])),
    negatives=[(1, 5, [0, 0]), (1, 9, [0, 0])],
    pairs_per_chunk=1,
    has_ids=False,
    data=None,
).via("an identity that comes back at the instant at which it went")
@example(
    settings=SHORT,
    rows=Lives(np.array([1]), np.array([BEGINNING]), np.array([NEVER])),
    negatives=[(1, 5, [0, 0])],
    pairs_per_chunk=1,
    has_ids=False,
    data=None,
).via("a row that was there from the beginning")
def test_negatives_find_the_newest_row_that_is_alive_until_their_time(
    settings, rows, negatives, pairs_per_chunk, has_ids, data
):
    n_rows, n_ids = len(rows.keys), 2 if has_ids else 0
    lines = st.lists(st.integers(0, 2), min_size=n_ids, max_size=n_ids)
    drawn = data.draw(st.lists(lines, min_size=n_rows, max_size=n_rows)) if has_ids else [[]] * n_rows
    drawn_ends = data.draw(st.dictionaries(st.integers(0, n_rows - 1), st.integers(-30, 50))) if data else {}
    early = {row: min(end, int(rows.ends[row])) for row, end in drawn_ends.items()}
    cuts = data.draw(st.sets(st.integers(0, n_rows), max_size=2)) if data else set()
    ids = np.array(drawn, np.int64).reshape(n_rows, n_ids)
    asked = np.array([identity[:n_ids] for _, _, identity in negatives], np.int64).reshape(len(negatives), n_ids)
    with spilling(settings) as files:
        segments = []
        for low, high in pairwise([0, *sorted(cuts), n_rows]):
            part = Lives(*(column[low:high] for column in rows))
            segments += [seal(files, part, first=low, ids=ids[low:high] if has_ids else None)] if high > low else []
        keys, times = (np.array([each[column] for each in negatives], np.int64) for column in (0, 1))
        probes = ProbeKeys.of_negatives(keys, times)
        probes.room = type(probes.room)(*(each[:pairs_per_chunk] for each in probes.room))
        found = find(segments, probes, asked, early_ends(early))
        for row, (key, time, identity) in zip(found.tolist(), negatives):
            expected = find_by_hand(segments, rows, ids, (key, time, identity[:n_ids]), early)
            assert (row < 0) == (expected is None)
            if expected is not None:
                origin = next(each.origins(np.array([row]))[0] for each in segments if each.first <= row < each.last)
                seen = rows.keys[origin], rows.ts[origin], ids[origin].tolist()
                assert seen == (key, expected, identity[:n_ids])
