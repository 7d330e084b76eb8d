"""Files for what finds no room in memory: each is written once, whole, and removed when nobody needs it any more.

    sash-spill-<host>-<process>-<random>.3.part   being written
    sash-spill-<host>-<process>-<random>.3        whole: it was synced before it got this name

Nothing is ever written over. What a file holds is known by its checksums, which stay in memory: whatever else comes to
lie there under its name is refused. The files are a cache, so they need not survive: what a process has left that no
longer runs is removed by the next one that starts in the same directory. Unless they belong to the directory: then they
have no process in their names, outlive whoever wrote them, and are removed by the owner of the directory, with it.
"""

from __future__ import annotations

import errno
import os
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from sash.errors import ResourceError, describe_os_error
from sash.store.allowance import Allowance, Boundless, taking
from sash.store.spill_names import PREFIX, find_abandoned, remove_own, stem_of
from sash.store.spill_pages import PagedFile, PagedRead, PageSpan, PageWriter, plan_reads, read_pages

PART = ".part"
PAGE_BYTES = 1 << 16
FRAME_BYTES = 1 << 20
LEAST_PAGE_BYTES = 1 << 10
PAGES_IN_MEMORY = 64
"""So many pages fit into what is for disk, at least."""
GAP_BYTES = 160_000
"""What can be read in the time that another access takes; of disks and of flash alike, for one thread that waits."""

Hear: TypeAlias = Callable[[str, str], None]
"""Called before every operation that changes the disk, with its name and path."""


def hear_nothing(operation: str, path: str) -> None:
    """What nobody listens to."""


