"""Files that are there whole or not at all, that are read as they were written or refused, and that go in the end."""

from __future__ import annotations

import errno
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.faults.conftest import FAULTS, Death, Operations

from sash.errors import ResourceError, SourceError
from sash.store import spill_names
from sash.store.spill_files import LEAST_PAGE_BYTES, SpillFile, SpillFiles, SpillSettings
from sash.store.spill_pages import PagedRead, plan_reads
from support.allowances import Tally

TINY = SpillSettings(page_bytes=16, frame_bytes=48, gap_bytes=16)


def numbers(n_bytes: int) -> np.ndarray:
    return np.arange(n_bytes).astype(np.uint8)


def read_all(files: SpillFiles, file: SpillFile) -> bytes:
    return b"".join(
        bytes(frame.data) for frame in files.read(file, [(page, page + 1) for page in range(n_pages(file))])
    )


def n_pages(file: SpillFile) -> int:
    return len(file.checksums)


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


@given(
    parts=st.lists(st.binary(max_size=60), min_size=1, max_size=6),
    pages=st.sets(st.integers(0, 30)),
    page_bytes=st.sampled_from([8, 16, 40]),
    frame_bytes=st.sampled_from([8, 64, 1000]),
    gap_bytes=st.sampled_from([0, 20, 1000]),
    is_cached=st.booleans(),
    n_buffers=st.sampled_from([1, 2]),
)
def test_pages_are_read_as_they_were_written(parts, pages, page_bytes, frame_bytes, gap_bytes, is_cached, n_buffers):
    whole = b"".join(parts)
    with TemporaryDirectory() as directory:
        tally = Tally()
        files = SpillFiles(
            Path(directory), SpillSettings(page_bytes, frame_bytes, gap_bytes, is_cached, n_buffers), tally
        )
        file = files.write(np.frombuffer(part, np.uint8) for part in parts)
        assert n_pages(file) == -(-len(whole) // page_bytes)
        wanted = sorted(page for page in pages if page < n_pages(file))
        padded = whole.ljust(n_pages(file) * page_bytes, b"\0")
        seen = []
        for frame in files.read(file, [(page, page + 1) for page in wanted]):
            start = frame.first_page * page_bytes
            assert bytes(frame.data) == padded[start : start + len(frame.data)]
            assert len(frame.data) <= max(frame_bytes, page_bytes)
            spanned = wanted[frame.first_span : frame.last_span]
            assert all(start <= page * page_bytes < start + len(frame.data) for page in spanned)
            seen += spanned
        assert seen == wanted
        assert tally.n_held == 0
        assert tally.most <= 2 * max(frame_bytes, page_bytes)
        files.close()
        assert not names(Path(directory))


def test_spans_that_are_near_are_read_at_once() -> None:
    spans = [(2, 3), (3, 5), (6, 7), (40, 41), (41, 44)]
    assert plan_reads(spans, most_pages=100, gap_pages=1) == [PagedRead(0, 3, 2, 7), PagedRead(3, 5, 40, 44)]
    assert plan_reads(spans, most_pages=100, gap_pages=0) == [
        PagedRead(0, 2, 2, 5),
        PagedRead(2, 3, 6, 7),
        PagedRead(3, 5, 40, 44),
    ]
    assert [each.n_pages for each in plan_reads(spans, most_pages=2, gap_pages=100)] == [1, 2, 1, 1, 3]
    assert plan_reads([], 1, 1) == []


def test_a_span_may_share_a_page_with_the_next_or_be_longer_than_a_frame() -> None:
    assert plan_reads([(0, 9), (8, 10), (9, 12)], most_pages=3, gap_pages=0) == [
        PagedRead(0, 1, 0, 9),
        PagedRead(1, 2, 8, 10),
        PagedRead(2, 3, 9, 12),
    ]


def test_what_is_asked_of_the_disk_is_counted(tmp_path) -> None:
    files = SpillFiles(tmp_path, TINY)
    file = files.write([numbers(100)])
    list(files.read(file, [(0, 1), (2, 3), (6, 7)]))
    counts = files.counts
    assert (counts.n_files_written, counts.n_bytes_written) == (1, 100)
    assert (counts.n_reads, counts.n_bytes_read) == (2, 64)


@given(n_bytes=st.integers(1 << 12, 1 << 30), n_reads=st.integers(1, 7))
def test_frames_of_all_reads_take_half_of_what_is_for_them(n_bytes: int, n_reads: int) -> None:
    """As long as a page of each fits; who needs more than that is refused when it is planned."""
    settings = SpillSettings.within(n_bytes, n_reads=n_reads)
    least = n_reads * LEAST_PAGE_BYTES
    assert n_reads * settings.n_buffers * settings.most_pages * settings.page_bytes <= max(n_bytes // 2, least)


def test_who_stops_reading_early_leaves_nothing_held_or_open(tmp_path) -> None:
    tally = Tally()
    files = SpillFiles(tmp_path, TINY, tally)
    file = files.write([numbers(1000)])
    n_open = len(os.listdir("/proc/self/fd"))
    reading = files.read(file, [(page, page + 1) for page in range(0, 60, 3)])
    next(reading)
    assert tally.n_held == 32
    reading.close()
    assert tally.n_held == 0
    assert len(os.listdir("/proc/self/fd")) == n_open
    assert read_all(files, file)[:1000] == bytes(numbers(1000))


def test_reads_may_be_nested(tmp_path) -> None:
    files = SpillFiles(tmp_path, TINY)
    file = files.write([numbers(200)])
    for frame in files.read(file, [(0, 1), (4, 5), (8, 9)]):
        before = bytes(frame.data)
        assert read_all(files, file)[:200] == bytes(numbers(200))
        assert bytes(frame.data) == before


def test_a_flipped_bit_is_noticed_wherever_it_is(tmp_path) -> None:
    files = SpillFiles(tmp_path, TINY)
    file = files.write([numbers(40)])
    path = tmp_path / file.name
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(bytes(each ^ (at == idx and 4) for idx, each in enumerate(whole)))
        with pytest.raises(SourceError, match=rf"{file.name}`: page {at // 16} is not what was written there"):
            read_all(files, file)
        other = (at // 16 + 1) % 3
        assert len(list(files.read(file, [(other, other + 1)]))) == 1
    path.write_bytes(whole)
    assert read_all(files, file)[: len(whole)] == whole


def test_no_more_is_written_than_there_is(tmp_path) -> None:
    files = SpillFiles(tmp_path, TINY)
    for n_bytes in (1, 16, 17, 48, 100):
        file = files.write([numbers(n_bytes)])
        assert (tmp_path / file.name).stat().st_size == file.n_bytes == n_bytes
        assert read_all(files, file) == bytes(numbers(n_bytes)).ljust(16 * n_pages(file), b"\0")


def test_a_file_that_became_shorter_is_refused(tmp_path) -> None:
    files = SpillFiles(tmp_path, TINY)
    file = files.write([numbers(150)])
    for n_left in (149, 100, 1, 0):
        os.truncate(tmp_path / file.name, n_left)
        with pytest.raises(SourceError, match=rf"{file.name}`: it had 150 bytes when it was written"):
            read_all(files, file)


def test_a_file_that_is_gone_is_told_by_name(tmp_path) -> None:
    files = SpillFiles(tmp_path, TINY)
    file = files.write([numbers(160)])
    (tmp_path / file.name).unlink()
    with pytest.raises(ResourceError, match=rf"{file.name}`: it is not there"):
        read_all(files, file)


def test_a_file_that_is_freed_is_gone(tmp_path) -> None:
    files = SpillFiles(tmp_path, TINY)
    one, other = files.write([numbers(10)]), files.write([numbers(10)])
    files.free(one)
    assert names(tmp_path) == [other.name]
    files.free(one)


def test_no_room_is_told_with_the_directory_and_the_size(tmp_path) -> None:
    def fill_up(operation: str, path: str) -> None:
        if operation == "write" and os.path.getsize(path) >= 96:
            raise OSError(errno.ENOSPC, "No space left on device")

    tally = Tally()
    files = SpillFiles(tmp_path, TINY, tally, fill_up)
    reason = rf"no room for a window in `{tmp_path}`: No space left on device, after 96 bytes of a file; make room"
    with pytest.raises(ResourceError, match=reason):
        files.write([numbers(1000)])
    assert not names(tmp_path)
    assert tally.n_held == 0
    assert read_all(files, files.write([numbers(90)]))[:90] == bytes(numbers(90))


def use(directory: Path, operations: Operations) -> None:
    """All that changes the disk: a file each for what was there before, is freed, and is closed with the rest."""
    files = SpillFiles(directory, TINY, hear=operations)
    files._at_exit.detach()  # who dies removes nothing any more
    freed = files.write([numbers(100)])
    files.write([numbers(200)])
    files.free(freed)
    files.close()


@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_operation_fails_nothing_half_made_has_a_whole_name(tmp_path, fault, monkeypatch) -> None:
    operations = Operations()
    use(tmp_path / "spill", operations)
    assert {name for name, _ in operations.seen} == {"mkdir", "open", "write", "fsync", "rename", "unlink"}
    for at in range(len(operations.seen)):
        directory = tmp_path / f"at {at}"
        expected = Death if fault == "death" else ResourceError
        with pytest.raises(expected):
            use(directory, Operations(at, FAULTS[fault]))
        left = names(directory) if directory.exists() else []
        assert all((directory / name).stat().st_size in (100, 200) for name in left if not name.endswith(".part"))
        with monkeypatch.context() as patch:  # the next process
            patch.setattr(spill_names, "_is_running", lambda pid: False)
            SpillFiles(directory, TINY)
        assert not names(directory)


def test_who_is_refused_can_go_on_with_what_there_was(tmp_path) -> None:
    heard: list[str] = []

    def refuse(operation: str, path: str) -> None:
        heard.append(operation)
        if operation in refused:
            raise OSError(errno.ENOSPC, "No space left on device")

    refused: set[str] = set()
    files = SpillFiles(tmp_path, TINY, hear=refuse)
    before = files.write([numbers(100)])
    for operation in ("open", "write", "fsync", "rename"):
        refused = {operation}
        with pytest.raises(ResourceError, match="no room for a window"):
            files.write([numbers(100)])
        assert names(tmp_path) == [before.name]
    refused = set()
    after = files.write([numbers(50)])
    assert read_all(files, before)[:100] == bytes(numbers(100))
    assert read_all(files, after)[:50] == bytes(numbers(50))
    assert files.counts.n_files_written == 2


def test_only_what_dead_processes_have_left_is_removed(tmp_path) -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    dead, alive = (spill_names.stem_of(pid) for pid in (ended.pid, os.getppid()))
    host = dead.split("-")[2]
    kept = [f"{alive}00.1", f"{alive}00.2.part", "other", dead.replace(host, "another"), f"{spill_names.PREFIX}x"]
    for name in [*kept, f"{dead}00.1", f"{dead}00.2.part"]:
        (tmp_path / name).write_bytes(b"x")
    SpillFiles(tmp_path, TINY)
    assert names(tmp_path) == sorted(kept)


def test_files_go_with_their_owner(tmp_path) -> None:
    files, others = SpillFiles(tmp_path, TINY), SpillFiles(tmp_path, TINY)
    files.write([numbers(10)])
    kept = others.write([numbers(10)])
    del files
    assert names(tmp_path) == [kept.name]
    others.close()
    assert not names(tmp_path)


def test_files_of_a_directory_outlive_whoever_wrote_them(tmp_path) -> None:
    """No process is in their names: nobody takes them for what a dead one has left, and others do not write over."""
    files = SpillFiles(tmp_path, TINY, outlives=True)
    kept = files.write([numbers(10)])
    assert str(os.getpid()) not in kept.name.split("-")
    del files
    SpillFiles(tmp_path, TINY)
    others = SpillFiles(tmp_path, TINY, outlives=True)
    assert read_all(others, kept)[:10] == bytes(numbers(10))
    written = others.write([numbers(20)])
    assert names(tmp_path) == sorted([kept.name, written.name])
    others.free(kept)
    assert names(tmp_path) == [written.name]
    others.close()
    assert not names(tmp_path)


def test_a_process_that_was_forked_reads_ahead_with_a_thread_of_its_own(tmp_path, monkeypatch) -> None:
    files = SpillFiles(tmp_path, TINY)
    file = files.write([numbers(1000)])
    assert read_all(files, file)[:1000] == bytes(numbers(1000))
    parents = files._open_reader()
    assert files._open_reader() is parents
    monkeypatch.setattr(os, "getpid", lambda: -1)
    own = files._open_reader()
    assert own is not parents
    assert read_all(files, file)[:1000] == bytes(numbers(1000))
    monkeypatch.undo()
    own.shutdown()
    parents.shutdown()


def test_a_directory_that_cannot_be_made_is_told(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match=r"file/below`: a part of the path is a file"):
        SpillFiles(tmp_path / "file" / "below")


def test_an_allowance_that_refuses_leaves_nothing_behind(tmp_path) -> None:
    tally = Tally(limit=50)
    files = SpillFiles(tmp_path, TINY, tally)
    file = files.write([numbers(300)])
    with pytest.raises(MemoryError):
        read_all(files, file)
    assert tally.n_held == 0
    tally.take(10)
    with suppress(MemoryError):
        files.write([numbers(300)])
    assert names(tmp_path) == [file.name]
