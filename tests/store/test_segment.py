"""What is sealed is read as it was, in any order, whatever it is and wherever pages and batches end; or not at all."""

from __future__ import annotations

import errno
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.faults.conftest import FAULTS, Death, Operations

from sash.errors import ResourceError, SourceError
from sash.store.segment import WindowSegment
from sash.store.segment_probe import ProbeKeys, probe
from sash.store.segment_writer import SealedRows, write_segment
from sash.store.spill_files import SpillFiles, SpillSettings
from support.allowances import Tally
from support.key_hashes import hash_keys
from support.segments import SHORT_PAGES, Lives, as_logged, lives, seal, spilling

TEXT = st.text(max_size=5)
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy]] = {
    "words": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "words or NULL": (pa.int64(), st.none() | st.integers(0, 9)),
    "floats": (pa.float64(), st.floats(allow_nan=False)),
    "times": (pa.timestamp("us", "UTC"), st.integers(0, 2**40)),
    "bytes": (pa.int8(), st.integers(-128, 127)),
    "flags": (pa.bool_(), st.none() | st.booleans()),
    "texts": (pa.string(), st.none() | TEXT),
    "lists": (pa.list_(pa.string()), st.none() | st.lists(st.none() | TEXT, max_size=3)),
    "structs": (
        pa.struct([("a", pa.int64())]),
        st.none() | st.fixed_dictionaries({"a": st.none() | st.integers(0, 9)}),
    ),
    "nothing": (pa.null(), st.none()),
}


@st.composite
def payloads(draw: st.DrawFn, n_rows: int) -> pa.Table:
    names = draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=4, unique=True))
    columns = {}
    for name in names:
        type, values = COLUMNS[name]
        columns[name] = pa.array(draw(st.lists(values, min_size=n_rows, max_size=n_rows)), type)
    return pa.table(columns)


@given(data=st.data(), settings=SHORT_PAGES, rows=lives(min_size=1))
def test_payload_is_taken_as_it_was(data, settings, rows):
    payload = data.draw(payloads(len(rows.keys)))
    with spilling(settings) as files:
        segment = seal(files, rows, payload, first=7, batch_bytes=data.draw(st.sampled_from([1, 300, 10**6])))
        wanted = data.draw(st.lists(st.integers(segment.first, segment.last - 1)))
        names = data.draw(st.lists(st.sampled_from(payload.column_names), unique=True))
        asked = np.array(wanted, np.int64)
        taken = segment.take(asked, names)
        taken.validate(full=True)
        expected = payload.select(names).take(pa.array(segment.origins(asked) - 7))
        assert taken.schema.equals(expected.schema)
        if names:
            assert taken.to_pylist() == expected.to_pylist()
        assert segment.take(asked).schema.equals(payload.schema)


@given(settings=SHORT_PAGES, rows=lives(min_size=1), n_ids=st.integers(0, 3), n_words=st.integers(0, 3), data=st.data())
def test_what_lies_beside_a_row_is_its_own(settings, rows, n_ids, n_words, data):
    n_rows = len(rows.keys)
    ids = np.arange(n_rows * n_ids).reshape(n_rows, n_ids) if n_ids else None
    labels = np.arange(n_rows * n_words, dtype=np.uint64).reshape(n_rows, n_words) if n_words else None
    with spilling(settings) as files:
        segment = seal(files, rows, first=3, ids=ids, labels=labels)
        asked = np.array(data.draw(st.lists(st.integers(segment.first, segment.last - 1))), np.int64)
        origins = segment.origins(asked)
        assert segment.take(asked)["number"].to_pylist() == origins.tolist()
        assert segment.ids(asked).shape == (len(asked), n_ids)
        if ids is not None:
            assert segment.ids(asked).tolist() == ids[origins - 3].tolist()
        if labels is not None:
            assert segment.labels(asked).tolist() == labels[origins - 3].tolist()


