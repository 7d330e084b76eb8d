"""The memory of a join whose windows outgrow it: frames of blocks, and what is known of every block there is.

A block is a number while it lives, in memory or on disk; then the number is given to another. Its rows are in a frame
or on disk, and nowhere else. Numbers of frames and of blocks are two things: a block that is read back gets a frame.
"""

from __future__ import annotations

import numpy as np

from sash.papers.exact.exact_kernels import block_frames
from sash.papers.exact.exact_kernels.block_frames import END, FREQUENT, NOWHERE, RECENT, WIDTH, BlockHeads, Frames
from sash.papers.exact.residence import Residence

FIRST_BLOCKS = 64


class BlockMemory:
    """Frames of both streams, in buckets by hash; one bucket makes nested loops."""

    def __init__(self, n_frames: int, block_rows: int, n_buckets: int):
        self.block_rows = block_rows
        n_chains = 1 << max(4, (n_frames * block_rows - 1).bit_length())
        self.frames = Frames(
            records=np.zeros((n_frames, block_rows, WIDTH), np.int64),
            n_rows=np.zeros(n_frames, np.int64),
            blocks=np.full(n_frames, -1),
            sides=np.zeros(n_frames, np.int64),
            heads=np.full((2, n_chains), -1),
            links=np.zeros((n_frames * block_rows, 2), np.int64),
            held=np.zeros((2, n_buckets), np.int64),
        )
        self.residence = Residence(FIRST_BLOCKS)
        self.frame_of = np.full(FIRST_BLOCKS, -1)
        """The frame of each block that is in memory."""
        self.numbers = np.zeros(FIRST_BLOCKS, np.int64)
        """BN: the place of a block in the sequence of its stream."""
        self.is_on_disk = np.zeros(FIRST_BLOCKS, np.bool_)
        self.last_end = np.zeros(FIRST_BLOCKS, np.int64)
        """When the last row of a block ends; known from when it is full."""
        self._bucket_productivity = np.zeros((2, n_buckets))
        self._sizes, self._buckets, self._places = (np.zeros(FIRST_BLOCKS, np.int64) for _ in range(3))
        self.productivity = np.zeros(FIRST_BLOCKS)
        self._free_frames = list(range(n_frames - 1, -1, -1))
        self._free_blocks = list(range(FIRST_BLOCKS - 1, -1, -1))
        self.heads = self._make_heads()

    def open_block(self, side: int, bucket: int, number: int) -> int:
        """A new block of the recent segment, with a frame. Its residence is the caller's to begin."""
        if not self._free_blocks:
            self._grow()
        block = self._free_blocks.pop()
        self.numbers[block] = number
        self._sizes[block] = 0
        self._buckets[block] = bucket
        self.productivity[block] = 0.0
        self.is_on_disk[block] = False
        self._places[block] = RECENT
        self._frame(side, block)
        return block

    def load(self, side: int, block: int, records: np.ndarray, place: int) -> None:
        """Puts a block that was read into a frame, where all can meet it."""
        frame = self._frame(side, block)
        size = int(self._sizes[block])
        self.frames.records[frame] = records
        self.frames.n_rows[frame] = size
        self._places[block] = place
        block_frames.link_rows(self.frames, self.heads, frame, 0, size)

    def drop(self, side: int, block: int, first: int = 0) -> None:
        """Takes a block out of memory; its rows below `first` have been taken out before."""
        frame = int(self.frame_of[block])
        if self._places[block] == RECENT:
            self._bucket_productivity[side, self._buckets[block]] -= self.productivity[block]
        block_frames.unlink_rows(self.frames, self.heads, frame, first, int(self.frames.n_rows[frame]))
        self.frames.n_rows[frame] = 0
        self.frames.blocks[frame] = -1
        self._free_frames.append(frame)
        self.frame_of[block] = -1
        self._places[block] = NOWHERE

    def move(self, side: int, block: int, place: int) -> None:
        """A block goes from one segment of memory to another."""
        if self._places[block] == RECENT:
            self._bucket_productivity[side, self._buckets[block]] -= self.productivity[block]
        self._places[block] = place

    def seal(self, block: int) -> None:
        """A block is full, or will take no more."""
        frame = self.frame_of[block]
        self.last_end[block] = self.frames.records[frame, : self.frames.n_rows[frame], END].max()

    def forget(self, block: int) -> None:
        """A block is neither in memory nor on disk."""
        assert self._places[block] == NOWHERE
        self._free_blocks.append(block)

    def decay(self, side: int, blocks: np.ndarray, alpha: float) -> None:
        """Of the productivities of some blocks a part is left."""
        lost = (1 - alpha) * self.productivity[blocks]
        self.productivity[blocks] -= lost
        recent = self._places[blocks] == RECENT
        np.subtract.at(self._bucket_productivity[side], self._buckets[blocks[recent]], lost[recent])

    def place(self, block: int) -> int:
        """Where in memory a block is."""
        return int(self._places[block])

    def are_recent(self, blocks: np.ndarray) -> np.ndarray:
        """Which of some blocks are in the recent segment."""
        return self._places[blocks] == RECENT

    def is_frequent(self, block: int) -> bool:
        return self._places[block] == FREQUENT

    def bucket_productivity(self, side: int) -> np.ndarray:
        """How productive the blocks of each recent bucket are, together."""
        return self._bucket_productivity[side]

    def bucket(self, block: int) -> int:
        return int(self._buckets[block])

    def size(self, block: int) -> int:
        """How many rows a block has."""
        return int(self._sizes[block])

    def records(self, blocks: list[int]) -> np.ndarray:
        """The rows of blocks that are in memory, as they are written to disk."""
        return self.frames.records[self.frame_of[blocks]]

    @property
    def n_free(self) -> int:
        """How many frames nobody uses."""
        return len(self._free_frames)

    @property
    def n_bytes(self) -> int:
        """All memory that is taken: frames, chains, and what is known of every block, its productivity included."""
        known = self.frame_of, self.numbers, self.is_on_disk, self.last_end
        return sum(array.nbytes for array in (*self.frames, *self.heads, *known))

    def _frame(self, side: int, block: int) -> int:
        frame = self._free_frames.pop()
        self.frames.n_rows[frame] = 0
        self.frames.sides[frame], self.frames.blocks[frame] = side, block
        self.frame_of[block] = frame
        return frame

    def _grow(self) -> None:
        n_blocks = len(self.frame_of)
        self.residence.resize(2 * n_blocks)
        self.frame_of = np.pad(self.frame_of, (0, n_blocks), constant_values=-1)
        self.numbers, self.last_end = np.pad(self.numbers, (0, n_blocks)), np.pad(self.last_end, (0, n_blocks))
        self.is_on_disk = np.pad(self.is_on_disk, (0, n_blocks))
        self._sizes, self._buckets = np.pad(self._sizes, (0, n_blocks)), np.pad(self._buckets, (0, n_blocks))
        self._places = np.pad(self._places, (0, n_blocks))
        self.productivity = np.pad(self.productivity, (0, n_blocks))
        self._free_blocks = list(range(2 * n_blocks - 1, n_blocks - 1, -1))
        self.heads = self._make_heads()

    def _make_heads(self) -> BlockHeads:
        residence = self.residence
        known = self._sizes, self._buckets, self._places, self.productivity
        return BlockHeads(*known, residence.born, residence.ranges, residence.n_ranges, self._bucket_productivity)
