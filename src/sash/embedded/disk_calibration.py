"""`sash calibrate`: what the disk of a directory costs, for windows that outgrow memory.

    write     a file, sequentially, until it is safe
    read      the same, from its beginning to its end
    access    pages of it that are far from each other, less what reading them in order would have cost

Files are written and read by what does so for windows. After each of the three the operating system is asked to forget
what it has of the file: else a disk would seem as fast as memory.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np

from sash.cost.disk_prices import DiskPrices
from sash.store.spill_files import SpillFile, SpillFiles, SpillSettings

FILE_PAGES = 1024
"""64 MiB."""
STRIDE_PAGES = 8
"""So far from each other are pages that are read one by one; what is nearer would be read with them."""
N_ROUNDS = 3
"""The quickest counts: a disk may be busy with something else."""

Clock = Callable[[], float]
"""Seconds that never go back."""


def measure_disk(directory: Path, n_pages: int = FILE_PAGES, clock: Clock = perf_counter) -> DiskPrices:
    """The prices of the disk that a directory is on; nothing is left there."""
    files = SpillFiles(directory, SpillSettings(is_cached=False))
    try:
        rounds = [_measure(files, n_pages, clock) for _ in range(N_ROUNDS)]
    finally:
        files.close()
    write_s, read_s, far_s = (min(each) for each in zip(*rounds))
    n_bytes, n_far = n_pages * files.settings.page_bytes, len(_far_pages(n_pages))
    access = far_s / n_far - read_s / n_pages
    return DiskPrices(write_s / n_bytes, read_s / n_bytes, max(0.0, access))


def _measure(files: SpillFiles, n_pages: int, clock: Clock) -> tuple[float, float, float]:
    """Seconds to write a file, to read all of it, and to read some pages of it."""
    page = np.random.default_rng(n_pages).integers(0, 256, files.settings.page_bytes, np.uint8)
    started = clock()
    file = files.write(page for _ in range(n_pages))
    written = clock()
    _read(files, file, _each(range(n_pages)))
    read = clock()
    _read(files, file, _each(_far_pages(n_pages)))
    far = clock()
    files.free(file)
    return written - started, read - written, far - read


def _read(files: SpillFiles, file: SpillFile, spans: list[tuple[int, int]]) -> None:
    for _ in files.read(file, spans):
        pass


def _far_pages(n_pages: int) -> range:
    return range(STRIDE_PAGES // 2, n_pages, STRIDE_PAGES)


def _each(pages: range) -> list[tuple[int, int]]:
    return [(page, page + 1) for page in pages]