@given(settings=SHORT_PAGES, rows=lives(min_size=1))
def test_rows_are_in_order_of_hash_and_of_the_log(settings, rows):
    with spilling(settings) as files:
        segment = seal(files, rows)
        origins = as_logged(segment)
        assert sorted(origins) == list(range(len(rows.keys)))
        places = list(zip(hash_keys(rows.keys)[origins], origins))
        assert places == sorted(places)
        assert (segment.min_ts, segment.max_end) == (rows.ts.min(), rows.ends.max())


def some_rows(n_rows: int = 30) -> Lives:
    numbers = np.arange(n_rows)
    return Lives(numbers % 7, numbers, numbers + 10 + numbers % 3)


def seal_all(files: SpillFiles) -> WindowSegment:
    numbers = np.arange(30)
    payload = pa.table({"text": [None if each % 5 == 0 else "x" * each for each in numbers], "number": numbers})
    return seal(
        files, some_rows(), payload, ids=numbers.reshape(-1, 1), labels=numbers.astype(np.uint64).reshape(-1, 1)
    )


@pytest.mark.parametrize("beside", [0, 1, 2])
@pytest.mark.parametrize("n_rows", [1, 8, 9, 30])
def test_few_rows_are_hardly_more_on_disk_than_they_are(tmp_path, n_rows: int, beside: int) -> None:
    """A page may have an end where columns lie side by side, and none behind the last region, or the payload."""
    files = SpillFiles(tmp_path, SpillSettings(page_bytes=128))
    ids = np.arange(n_rows * beside).reshape(n_rows, beside) if beside else None
    rows, payload = some_rows(n_rows), pa.table({"number": np.arange(n_rows)})
    segment = seal(files, rows, payload, ids=ids, batch_bytes=10**6)
    n_side_by_side = [3, *([beside] if beside > 1 else [])]
    pages = sum(-(-n_rows // (128 // (8 * width))) for width in n_side_by_side)
    alone = 0 if segment.regions.origins is None else 8 * n_rows
    alone += 128 * -(-n_rows // 16) if beside == 1 and alone else 8 * n_rows * (beside == 1)
    n_payload = len(payload.to_batches()[0].serialize())
    assert segment.n_file_bytes == (tmp_path / segment.name).stat().st_size == 128 * pages + alone + n_payload
    assert segment.n_file_bytes == files.counts.n_bytes_written


@given(settings=SHORT_PAGES, n_rows=st.integers(1, 40), first=st.integers(0, 3))
def test_rows_that_keep_their_numbers_need_no_others(settings, n_rows, first):
    """Of one key they stay in the order of the log; when numbers begin elsewhere, those that they had are kept."""
    rows = Lives(np.zeros(n_rows, np.int64), np.arange(n_rows), np.arange(n_rows) + 9)
    with spilling(settings) as files:
        numbers = np.arange(2, 2 + n_rows)
        sealed = SealedRows(numbers, rows.keys, rows.ts, rows.ends)
        segment = write_segment(files, sealed, lambda asked, names: pa.table({"number": asked}), first)
        assert (segment.regions.origins is None) == (first == 2)
        assert as_logged(segment).tolist() == numbers.tolist()
        assert segment.take(segment.first + np.arange(n_rows))["number"].to_pylist() == numbers.tolist()


def read_everything(segment: WindowSegment) -> list:
    rows = np.arange(segment.first, segment.last)
    probes = ProbeKeys(np.arange(7), np.full(7, 12), np.full(7, 20))
    pairs = [np.column_stack(chunk).tolist() for chunk in probe(segment, probes)]
    beside = [each(rows).tolist() for each in (segment.origins, segment.ids, segment.labels)]
    return [pairs, beside, segment.take(rows).to_pylist()]


SHORT = SpillSettings(page_bytes=64, frame_bytes=128, gap_bytes=0)


@pytest.mark.slow
def test_a_flipped_bit_in_any_region_is_noticed(tmp_path) -> None:
    files = SpillFiles(tmp_path, SHORT)
    segment = seal_all(files)
    seen = read_everything(segment)
    path = tmp_path / segment.name
    whole = path.read_bytes()
    assert all(seen[0])
    for at in range(0, len(whole), 5):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        path.write_bytes(damaged)
        with pytest.raises(SourceError, match=segment.name):
            read_everything(segment)
    path.write_bytes(whole)
    assert read_everything(segment) == seen


def test_another_segment_under_the_name_is_noticed(tmp_path) -> None:
    files = SpillFiles(tmp_path, SHORT)
    segment, other = seal_all(files), seal(files, some_rows(40))
    (tmp_path / other.name).replace(tmp_path / segment.name)
    with pytest.raises(SourceError, match=segment.name):
        read_everything(segment)
    with pytest.raises(ResourceError, match=other.name):
        other.take(np.array([0]))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_segment_is_sealed_whole_or_not_at_all(tmp_path, fault) -> None:
    operations = Operations()
    seal_all(SpillFiles(tmp_path / "spill", SHORT, hear=operations))
    assert len(operations.seen) > 20
    for at in range(1, len(operations.seen)):
        directory, tally = tmp_path / f"at {at}", Tally()
        directory.mkdir()
        files = SpillFiles(directory, SHORT, tally, Operations(at - 1, FAULTS[fault]))
        with pytest.raises(Death if fault == "death" else ResourceError):
            seal_all(files)
        assert tally.n_held == 0
        assert all(name.endswith(".part") for name in os.listdir(directory))


def test_a_full_disk_leaves_what_was_sealed(tmp_path) -> None:
    def fill_up(operation: str, path: str) -> None:
        if is_full and operation == "write" and Path(path).stat().st_size > 500:
            raise OSError(errno.ENOSPC, "No space left on device")

    is_full, tally = False, Tally()
    files = SpillFiles(tmp_path, SHORT, tally, fill_up)
    segment = seal_all(files)
    seen, n_held, is_full = read_everything(segment), tally.n_held, True
    with pytest.raises(ResourceError, match=rf"no room for a window in `{tmp_path}`"):
        seal_all(files)
    assert os.listdir(tmp_path) == [segment.name]
    assert (read_everything(segment), tally.n_held) == (seen, n_held)


def test_memory_is_told_of(tmp_path) -> None:
    tally = Tally()
    files = SpillFiles(tmp_path, SHORT, tally)
    segment = seal_all(files)
    assert tally.n_held == segment.guide.n_bytes > 0
    assert segment.n_file_bytes == (tmp_path / segment.name).stat().st_size
    read_everything(segment)
    assert tally.n_held == segment.guide.n_bytes
    segment.free()
    assert tally.n_held == 0
    assert not os.listdir(tmp_path)


def test_without_memory_for_what_stays_nothing_is_sealed(tmp_path) -> None:
    measure = Tally()
    seal_all(SpillFiles(tmp_path / "measured", SHORT, measure))
    for limit in range(0, measure.most, 50):
        tally = Tally(limit)
        files = SpillFiles(tmp_path / "tried", SHORT, tally)
        with pytest.raises(MemoryError):
            seal_all(files)
        assert tally.n_held == 0
        assert not os.listdir(tmp_path / "tried")


def test_a_row_longer_than_a_batch_is_one_of_its_own(tmp_path) -> None:
    texts = ["a", "b" * 5000, "c", None, "d" * 3000, "e"]
    segment = seal(SpillFiles(tmp_path, SHORT), some_rows(6), pa.table({"text": texts}), batch_bytes=400)
    lengths = [last - first for first, last in pairwise(segment.guide.read().starts.tolist())]
    assert len([each for each in lengths if each > 800]) == 2
    rows = np.arange(6)
    assert segment.take(rows)["text"].to_pylist() == [texts[each] for each in segment.origins(rows)]


def test_rows_without_payload(tmp_path) -> None:
    segment = seal(SpillFiles(tmp_path, SHORT), some_rows(6), pa.table({}).select([]))
    assert segment.take(np.array([3, 1])).num_columns == 0
    assert sorted(as_logged(segment)) == list(range(6))
