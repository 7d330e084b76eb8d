"""A partition of a stream on disk, as RPWJ keeps it: runs, each of which one flush has written.

    partition 3    run of event 40 [b b b]    run of event 91 [b b]    run of event 160 [b b b b]       one access each
    clusters(4)    [b b b | b] [b | b b b] [b]                                                          of 4 blocks

Rows of a run left memory together, so it has one departure time; what has ended leaves from its front.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sash.papers.exact.reactive_tasks import DiskPart
from sash.store.block_disk import BlockDisk, Extent


@dataclass(slots=True)
class _Run:
    """Blocks that one flush has written, at the event `dts`; the first ones may be gone."""

    extent: Extent
    blocks: np.ndarray
    dts: int
    first: int = 0


class Cluster(NamedTuple):
    """Blocks that are read together, and when each left memory."""

    blocks: np.ndarray
    records: np.ndarray
    dts: np.ndarray


class PartitionRuns:
    """The runs of one stream's partition, the oldest first; what the disk takes is told to `wait`, in seconds."""

    def __init__(self, disk: BlockDisk, block_bytes: int, wait: Callable[[float], None]):
        self._disk, self._block_bytes, self._wait = disk, block_bytes, wait
        self._runs: list[_Run] = []
        self._n_blocks = 0

    def __bool__(self) -> bool:
        return bool(self._runs)

    def append(self, blocks: list[int], records: np.ndarray, dts: int) -> None:
        """Writes a run."""
        before = self._disk.counts.seconds
        self._runs.append(_Run(self._disk.append(records), np.array(blocks, np.int64), dts))
        self._n_blocks += len(blocks)
        self._wait(self._disk.counts.seconds - before)

    def clusters(self, n_blocks: int) -> Iterator[Cluster]:
        """All blocks, so many at a time, in the order in which they were written."""
        parts, n_more = [], n_blocks
        for run in self._runs:
            first = run.first
            while first < len(run.blocks):
                last = min(len(run.blocks), first + n_more)
                parts.append(self._read(run, first, last))
                n_more -= last - first
                first = last
                if not n_more:
                    yield _joined(parts)
                    parts, n_more = [], n_blocks
        if parts:
            yield _joined(parts)

    def drop_ended(self, last_end: np.ndarray, sure_us: int) -> list[int]:
        """Forgets the first blocks of each run that have ended; their numbers. `last_end` is when each block ends."""
        gone = []
        for run in self._runs:
            alive = last_end[run.blocks[run.first :]] > sure_us
            n_gone = int(np.argmax(alive)) if alive.any() else len(alive)
            gone += run.blocks[run.first : run.first + n_gone].tolist()
            run.first += n_gone
            self._n_blocks -= n_gone
            if run.first == len(run.blocks):
                self._disk.free(run.extent)
        self._runs = [run for run in self._runs if run.first < len(run.blocks)]
        return gone

    @property
    def blocks(self) -> np.ndarray:
        """The numbers of all blocks."""
        runs = [run.blocks[run.first :] for run in self._runs]
        return np.concatenate(runs) if runs else np.empty(0, np.int64)

    @property
    def last_dts(self) -> int:
        """When the last run was written."""
        return self._runs[-1].dts

    @property
    def part(self) -> DiskPart:
        """How much there is."""
        return DiskPart(len(self._runs), self._n_blocks * self._block_bytes)

    def _read(self, run: _Run, first: int, last: int) -> Cluster:
        before = self._disk.counts.seconds
        (records,) = self._disk.read(run.extent, [(first, last)])
        self._wait(self._disk.counts.seconds - before)
        return Cluster(run.blocks[first:last], records, np.full(last - first, run.dts))


def _joined(parts: list[Cluster]) -> Cluster:
    return parts[0] if len(parts) == 1 else Cluster(*(np.concatenate(each) for each in zip(*parts)))