@dataclass(frozen=True, slots=True)
class SpillSettings:
    """How files are read and written."""

    page_bytes: int = PAGE_BYTES
    """The unit of reading and of checking; a multiple of eight."""
    frame_bytes: int = FRAME_BYTES
    """The most that is read or written at once."""
    gap_bytes: int = GAP_BYTES
    """What lies between two wanted pages is read with them up to this length."""
    is_cached: bool = True
    """Whether what was read or written may stay in the memory of the operating system."""
    n_buffers: int = 2
    """So many frames are held while reading: one is used, and the next is read."""

    @classmethod
    def within(cls, n_bytes: int, page_bytes: int | None = None, n_reads: int = 1) -> SpillSettings:
        """For so much memory, of which half is for frames, if files are read one within the other, so many at once.
        Pages are small where memory is, if their length is not given.
        """
        page_bytes = page_bytes or min(PAGE_BYTES, max(LEAST_PAGE_BYTES, n_bytes // PAGES_IN_MEMORY // 8 * 8))
        frame_bytes = max(page_bytes, min(n_bytes // 8, n_bytes // (4 * n_reads)))
        return cls(page_bytes, frame_bytes, n_buffers=2 if 4 * n_reads * frame_bytes <= n_bytes else 1)

    @property
    def most_pages(self) -> int:
        return max(1, self.frame_bytes // self.page_bytes)

    @property
    def gap_pages(self) -> int:
        return self.gap_bytes // self.page_bytes


@dataclass(slots=True)
class SpillCounts:
    """What was asked of the disk so far."""

    n_reads: int = 0
    """Accesses: each reads pages that follow each other."""
    n_bytes_read: int = 0
    n_files_written: int = 0
    n_bytes_written: int = 0


class SpillFile(NamedTuple):
    """A file that is there, whole."""

    name: str
    n_bytes: int
    checksums: np.ndarray
    """Of its pages, of which the last may be short."""


class PageFrame(NamedTuple):
    """What was read at once: spans `first_span .. last_span - 1` of those asked for, in bytes from `first_page` on."""

    first_span: int
    last_span: int
    first_page: int
    data: np.ndarray


class SpillFiles:
    """The files of one owner in a directory that others may use as well."""

    def __init__(
        self,
        directory: Path,
        settings: SpillSettings | None = None,
        allowance: Allowance | None = None,
        hear: Hear = hear_nothing,
        outlives: bool = False,
    ):
        """`outlives`: the files belong to the directory, and stay when this process ends."""
        self.directory = directory
        self.settings = settings or SpillSettings()
        self.allowance = allowance or Boundless()
        self.counts = SpillCounts()
        self._hear = hear
        self._stem = f"{PREFIX if outlives else stem_of(os.getpid())}{os.urandom(8).hex()}"
        self._n_names = 0
        self._reader: ThreadPoolExecutor | None = None
        self._reader_pid = 0
        self._at_exit = weakref.finalize(self, remove_own, directory, self._stem, os.getpid())
        self._make_directory()
        if outlives:
            self._at_exit.detach()
        else:
            self._remove_abandoned()

    def write(self, parts: Iterable[np.ndarray]) -> SpillFile:
        """A new file of these bytes, end to end. If it cannot be written, nothing is left of it."""
        self._n_names += 1
        name = f"{self._stem}.{self._n_names}"
        path, part = self.directory / name, self.directory / f"{name}{PART}"
        try:
            n_bytes, checksums = self._write_part(part, parts)
            with self._telling_of(path):
                self._hear("rename", str(path))
                os.rename(part, path)
        except BaseException:
            with suppress(ResourceError):  # it is named as unfinished, and goes when files are closed
                self._remove(part)
            raise
        self.counts.n_files_written += 1
        self.counts.n_bytes_written += n_bytes
        return SpillFile(name, n_bytes, checksums)

    def read(self, file: SpillFile, spans: Sequence[PageSpan]) -> Generator[PageFrame, None, None]:
        """The pages of spans that ascend, in few reads. The bytes are good until the next are asked for.

        The next read is under way meanwhile. Every page is checked.
        """
        reads = plan_reads(spans, self.settings.most_pages, self.settings.gap_pages)
        if not reads:
            return
        n_bytes = max(each.n_pages for each in reads) * self.settings.page_bytes
        n_buffers = min(self.settings.n_buffers, len(reads))
        with taking(self.allowance, n_buffers * n_bytes), self._opened(file) as opened:
            buffers = [np.empty(n_bytes, np.uint8) for _ in range(n_buffers)]
            with closing(self._read_ahead(opened, reads, buffers)) as ready:
                for read, data in zip(reads, ready, strict=True):
                    self.counts.n_reads += 1
                    self.counts.n_bytes_read += len(data)
                    yield PageFrame(read.first_span, read.last_span, read.first_page, data)
                    self._let_go(opened.handle)

    def free(self, file: SpillFile) -> None:
        """Removes a file; one that is gone already is no matter."""
        self._remove(self.directory / file.name)

    def close(self) -> None:
        """Removes all files that were written here. Nothing may be read or written afterwards."""
        if self._reader is not None and self._reader_pid == os.getpid():
            self._reader.shutdown()
        self._reader = None
        for path in sorted(self.directory.glob(f"{self._stem}*")):
            self._remove(path)
        self._at_exit.detach()

    def _make_directory(self) -> None:
        if not self.directory.is_dir():
            with self._telling_of(self.directory):
                self._hear("mkdir", str(self.directory))
                self.directory.mkdir(parents=True, exist_ok=True)

    def _remove_abandoned(self) -> None:
        for path in find_abandoned(self.directory):
            with suppress(ResourceError):  # another user's: it is in nobody's way
                self._remove(path)

    def _write_part(self, part: Path, parts: Iterable[np.ndarray]) -> tuple[int, np.ndarray]:
        """The length and the checksums of what was written and synced."""
        n_bytes = self.settings.most_pages * self.settings.page_bytes
        with taking(self.allowance, n_bytes), self._telling_of(part), self._created(part) as handle:
            tell = partial(self._hear, "write", str(part))
            writer = PageWriter(handle, self.settings.page_bytes, np.empty(n_bytes, np.uint8), tell)
            writer.write(parts)
            checksums = writer.finish()
            self._hear("fsync", str(part))
            os.fsync(handle)
            self._let_go(handle)
        return writer.n_bytes, checksums

    @contextmanager
    def _created(self, path: Path) -> Iterator[int]:
        self._hear("open", str(path))
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            yield handle
        finally:
            os.close(handle)

    @contextmanager
    def _opened(self, file: SpillFile) -> Iterator[PagedFile]:
        path = self.directory / file.name
        with self._telling_of(path):
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield PagedFile(handle, str(path), self.settings.page_bytes, file.n_bytes, file.checksums)
        finally:
            os.close(handle)

    def _read_ahead(
        self, file: PagedFile, reads: list[PagedRead], buffers: list[np.ndarray]
    ) -> Generator[np.ndarray, None, None]:
        """What each read finds. While one is used the next is read, into the other buffer, if there is one."""

        def read(idx: int) -> np.ndarray:
            out = buffers[idx % len(buffers)][: reads[idx].n_pages * file.page_bytes]
            with self._telling_of(Path(file.path)):
                return read_pages(file, reads[idx].first_page, out)

        if len(buffers) == 1:
            yield from map(read, range(len(reads)))
            return
        reader = self._open_reader()
        ahead: Future[np.ndarray] = reader.submit(read, 0)
        try:
            for idx in range(1, len(reads)):
                data = ahead.result()
                ahead = reader.submit(read, idx)
                yield data
            yield ahead.result()
        finally:
            if not ahead.cancel():
                ahead.exception()  # who stops early waits until its buffer is no longer written to

    def _open_reader(self) -> ThreadPoolExecutor:
        """The thread that reads ahead. A process that was forked has none of its parent's."""
        if self._reader is None or self._reader_pid != os.getpid():
            self._reader, self._reader_pid = ThreadPoolExecutor(1, "sash-spill"), os.getpid()
        return self._reader

    def _let_go(self, handle: int) -> None:
        if not self.settings.is_cached:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)

    def _remove(self, path: Path) -> None:
        with self._telling_of(path):
            self._hear("unlink", str(path))
            path.unlink(missing_ok=True)

    @contextmanager
    def _telling_of(self, path: Path) -> Iterator[None]:
        """Tells of what the operating system refuses as an error of Sash's."""
        try:
            yield
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise describe_os_error(error, str(path)) from error
            n_bytes, place = path.stat().st_size if path.exists() else 0, self.directory.resolve()
            raise ResourceError(
                f"no room for a window in `{place}`: {os.strerror(error.errno)}, after {n_bytes} bytes of a file; make "
                "room there, or choose another directory"
            ) from error
